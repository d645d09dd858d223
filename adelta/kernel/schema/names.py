"""Names of columns: which are allowed, which files use, and how to walk them.

Files, partition values and statistics know a column by its physical name, users by its logical one;
without column mapping the two are the same (PROTOCOL.md, "Column Mapping").
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "COLUMN_ID_KEY",
    "FIELD_ID_KEY",
    "NESTED_FIELD_IDS_KEY",
    "NESTED_IDS_KEY",
    "PHYSICAL_NAME_KEY",
    "apart",
    "as_nullable",
    "check_column_names",
    "column_id",
    "contains_type",
    "leaf_fields",
    "map_fields",
    "physical_name",
    "physical_schema",
    "walk_fields",
    "without_field_metadata",
]

PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
"""Field metadata: the name that files use."""
NESTED_IDS_KEY = "delta.columnMapping.nested.ids"
"""Field metadata: ids of the elements, keys and values below a field, by physical path."""
COLUMN_ID_KEY = "delta.columnMapping.id"
"""Field metadata: the number that Parquet columns bear as their field id."""

FIELD_ID_KEY = "parquet.field.id"
"""Field metadata, set on physical schemas only: the id that the Parquet column bears."""

NESTED_FIELD_IDS_KEY = "parquet.field.nested.ids"
"""Field metadata, set on physical schemas only: ids of elements, keys and values, by path."""

_UNMAPPED = "none"
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")


def physical_name(field: StructField, mode: str) -> str:
    """The name that files, partition values and statistics have for a field, by mapping mode.

    Raises:
        InvalidTableError: columns are mapped, and the field has no physical name.
    """
    if mode == _UNMAPPED:
        return field.name
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    if not isinstance(name, str):
        raise InvalidTableError(
            f"the table maps its columns by {mode}, but column {field.name!r} has no physical "
            "name; its metadata is damaged"
        )
    return name


def column_id(field: StructField) -> int | None:
    """The column mapping id of a field, where it has one."""
    found = field.metadata.get(COLUMN_ID_KEY)
    return found if isinstance(found, int) else None


def physical_schema(schema: StructType, mode: str) -> StructType:
    """The schema as files have it: physical names at every depth, and field ids where mapped.

    Raises:
        InvalidTableError: columns are mapped, and a field has no physical name.
    """
    return schema if mode == _UNMAPPED else StructType(tuple(_physical(f, mode) for f in schema))


def _physical(field: StructField, mode: str) -> StructField:
    found = column_id(field)
    return StructField(
        physical_name(field, mode),
        _physical_type(field.type, mode),
        field.nullable,
        {} if found is None else {FIELD_ID_KEY: found, **_nested_ids(field)},
    )


def _nested_ids(field: StructField) -> dict[str, object]:
    ids = field.metadata.get(NESTED_IDS_KEY)
    return {NESTED_FIELD_IDS_KEY: ids} if ids else {}


def _physical_type(data_type: DataType, mode: str) -> DataType:
    match data_type:
        case StructType():
            return physical_schema(data_type, mode)
        case ArrayType(element):
            return replace(data_type, element_type=_physical_type(element, mode))
        case MapType(key, value):
            return replace(
                data_type,
                key_type=_physical_type(key, mode),
                value_type=_physical_type(value, mode),
            )
    return data_type


def as_nullable(schema: StructType) -> StructType:
    """The same schema with everything but map keys nullable, as data files declare it."""
    return StructType(tuple(replace(f, type=_nullable_type(f.type), nullable=True) for f in schema))


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return as_nullable(data_type)
        case ArrayType(element):
            return ArrayType(_nullable_type(element), True)
        case MapType(key, value):
            return MapType(_nullable_type(key), _nullable_type(value), True)
    return data_type


def walk_fields(
    data_type: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every field at any depth with its path, parents first.

    The steps ``element``, ``key`` and ``value`` lead into arrays and maps.
    """
    match data_type:
        case StructType(fields):
            for f in fields:
                yield (*path, f.name), f
                yield from walk_fields(f.type, (*path, f.name))
        case ArrayType(element):
            yield from walk_fields(element, (*path, "element"))
        case MapType(key, value):
            yield from walk_fields(key, (*path, "key"))
            yield from walk_fields(value, (*path, "value"))


def map_fields(schema: StructType, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with every field at any depth changed, inner fields first."""

    def mapped(data_type: DataType) -> DataType:
        match data_type:
            case StructType():
                return map_fields(data_type, change)
            case ArrayType(element):
                return replace(data_type, element_type=mapped(element))
            case MapType(key, value):
                return replace(data_type, key_type=mapped(key), value_type=mapped(value))
        return data_type

    return StructType(tuple(change(replace(f, type=mapped(f.type))) for f in schema))


def without_field_metadata(schema: StructType, *keys: str) -> StructType:
    """The schema with no field, at any depth, bearing these keys of metadata."""

    def stripped(field: StructField) -> StructField:
        kept = {key: value for key, value in field.metadata.items() if key not in keys}
        return replace(field, metadata=kept)

    return map_fields(schema, stripped)


def contains_type(data_type: DataType, wanted: DataType) -> bool:
    """Whether a type is, or has at any depth, the type that is wanted."""
    match data_type:
        case StructType(fields):
            return any(contains_type(f.type, wanted) for f in fields)
        case ArrayType(element):
            return contains_type(element, wanted)
        case MapType(key, value):
            return contains_type(key, wanted) or contains_type(value, wanted)
    return data_type == wanted


def leaf_fields(
    schema: StructType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """The fields that are no structs, in the schema's order, with their paths of struct fields.

    An array or a map is one leaf, whatever is in it.
    """
    for f in schema:
        inner = (*path, f.name)
        if isinstance(f.type, StructType):
            yield from leaf_fields(f.type, inner)
        else:
            yield inner, f


def check_column_names(schema: StructType, *, mapped: bool = False) -> None:
    """Refuse a schema whose names Delta cannot hold.

    Raises:
        SchemaMismatchError: two names differ in case alone, one is empty, or one has a character
            that Parquet's readers stumble over (allowed where columns are mapped).
    """
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path, field in walk_fields(schema):
        shown = ".".join(path)
        folded = tuple(step.lower() for step in path)
        if folded in seen:
            raise SchemaMismatchError(
                f"the schema has two columns {'.'.join(seen[folded])!r} and {shown!r}, which Delta "
                "cannot tell apart; rename one of them"
            )
        seen[folded] = path
        if not field.name:
            raise SchemaMismatchError(
                f"the schema has a column without a name at {shown!r}; give it one"
            )
        if not mapped and (found := _FORBIDDEN.search(field.name)):
            raise SchemaMismatchError(
                f"the column name {shown!r} holds {found[0]!r}, which needs column mapping; "
                "rename the column, or set the property delta.columnMapping.mode to 'name'"
            )


def apart(names: Sequence[str]) -> list[str]:
    """The names, of which those that were there before have a number behind them."""
    times, found = Counter[str](), []
    for name in names:
        times[name.lower()] += 1
        found.append(name if times[name.lower()] == 1 else f"{name} {times[name.lower()]}")
    return found
