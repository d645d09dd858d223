"""The schema of an Iceberg table as that of a Delta table which finds columns by the same ids."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from adelta.errors import SchemaMismatchError, UnsupportedFeatureError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import type_to_json
from adelta.kernel.schema.names import COLUMN_ID_KEY, PHYSICAL_NAME_KEY, walk_fields
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY, can_widen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["converted_schema", "converted_type", "has_type_changes"]


def converted_schema(schema: Any, earlier: Sequence[Any]) -> t.StructType:
    """Delta's columns for pyiceberg's `schema`; files were written by the `earlier` ones, too.

    Every field bears its id, its name, by which nothing finds it, and the changes of its type.

    Raises:
        SchemaMismatchError: Delta has no such type.
        UnsupportedFeatureError: a column has a default for files without it, or a change of type
            that Delta does not know.
    """
    return _Conversion(earlier).struct(schema.fields, ())


def has_type_changes(schema: t.StructType) -> bool:
    """Whether a column of files may be of a narrower type."""
    return any(TYPE_CHANGES_KEY in field.metadata for _, field in walk_fields(schema))


class _Conversion:
    def __init__(self, earlier: Sequence[Any]) -> None:
        self._types: dict[int, list[t.DataType]] = {}
        for schema in earlier:
            for part in _leaves(schema.fields):
                known = self._types.setdefault(part[0], [])
                converted = _simple(part[1])
                if converted is not None and converted not in known:
                    known.append(converted)

    def struct(self, fields: Sequence[Any], path: tuple[str, ...]) -> t.StructType:
        return t.StructType(tuple(self._field(field, (*path, field.name)) for field in fields))

    def _field(self, field: Any, path: tuple[str, ...]) -> t.StructField:
        if getattr(field, "initial_default", None) is not None:
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)!r} has a default for files that lack it, which Delta has "
                "not; rewrite the table by an Iceberg writer first"
            )
        changes: list[dict[str, object]] = []
        made = self._type(field.field_type, field.field_id, path, (), changes)
        metadata: dict[str, Any] = {
            COLUMN_ID_KEY: int(field.field_id),
            PHYSICAL_NAME_KEY: field.name,
        }
        if field.doc:
            metadata["comment"] = field.doc
        if changes:
            metadata[TYPE_CHANGES_KEY] = changes
        return t.StructField(field.name, made, nullable=not field.required, metadata=metadata)

    def _type(
        self,
        kind: Any,
        number: int,
        path: tuple[str, ...],
        inside: tuple[str, ...],
        changes: list[dict[str, object]],
    ) -> t.DataType:
        """The type of a field, element, key or value, whose id is `number`."""
        from pyiceberg import types as iceberg

        if isinstance(kind, iceberg.StructType):
            return self.struct(kind.fields, (*path, *inside))
        if isinstance(kind, iceberg.ListType):
            part = (*inside, "element")
            element = self._type(kind.element_type, kind.element_id, path, part, changes)
            return t.ArrayType(element, contains_null=not kind.element_required)
        if isinstance(kind, iceberg.MapType):
            key = self._type(kind.key_type, kind.key_id, path, (*inside, "key"), changes)
            value = self._type(kind.value_type, kind.value_id, path, (*inside, "value"), changes)
            return t.MapType(key, value, value_contains_null=not kind.value_required)
        made = converted_type(kind, ".".join((*path, *inside)))
        self._tell(self._types.get(number, []), made, path, inside, changes)
        return made

    def _tell(
        self,
        known: Sequence[t.DataType],
        now: t.DataType,
        path: tuple[str, ...],
        inside: tuple[str, ...],
        changes: list[dict[str, object]],
    ) -> None:
        steps = [*(each for each in known if each != now), now]
        for old, new in pairwise(steps):
            if not can_widen(old, new):
                raise UnsupportedFeatureError(
                    f"column {'.'.join((*path, *inside))!r} was once of the type {old}, and files "
                    f"of a Delta table cannot hold that as {new}"
                )
            change: dict[str, object] = {"fromType": type_to_json(old), "toType": type_to_json(new)}
            changes.append({**change, "fieldPath": ".".join(inside)} if inside else change)


def _leaves(fields: Sequence[Any]) -> list[tuple[int, Any]]:
    """The simple types in a schema with the ids of what has them."""
    from pyiceberg import types as iceberg

    found: list[tuple[int, Any]] = []

    def look(number: int, kind: Any) -> None:
        if isinstance(kind, iceberg.StructType):
            for field in kind.fields:
                look(field.field_id, field.field_type)
        elif isinstance(kind, iceberg.ListType):
            look(kind.element_id, kind.element_type)
        elif isinstance(kind, iceberg.MapType):
            look(kind.key_id, kind.key_type)
            look(kind.value_id, kind.value_type)
        else:
            found.append((number, kind))

    for field in fields:
        look(field.field_id, field.field_type)
    return found


def converted_type(kind: Any, name: str) -> t.DataType:
    """Delta's type for a simple one of Iceberg's.

    Raises:
        SchemaMismatchError: Delta has none.
    """
    found = _simple(kind)
    if found is None:
        raise SchemaMismatchError(
            f"column {name!r} has Iceberg's type {kind}, which Delta does not have; write the rows "
            "to a new table instead"
        )
    return found


def _simple(kind: Any) -> t.DataType | None:
    from pyiceberg import types as iceberg

    if isinstance(kind, iceberg.DecimalType):
        return t.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, iceberg.FixedType):
        return t.BINARY
    known: Mapping[type, t.DataType] = {
        iceberg.BooleanType: t.BOOLEAN,
        iceberg.IntegerType: t.INTEGER,
        iceberg.LongType: t.LONG,
        iceberg.FloatType: t.FLOAT,
        iceberg.DoubleType: t.DOUBLE,
        iceberg.DateType: t.DATE,
        iceberg.TimestampType: t.TIMESTAMP_NTZ,
        iceberg.TimestamptzType: t.TIMESTAMP,
        iceberg.StringType: t.STRING,
        iceberg.BinaryType: t.BINARY,
    }
    return known.get(type(kind))
