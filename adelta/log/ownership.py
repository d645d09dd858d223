"""Versions as whoever decides on a table's commits has them, who is named in the log itself.

A store may have to be told what the newest version that it shows says of the table's owner
(`FollowsOwner`), and may show more afterwards. Whatever loads a version does that here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adelta.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState

__all__ = ["FollowsOwner", "followed"]

_CHANGES = 8  # of owners while somebody looks


@runtime_checkable
class FollowsOwner(Protocol):
    """A store that shows the log as the table's owner has it, once it knows who that is."""

    @property
    def is_followed(self) -> bool:
        """Whether it has been told."""
        ...

    async def keep_to(self, configuration: TableConfiguration, version: int) -> None:
        """Take note of what a version says that is certain, and may not be the newest."""
        ...

    async def follow(self, configuration: TableConfiguration, version: int) -> bool:
        """Take note of what the newest version says; whether the store may show more now."""
        ...


async def followed(
    store: FollowsOwner,
    state: LogState,
    look_again: Callable[[LogState], Awaitable[LogState]],
) -> LogState:
    """The newest version, where `state` is the newest that the store has shown.

    Raises:
        InvalidTableError: the owner that the table names says that it does not own it.
        StorageError: the store or the owner refused or failed.
    """
    for _ in range(_CHANGES):
        if not await store.follow(state.configuration, state.version):
            return state
        state = await look_again(state)
    raise StorageError(
        f"{state.root}: who decides on the table's commits changed {_CHANGES} times while its log "
        "was looked at; try again"
    )
