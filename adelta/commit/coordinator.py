"""The port through which a version is claimed, and the four ways in which that can end.

A coordinator gives mutual exclusion: of all the attempts at one version, by any process, at most
one is ever answered with `Committed`. It never overwrites a version that is there, and never
leaves one behind a version that is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from adelta._dataclasses import dataclass

__all__ = [
    "LOOK_HOLDS",
    "CommitCoordinator",
    "CommitOutcome",
    "Committed",
    "HasBase",
    "Lost",
    "Unknown",
    "WithoutBase",
]


@dataclass(frozen=True, slots=True)
class Committed:
    """The version is ours. `timestamp_ms` is the time that the log's store gives it.

    `repeated` says that an earlier request got no answer, which may still be carried out.
    """

    version: int
    timestamp_ms: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """There is a commit of that version, as far as the store tells another writer's.

    It may be ours all the same, where the answer to an earlier request was lost: whoever reads it
    knows it by its `txnId`.
    """

    version: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store took the attempt and cannot be asked what became of it."""

    version: int
    cause: Exception


@dataclass(frozen=True, slots=True)
class WithoutBase:
    """The log does not have the version that this one was to follow; nothing of it is there."""

    version: int


CommitOutcome = Committed | Lost | Unknown | WithoutBase
"""How an attempt ended."""

LOOK_HOLDS = 1.0
"""Seconds for which a look for the base holds: after a put that took longer there is another."""

HasBase = Callable[[], Awaitable[bool]]
"""Asks whether what a commit stands on is there: the version before, of the same table; or, of the
first commit, the objects that were written for it."""


class CommitCoordinator(Protocol):
    """Claims versions of one table."""

    async def commit(
        self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
    ) -> CommitOutcome:
        """Try to make `data` the commit of `version`.

        `transaction_id` is the `txnId` that stands in `data`: a lost answer is cleared up by it.
        `has_base` is asked at the same moment, unless the coordinator itself knows what came last.
        Whatever it raises, certainly nothing was committed.

        Raises:
            InvalidTableError: log and coordinator contradict each other.
            InvalidOptionError: the options do not say how writers are kept apart.
            StorageError: the store refused.
        """
        ...

    async def recover(self) -> int | None:
        """Put in place the commits that are made but whose files are missing; the last version.

        The log shows every commit made before the call afterwards. The version is the last one that
        the coordinator knows to be there, whoever has put it there and when: a look at the log
        before may have missed it. None where it keeps no account of commits.

        Raises:
            StorageError: there may be such a commit, and it could not be put in place.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        ...
