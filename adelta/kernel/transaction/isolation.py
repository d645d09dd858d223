"""Isolation levels: which of the files that others added a transaction must have seen.

The levels and their names are Delta Spark's. A table says by `delta.isolationLevel` which one holds
for it, `Serializable` where it says nothing; a transaction may ask for another one, but not for a
weaker one than the table says. A commit that changes no data falls to `SnapshotIsolation`: it only
moves rows about, or does nothing and has read nothing, so rows that others add do not concern it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from adelta import _compute as pc
from adelta.errors import InvalidOptionError, InvalidPropertyError
from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.read_set import ReadSet

__all__ = ["IsolationLevel", "effective_level", "isolation_level"]


class IsolationLevel(Enum):
    """How strictly commits are ordered."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"

    def must_see_adds_of(self, winner: Commit, staged: StagedChanges) -> bool:
        """Whether files that `winner` added count as conflicts with what `staged` read."""
        if self is IsolationLevel.SERIALIZABLE:
            return True
        if self is IsolationLevel.WRITE_SERIALIZABLE:
            return staged.metadata is not None or not winner.info.is_blind_append
        return False


_BY_NAME = {level.value: level for level in IsolationLevel}
_STORED = {  # some writers fold the case
    level.value.lower(): level
    for level in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE)
}
_STRONGEST_FIRST = tuple(IsolationLevel)


def isolation_level(
    asked: str | None, configuration: Mapping[str, str] | None = None
) -> IsolationLevel:
    """The level of a transaction that asks for `asked`, None being what the table says.

    `configuration` are the table's properties, where these are known.

    Raises:
        InvalidOptionError: there is no such level, it cannot be asked for, or it is weaker than
            the table's.
        InvalidPropertyError: the table says something that is no level.
    """
    said = TableProperties.isolation_level.text(configuration or {})
    stored = None if said is None else _STORED.get(said.lower())
    if said is not None and stored is None:
        raise InvalidPropertyError(
            f"{TableProperties.isolation_level.key} of the table is {said!r}, which is no "
            "isolation level; set it to 'Serializable', or unset it"
        )
    if asked is None:
        return stored or IsolationLevel.SERIALIZABLE
    level = _BY_NAME.get(asked)
    if level is None or level is IsolationLevel.SNAPSHOT:
        raise InvalidOptionError(
            f"there is no isolation level {asked!r}; choose 'Serializable' or 'WriteSerializable', "
            "or None for the table's"
        )
    if stored is not None and _STRONGEST_FIRST.index(level) > _STRONGEST_FIRST.index(stored):
        raise InvalidOptionError(
            f"the table's {TableProperties.isolation_level.key} is {said}, and {asked} is weaker; "
            "ask for that level or a stronger one, or None for the table's"
        )
    return level


def effective_level(staged: StagedChanges, read: ReadSet, asked: IsolationLevel) -> IsolationLevel:
    """The level that `staged` commits under: `asked`, unless it only rearranges rows, or is empty.

    What a commit of nothing has `read` is to hold all the same: changes of other tables may rest on
    it, which are committed with this one.
    """
    if staged.metadata or staged.protocol or staged.set_transactions or staged.domains:
        return asked
    if not (staged.adds or staged.removes.num_rows or read.is_empty):
        return asked
    changes = any(add.data_change for add in staged.adds) or _any_true(
        staged.removes.column("data_change")
    )
    return asked if changes else IsolationLevel.SNAPSHOT


def _any_true(column: pa.ChunkedArray[Any]) -> bool:
    return bool(pc.any(column).as_py())
