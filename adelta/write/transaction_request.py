"""What is asked of a transaction, and where it finds the table."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from adelta._arguments import (
    check_flag,
    check_json_object,
    check_optional_text,
    check_seconds,
    check_text,
)
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.write.commit_options import AS_USUAL, CommitOptions
from adelta.write.commit_timeout import COMMIT_TIMEOUT
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "ONLY_READS",
    "StateOfMoment",
    "StateSource",
    "TransactionRequest",
    "asked_of_transaction",
]

ONLY_READS = "READ"
"""The operation of a transaction that looks at a table and stages nothing, nor is any work."""


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
        operation: what the history calls it; `ONLY_READS` where it is never to become a version.
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
        assignment_zone: the time zone of the statement that computes the rows, so that their values
            are cast to the table's types; None if the rows are a caller's data, which must fit.
        by_hand: whether code of the caller's runs between its verbs, as no operation's does.
        transaction_id: the `txnId` that it bears; None is one of its own.
        commits: what the commits of the handle say beside, and how they are made.
    """

    operation: str
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
    assignment_zone: str | None = None
    by_hand: bool = False
    transaction_id: str | None = None
    commits: CommitOptions = AS_USUAL

    def applications(self, now_ms: int) -> dict[str, SetTransaction]:
        """The application whose work it is by its commits' options, as it is recorded."""
        applied = self.commits.applied_by(self.operation)
        return {} if applied is None else {applied[0]: SetTransaction(*applied, now_ms)}

    def with_commits(self, commits: CommitOptions | None) -> TransactionRequest:
        """The same of a handle whose commits are as `commits` say; None says nothing."""
        if commits is None:
            return self
        told = self.data_files != AS_THE_TABLE_SAYS
        data_files = self.data_files if told else commits.data_files
        return replace(self, commits=commits, data_files=data_files)


def asked_of_transaction(
    operation: str,
    *,
    parameters: Mapping[str, object] | None,
    user_metadata: str | None,
    isolation: str | None,
    timeout: float,
    data_files: DataFileOptions | None,
    group_commit: bool = False,
    rebase: bool = True,
    commit_empty: bool = False,
) -> TransactionRequest:
    """What a user asks of a transaction, by the arguments of `Table.transaction`.

    Raises:
        InvalidOptionError: an argument is of the wrong type.
    """
    return TransactionRequest(
        operation=check_text("operation", operation),
        parameters=check_json_object("parameters", parameters),
        user_metadata=check_optional_text("user_metadata", user_metadata),
        isolation=check_optional_text("isolation", isolation),
        timeout=check_seconds("timeout", timeout),
        data_files=_data_files(data_files),
        group_commit=check_flag("group_commit", group_commit),
        rebase=check_flag("rebase", rebase),
        commits_empty=check_flag("commit_empty", commit_empty),
        by_hand=True,
    )


def _data_files(options: object) -> DataFileOptions:
    if options is not None and not isinstance(options, DataFileOptions):
        raise InvalidOptionError(
            f"data_files is {options!r:.100}; pass adelta.DataFileOptions(...)"
        )
    return options or AS_THE_TABLE_SAYS


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
