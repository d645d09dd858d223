"""The columns that a merge with ``schema_mode="merge"`` adds to its target.

They are those of the source that a clause gives values to under their own names: all of them where
there is an ``*``. Structs take in fields in the same way, at any depth. A column that both sides
have keeps its type, to which values are cast, unless the table allows it to become wider.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.evolution import merge_schemas
from adelta.kernel.schema.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["columns_to_take_in"]


def columns_to_take_in(
    target: StructType,
    source: StructType,
    assigned: Collection[tuple[str, ...]],
    *,
    star: bool,
    widening: bool,
) -> StructType:
    """What of the schema `source` is to be merged into `target`.

    `assigned` are the paths of columns and fields that clauses set by name, and `star` is whether a
    clause sets all that the source has. `widening` is whether columns may become wider.
    """
    paths = {tuple(part.lower() for part in path) for path in assigned}
    chosen = _chosen(source, (), paths, star=star)
    return _fitted(target, chosen, widening=widening)


def _chosen(
    schema: StructType, base: tuple[str, ...], paths: Collection[tuple[str, ...]], *, star: bool
) -> StructType:
    fields = []
    for field in schema:
        path = (*base, field.name.lower())
        if path in paths:
            fields.append(field)
        elif isinstance(field.type, StructType) and (
            star or any(each[: len(path)] == path for each in paths)
        ):
            fields.append(replace(field, type=_chosen(field.type, path, paths, star=star)))
        elif star:
            fields.append(field)
    return StructType(tuple(fields))


def _fitted(target: StructType, source: StructType, *, widening: bool) -> StructType:
    """`source` with the target's types wherever these stay."""
    fields = []
    for field in source:
        known = target.field(field.name)
        if known is None:
            fields.append(field)
        else:
            fields.append(replace(field, type=_type(known.type, field.type, widening=widening)))
    return StructType(tuple(fields))


def _type(target: DataType, source: DataType, *, widening: bool) -> DataType:
    match target, source:
        case StructType(), StructType():
            return _fitted(target, source, widening=widening)
        case ArrayType(), ArrayType():
            inner = _type(target.element_type, source.element_type, widening=widening)
            return replace(source, element_type=inner)
        case MapType(), MapType():
            key = _type(target.key_type, source.key_type, widening=widening)
            value = _type(target.value_type, source.value_type, widening=widening)
            return replace(source, key_type=key, value_type=value)
    try:
        merge_schemas(_one(target), _one(source), widening=widening)
    except SchemaMismatchError:
        return target
    return source


def _one(data_type: DataType) -> StructType:
    return StructType((StructField("value", data_type),))
