"""Columns that a clause sets, and fields in them: their names, and what becomes of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import AdeltaError, SchemaMismatchError
from adelta.kernel.expressions.nodes import Column
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema.types import ArrayType, DataType, MapType, StructField, StructType
from adelta.operations.merge.assignments import StructValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.merge.assignments import Assigned

__all__ = ["column_path", "covers", "field_at", "nested"]


def column_path(name: str, schema: StructType, alias: str) -> tuple[str, ...] | None:
    """The path that `name` stands for, as `schema` spells it; None where there is none.

    Example: ``target.a.b`` is ``("a", "b")`` of a column ``a`` of structs.
    """
    whole = schema.field(name)
    if whole is not None:
        return (whole.name,)
    try:
        node = parse_expression(name)
    except AdeltaError:
        return None
    if not isinstance(node, Column):
        return None
    path = node.path
    if len(path) > 1 and path[0].lower() == alias.lower():
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
        raise SchemaMismatchError(f"the table has no column {'.'.join(path)!r}")
    return field


def nested(
    schema: StructType, values: Mapping[tuple[str, ...], Node], alias: str
) -> Iterator[tuple[str, Assigned]]:
    """What columns are set to, where `values` are by path; other fields of structs stay."""
    for name in dict.fromkeys(path[0] for path in values):
        yield name, _value(field_at(schema, (name,)), (name,), values, alias)


def _value(
    field: StructField,
    path: tuple[str, ...],
    values: Mapping[tuple[str, ...], Node],
    alias: str,
) -> Assigned:
    if path in values:
        return values[path]
    kept = Column((alias, *path))
    if not any(each[: len(path)] == path for each in values):
        return kept
    assert isinstance(field.type, StructType)
    inner = ((each.name, _value(each, (*path, each.name), values, alias)) for each in field.type)
    return StructValue(kept, tuple(inner))


def covers(target: DataType, source: DataType, path: str) -> str | None:
    """The first field, at any depth, that the target's structs have and the source's lack."""
    match target, source:
        case StructType(), StructType():
            for field in target:
                inner, given = f"{path}.{field.name}", source.field(field.name)
                lacking = inner if given is None else covers(field.type, given.type, inner)
                if lacking is not None:
                    return lacking
        case ArrayType(), ArrayType():
            return covers(target.element_type, source.element_type, f"{path}.element")
        case MapType(), MapType():
            return covers(target.key_type, source.key_type, f"{path}.key") or covers(
                target.value_type, source.value_type, f"{path}.value"
            )
    return None
