"""Whether a position that was kept is of the table that is to be read on from there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from adelta.errors import ChangesNotAvailableError, VersionNotFoundError
from adelta.log.load import load_state

if TYPE_CHECKING:
    from adelta.kernel.position import Position
    from adelta.log.state import LogState

__all__ = ["check_position"]


async def check_position(latest: LogState, position: Position) -> None:
    """Hold the table that `position` is of, where it tells, to the one whose state is `latest`.

    A table keeps its log when it is replaced, and gets another id then: the one that it had at the
    position counts, too.

    Raises:
        ChangesNotAvailableError: it is of another table.
    """
    wanted = position.table_id
    if wanted is None or wanted == latest.metadata.id:
        return
    for version in (position.version - 1, position.version):
        if 0 <= version < latest.version:
            with suppress(VersionNotFoundError):
                if (await load_state(latest.store, version=version)).metadata.id == wanted:
                    return
    raise ChangesNotAvailableError(
        f"{latest.root}: the position {position} is of the table with the id {wanted}, and this "
        f"one has the id {latest.metadata.id}: it was dropped and made anew, or another one is "
        "read; start again from a version of this table, or from a snapshot"
    )
