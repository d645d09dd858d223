"""Isolation levels: which of the files that others added a transaction must have seen.

The levels and their names are Delta Spark's. A table may only be set to `Serializable`, the
default; `WriteSerializable` is chosen for one transaction. A commit that changes no data falls to
`SnapshotIsolation`: it only moves rows about, so rows that others add do not concern it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from adelta.kernel.staged import StagedChanges, WinningCommit

__all__ = ["IsolationLevel", "effective_level", "isolation_level"]


class IsolationLevel(Enum):
    """How strictly commits are ordered."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"

    def must_see_adds_of(self, winner: WinningCommit, staged: StagedChanges) -> bool:
        """Whether files that `winner` added count as conflicts with what `staged` read."""
        if self is IsolationLevel.SERIALIZABLE:
            return True
        if self is IsolationLevel.WRITE_SERIALIZABLE:
            return staged.metadata is not None or not winner.is_blind_append
        return False


def isolation_level(text: str) -> IsolationLevel:
    """The level that a caller names.

    Raises:
        InvalidOptionError: there is no such level, or it cannot be asked for.
    """
    for level in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE):
        if text == level.value:
            return level
    raise InvalidOptionError(
        f"there is no isolation level {text!r}; choose 'Serializable' or 'WriteSerializable'"
    )


def effective_level(staged: StagedChanges, asked: IsolationLevel) -> IsolationLevel:
    """The level that `staged` commits under: `asked`, unless it only rearranges rows."""
    if staged.metadata or staged.protocol or staged.set_transactions or staged.domains:
        return asked
    if not staged.adds and not staged.removes.num_rows:
        return asked
    changes = any(add.data_change for add in staged.adds) or _any_true(
        staged.removes.column("data_change")
    )
    return asked if changes else IsolationLevel.SNAPSHOT


def _any_true(column: pa.ChunkedArray[Any]) -> bool:
    return bool(pc.any(column).as_py())
