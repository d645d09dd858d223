"""Ids and physical names of columns: who gets which (PROTOCOL.md, "Column Mapping").

A column keeps its id and its physical name as long as it lives, whatever it is called, and nobody
else ever gets them: so a column can be renamed or dropped while the files stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidTableError
from adelta.kernel.schema.names import (
    COLUMN_ID_KEY,
    NESTED_IDS_KEY,
    PHYSICAL_NAME_KEY,
    column_id,
    physical_schema,
    walk_fields,
    without_field_metadata,
)
from adelta.kernel.schema.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "adopt_mapping",
    "check_mapping",
    "has_mapping",
    "highest_column_id",
    "map_columns",
    "without_mapping",
]

_KEYS = (COLUMN_ID_KEY, PHYSICAL_NAME_KEY, NESTED_IDS_KEY)


def has_mapping(schema: StructType) -> bool:
    """Whether a field, at any depth, has an id or a physical name."""
    return any(not f.metadata.keys().isdisjoint(_KEYS) for _, f in walk_fields(schema))


def without_mapping(schema: StructType) -> StructType:
    """The schema without ids and physical names."""
    return without_field_metadata(schema, *_KEYS)


def highest_column_id(schema: StructType) -> int:
    """The highest id in a schema, 0 where there is none."""
    ids = [column_id(field) or 0 for _, field in walk_fields(schema)]
    ids += [i for _, f in walk_fields(schema) for i in f.metadata.get(NESTED_IDS_KEY, {}).values()]
    return max(ids, default=0)


def map_columns(
    schema: StructType,
    highest: int,
    physical: Callable[[tuple[str, ...], StructField], str],
    *,
    nested: bool = False,
) -> tuple[StructType, int]:
    """The schema with an id and a physical name for every field that has none, and the highest id.

    New ids follow `highest`, parents first; `physical` names the field at a path, which has its id
    by then. With `nested`, elements, keys and values get ids too.

    Example: ``a, s struct<b>`` after the id 4 get the ids 5, 6 and 7.
    """
    assigning = _Assigning(max(highest, highest_column_id(schema)), physical, nested)
    return assigning.struct(schema, ()), assigning.highest


class _Assigning:
    def __init__(
        self, highest: int, physical: Callable[[tuple[str, ...], StructField], str], nested: bool
    ) -> None:
        self.highest = highest
        self._physical = physical
        self._nested = nested

    def struct(self, struct: StructType, path: tuple[str, ...]) -> StructType:
        return StructType(tuple(self._field(f, (*path, f.name)) for f in struct))

    def _field(self, field: StructField, path: tuple[str, ...]) -> StructField:
        metadata = dict(field.metadata)
        if COLUMN_ID_KEY not in metadata:
            metadata[COLUMN_ID_KEY] = self._next()
        if PHYSICAL_NAME_KEY not in metadata:
            metadata[PHYSICAL_NAME_KEY] = self._physical(path, replace(field, metadata=metadata))
        ids = dict(metadata.get(NESTED_IDS_KEY, {}))
        made = self._inside(field.type, path, str(metadata[PHYSICAL_NAME_KEY]), ids)
        if self._nested and ids:
            metadata[NESTED_IDS_KEY] = ids
        return replace(field, type=made, metadata=metadata)

    def _inside(
        self, data_type: DataType, path: tuple[str, ...], key: str, ids: dict[str, int]
    ) -> DataType:
        """The type with its fields mapped; `ids` takes in those of elements, keys and values."""
        match data_type:
            case StructType():
                return self.struct(data_type, path)
            case ArrayType(element):
                inner = self._part(element, path, key, "element", ids)
                return replace(data_type, element_type=inner)
            case MapType(key_type, value_type):
                return replace(
                    data_type,
                    key_type=self._part(key_type, path, key, "key", ids),
                    value_type=self._part(value_type, path, key, "value", ids),
                )
        return data_type

    def _part(
        self, part: DataType, path: tuple[str, ...], key: str, step: str, ids: dict[str, int]
    ) -> DataType:
        key = f"{key}.{step}"
        if self._nested and key not in ids:
            ids[key] = self._next()
        return self._inside(part, (*path, step), key, ids)

    def _next(self) -> int:
        self.highest += 1
        return self.highest


def adopt_mapping(schema: StructType, known: StructType) -> StructType:
    """The schema, whose fields without a mapping take that of their namesakes in `known`.

    Only where the two are of the same type, or of the same kind where they have parts: a field that
    changes its type is another one.
    """
    return StructType(tuple(_adopt(field, known.field(field.name)) for field in schema))


def _adopt(field: StructField, known: StructField | None) -> StructField:
    if known is None or not _same_kind(field.type, known.type):
        return field
    taken = {key: known.metadata[key] for key in _KEYS if key in known.metadata}
    return replace(
        field, type=_adopt_type(field.type, known.type), metadata={**taken, **field.metadata}
    )


def _adopt_type(data_type: DataType, known: DataType) -> DataType:
    match data_type, known:
        case StructType(), StructType():
            return adopt_mapping(data_type, known)
        case ArrayType(element), ArrayType(other):
            return replace(data_type, element_type=_adopt_type(element, other))
        case MapType(key, value), MapType(other_key, other_value):
            return replace(
                data_type,
                key_type=_adopt_type(key, other_key),
                value_type=_adopt_type(value, other_value),
            )
    return data_type


def _same_kind(one: DataType, other: DataType) -> bool:
    match one, other:
        case StructType(), StructType():
            return True
        case ArrayType(element), ArrayType(other_element):
            return _same_kind(element, other_element)
        case MapType(key, value), MapType(other_key, other_value):
            return _same_kind(key, other_key) and _same_kind(value, other_value)
    return one == other


def check_mapping(schema: StructType, highest: int) -> None:
    """Refuse a mapped schema in which an id or a physical path is missing or occurs twice.

    Raises:
        InvalidTableError: there is such a field, or an id above `highest`.
    """
    ids: set[int] = set()
    names: set[tuple[str, ...]] = set()
    physical = walk_fields(physical_schema(schema, "name"))
    for (path, field), (physical_path, _) in zip(walk_fields(schema), physical, strict=True):
        shown = ".".join(path)
        found = column_id(field)
        if found is None:
            raise InvalidTableError(f"the mapped column {shown!r} has no id; the schema is damaged")
        for number in (found, *field.metadata.get(NESTED_IDS_KEY, {}).values()):
            if number in ids:
                raise InvalidTableError(
                    f"the id {number} of column {shown!r} is another column's too; give it its own"
                )
            if number > highest:
                raise InvalidTableError(
                    f"column {shown!r} has the id {number}, above the highest one, {highest}, that "
                    "the table says it has given"
                )
            ids.add(number)
        if physical_path in names:
            raise InvalidTableError(
                f"the physical name of column {shown!r} is another column's too; give it its own"
            )
        names.add(physical_path)
