"""Columns that an update sets, and fields in them: their names, and what becomes of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._dataclasses import dataclass
from adelta.errors import ColumnNotFoundError
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import Column, Node
from adelta.kernel.schema.types import DataType, StructField, StructType
from adelta.kernel.table_properties import split_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Assigned", "StructValue", "column_path", "field_at", "nested", "nodes_of", "value_of"]


@dataclass(frozen=True, slots=True)
class StructValue:
    """A struct some of whose fields are set, and the others kept.

    `kept` is the struct as it was, `fields` are the values by field, in the order of the target.
    A struct that was null becomes one, with what is set in it. Where `source` is given, all that is
    set comes of that struct; where both it and `kept` are null, nothing becomes of it.
    """

    kept: Column
    fields: tuple[tuple[str, Assigned], ...]
    source: Column | None = None

    def evaluate(self, rows: pa.RecordBatch) -> pa.Array[Any]:
        """The struct for each of `rows`.

        Raises:
            InvalidExpressionError: a value cannot be computed.
        """
        arrays = [value_of(value, rows) for _, value in self.fields]
        names = [name for name, _ in self.fields]
        mask = None
        if self.source is not None:
            mask = pc.is_null(evaluate(self.source, rows))
            mask = pc.and_(mask, pc.is_null(evaluate(self.kept, rows)))
        return pa.StructArray.from_arrays(arrays, names, mask=mask)


Assigned = Node | StructValue
"""What a column or a field is set to."""


def value_of(value: Assigned, rows: pa.RecordBatch) -> pa.Array[Any]:
    """The values for each of `rows`, as `Sides.paired` makes them.

    Raises:
        InvalidExpressionError: a value cannot be computed.
    """
    return value.evaluate(rows) if isinstance(value, StructValue) else evaluate(value, rows)


def nodes_of(value: Assigned) -> Iterator[Node]:
    """The expressions that a value is made of."""
    if not isinstance(value, StructValue):
        yield value
        return
    yield value.kept
    if value.source is not None:
        yield value.source
    for _, inner in value.fields:
        yield from nodes_of(inner)


def column_path(name: str, schema: StructType, alias: str | None = None) -> tuple[str, ...] | None:
    """The path that `name` stands for, as `schema` spells it; None where there is none.

    Example: ``target.a.b`` is ``("a", "b")`` of a column ``a`` of structs, and so is
    ``target.`a`.`b` ``.

    A column that bears all of the name comes first, unless the name begins with a backtick.
    """
    whole = schema.field(name)
    if whole is not None and not name.startswith("`"):
        return (whole.name,)
    found = _path_within(name, schema, alias)
    return (whole.name,) if found is None and whole is not None else found


def _path_within(name: str, schema: StructType, alias: str | None) -> tuple[str, ...] | None:
    try:
        paths = split_columns(name)
    except ValueError:
        return None
    if len(paths) != 1:
        return None
    path = paths[0]
    if alias is not None and len(path) > 1 and path[0].lower() == alias.lower():
        within = _spelt(schema, path[1:])
        if within is not None:
            return within
    return _spelt(schema, path)


def _spelt(schema: StructType, path: tuple[str, ...]) -> tuple[str, ...] | None:
    found: list[str] = []
    here: DataType = schema
    for name in path:
        field = here.field(name) if isinstance(here, StructType) else None
        if field is None:
            return None
        found.append(field.name)
        here = field.type
    return tuple(found)


def field_at(schema: StructType, path: tuple[str, ...]) -> StructField:
    """The column or field at a path that `column_path` has found.

    Raises:
        SchemaMismatchError: there is none.
    """
    here: DataType = schema
    field = None
    for name in path:
        field = here.field(name) if isinstance(here, StructType) else None
        if field is None:
            break
        here = field.type
    if field is None:
        raise ColumnNotFoundError(f"the table has no column {'.'.join(path)!r}")
    return field


def nested(
    schema: StructType, values: Mapping[tuple[str, ...], Node], alias: str | None = None
) -> Iterator[tuple[str, Assigned]]:
    """What columns are set to, where `values` are by path; other fields of structs stay.

    `alias` is what the rows are called by, where they are named beside others.
    """
    above = () if alias is None else (alias,)
    for name in dict.fromkeys(path[0] for path in values):
        yield name, _value(field_at(schema, (name,)), (name,), values, above)


def _value(
    field: StructField,
    path: tuple[str, ...],
    values: Mapping[tuple[str, ...], Node],
    above: tuple[str, ...],
) -> Assigned:
    if path in values:
        return values[path]
    kept = Column((*above, *path))
    if not any(each[: len(path)] == path for each in values):
        return kept
    assert isinstance(field.type, StructType)
    inner = ((each.name, _value(each, (*path, each.name), values, above)) for each in field.type)
    return StructValue(kept, tuple(inner))
