"""What is asked of a transaction, and where it finds the table."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from adelta._dataclasses import dataclass
from adelta.write.commit_options import AS_USUAL, CommitOptions
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["COMMIT_TIMEOUT", "StateOfMoment", "StateSource", "TransactionRequest"]

COMMIT_TIMEOUT = 300.0
"""Seconds for which lost races are run again."""


class StateSource(Protocol):
    """Where a transaction finds the state that it is made against, and leaves the one it makes."""

    @property
    def store(self) -> ObjectStore:
        """The store of the table's root."""
        ...

    async def known_state(self) -> LogState:
        """A recent state, without I/O where there is one at hand."""
        ...

    async def latest_state(self) -> LogState:
        """The latest state."""
        ...

    async def state_at(self, version: int) -> LogState:
        """The state at a version."""
        ...

    def publish_state(self, state: LogState) -> None:
        """Take note of a newer state."""
        ...

    def doubt_state(self) -> None:
        """Take note that the log may not be what is known of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRequest:
    """What is asked of a transaction.

    Attributes:
        operation: what the history calls it.
        parameters: what the history says of how it was done.
        user_metadata: what the history says for the user.
        isolation: the name of the isolation level; None is the table's.
        timeout: seconds for which lost races are run again.
        data_files: how data files are to be.
        group_commit: whether it may become one version with others.
        rebase: whether commits that come first, and do no harm, are gone behind.
        commits_empty: whether it becomes a version even if it changes nothing.
        from_latest: whether it begins with a look at the log, and not with what is known of it.
        at_version: the version that it begins on, whatever came after; None is the newest.
        by_hand: whether code of the caller's runs between its verbs, as no operation's does.
        transaction_id: the `txnId` that it bears; None is one of its own.
        commits: what the commits of the handle say beside, and how they are made.
    """

    operation: str = "WRITE"
    parameters: Mapping[str, object] = field(default_factory=dict)
    user_metadata: str | None = None
    isolation: str | None = None
    timeout: float = COMMIT_TIMEOUT
    data_files: DataFileOptions = AS_THE_TABLE_SAYS
    group_commit: bool = False
    rebase: bool = True
    commits_empty: bool = False
    from_latest: bool = False
    at_version: int | None = None
    by_hand: bool = False
    transaction_id: str | None = None
    commits: CommitOptions = AS_USUAL


class StateOfMoment:
    """A `StateSource` that gives out the state of one moment, and no later one.

    What comes to be known is handed on to `source`, where the state is from.
    """

    def __init__(self, source: StateSource, state: LogState) -> None:
        self._source = source
        self._state = state

    @property
    def store(self) -> ObjectStore:
        """The store of the table's root."""
        return self._source.store

    async def known_state(self) -> LogState:
        """The state of the moment."""
        return self._state

    async def latest_state(self) -> LogState:
        """The state of the moment."""
        return self._state

    async def state_at(self, version: int) -> LogState:
        """The state at a version."""
        return await self._source.state_at(version)

    def publish_state(self, state: LogState) -> None:
        """Take note of a newer state."""
        self._source.publish_state(state)

    def doubt_state(self) -> None:
        """Take note that the log may not be what is known of it."""
        self._source.doubt_state()
