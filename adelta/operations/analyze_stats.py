"""The `stats` texts of files that are analysed: what they lack, and what is put into them.

Of some columns no bounds can be stated, such as the greatest value where there is a NaN. A file
never changes, so that a tag of its action says of which columns that has been found, and they are
not read again. It is no statistic, and claims nothing to readers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.names import leaf_fields, physical_schema
from adelta.kernel.statistics import has_bounds, stats_leaves, writes_bounds
from adelta.operations.dependents import column_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["UNBOUNDED_TAG", "Unbounded", "WantedColumn", "lacks", "merged_stats", "wanted_columns"]

UNBOUNDED_TAG = "adelta.statistics.unbounded"
"""The tag of a file that names the columns of which no bounds can be stated."""

_BOUNDS = ("minValues", "maxValues")
_BY_COLUMN = (*_BOUNDS, "nullCount")
_OWN = ("numRecords", "tightBounds", *_BY_COLUMN)


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A leaf column that is to have statistics: as the table names it, and as files do."""

    logical: tuple[str, ...]
    physical: tuple[str, ...]
    type: t.DataType

    @property
    def bounded(self) -> bool:
        """Whether files get bounds for the column."""
        return writes_bounds(self.type)


def wanted_columns(
    configuration: TableConfiguration, columns: Sequence[str] | None
) -> tuple[WantedColumn, ...]:
    """The leaves of `columns`, as for `column_path`; None for those that the table's writers state.

    Raises:
        InvalidOptionError: there is no such column, it is a partition column, or it has to stand
            between backticks.
        InvalidPropertyError: the property that decides has a value that is not allowed.
    """
    schema, mode = configuration.schema, configuration.column_mapping_mode
    partitions = {f.name.lower() for f in configuration.partition_fields}
    pairs = zip(leaf_fields(schema), leaf_fields(physical_schema(schema, mode)), strict=True)
    leaves = [
        WantedColumn(logical, physical, field.type)
        for (logical, field), (physical, _) in pairs
        if logical[0].lower() not in partitions and field.type != t.VOID
    ]
    if columns is None:
        names = configuration.metadata.partition_columns
        stated = set(stats_leaves(schema, configuration.properties, names, mode))
        return tuple(leaf for leaf in leaves if leaf.physical in stated)
    found: dict[WantedColumn, None] = {}
    for name in columns:
        try:
            path = column_path(schema, name)
        except SchemaMismatchError:
            path = ()
        below = [leaf for leaf in leaves if path and leaf.logical[: len(path)] == path]
        if not below:
            kind = "a partition column" if path and path[0].lower() in partitions else "no column"
            raise InvalidOptionError(
                f"{name!r} is {kind} of the table, so there are no statistics of it; name data "
                f"columns, such as {', '.join(shown(leaf.logical) for leaf in leaves[:3])}"
            )
        found.update(dict.fromkeys(below))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Columns of a file of which no bounds can be stated, where texts are cut to a `prefix`."""

    prefix: int
    columns: frozenset[tuple[str, ...]] = frozenset()

    @classmethod
    def of(cls, tag: str | None, prefix: int) -> Unbounded:
        """What a file's tag says; nothing where texts were cut otherwise, or it cannot be read."""
        try:
            found = orjson.loads(tag or "{}")
            if found["prefix"] == prefix:
                return cls(prefix, frozenset(tuple(map(str, path)) for path in found["columns"]))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            pass  # of another writer, who may name tags as it likes
        return cls(prefix)

    def after(self, stats: str, columns: Sequence[WantedColumn]) -> Unbounded:
        """With those of `columns` that an analysis has looked at, and `stats` lack bounds of."""
        found = _parsed(stats)
        missing = {each.physical for each in columns if _lacks_bounds(found, each)}
        looked_at = {each.physical for each in columns}
        return Unbounded(self.prefix, (self.columns - looked_at) | missing)

    @property
    def tag(self) -> str | None:
        """The text of the tag; None where there is no such column."""
        if not self.columns:
            return None
        return orjson.dumps({"prefix": self.prefix, "columns": sorted(self.columns)}).decode()


def lacks(stats: str | None, columns: Sequence[WantedColumn], unbounded: Unbounded) -> bool:
    """Whether `stats` leave out the number of rows, or anything of `columns` that could be said."""
    found = _parsed(stats)
    if not isinstance(found.get("numRecords"), str):
        return True
    return any(
        _at(found.get("nullCount"), column.physical) is None
        or (column.physical not in unbounded.columns and _lacks_bounds(found, column))
        for column in columns
    )


def _lacks_bounds(found: dict[str, Any], column: WantedColumn) -> bool:
    nulls = _at(found.get("nullCount"), column.physical)
    if not has_bounds(column.type) or nulls == found.get("numRecords"):
        return False
    return any(_at(found.get(name), column.physical) is None for name in _BOUNDS)


def merged_stats(
    before: str | None, now: str, columns: Sequence[WantedColumn], *, wide: bool
) -> str:
    """`before` with what `now` says of rows and `columns`; every other number stays as it is.

    With `wide` bounds they are those of all rows of a file, of which some are deleted. Bounds that
    were wide before stay so, as long as one of them is kept.
    """
    old, new = _parsed(before), _parsed(now)
    kept = {name: _without(old.get(name), columns) for name in _BY_COLUMN}
    made: dict[str, Any] = {"numRecords": new["numRecords"]}
    if wide or (old.get("tightBounds") is False and any(kept.values())):
        made["tightBounds"] = _Raw("false")
    for name, tree in kept.items():
        found = new.get(name)
        made[name] = _joined(tree, found if isinstance(found, dict) else {})
    made.update((name, value) for name, value in old.items() if name not in _OWN)
    return _text(made)


class _Raw(str):
    """A number as it was written, or another word of JSON."""

    __slots__ = ()


def _parsed(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}", parse_float=_Raw, parse_int=_Raw, parse_constant=_Raw)
    except json.JSONDecodeError:  # of another writer; what cannot be read is written anew
        return {}
    return found if isinstance(found, dict) else {}


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


def _without(found: Any, columns: Sequence[WantedColumn]) -> dict[str, Any]:
    tree: dict[str, Any] = found if isinstance(found, dict) else {}
    for column in columns:
        _drop(tree, column.physical)
    return tree


def _drop(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    first, *below = path
    part = tree.get(first)
    if not below:
        tree.pop(first, None)
    elif isinstance(part, dict):
        _drop(part, tuple(below))
        if not part:
            del tree[first]


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    joined = dict(one)
    for name, value in other.items():
        known = joined.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            joined[name] = _joined(known, value)
        else:
            joined[name] = value
    return joined


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(k)}:{_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value) if isinstance(value, _Raw) else _quoted(value)


def _quoted(value: Any) -> str:
    return orjson.dumps(value).decode()
