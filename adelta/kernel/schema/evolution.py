"""How a table's schema takes in data of another one while its data files stay as they are.

Files lack the columns that came later, and those read as null: so columns and fields are added,
behind the others and nullable. What files hold keeps its type, unless it may become wider, or is of
the type `void`, of which they hold nothing.
"""

from __future__ import annotations

from dataclasses import replace

from adelta._dataclasses import dataclass
from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.geospatial import takes_shapes
from adelta.kernel.schema.json import type_to_json
from adelta.kernel.schema.names import check_column_names
from adelta.kernel.schema.types import (
    BYTE,
    INTEGER,
    LONG,
    SHORT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY, can_widen

__all__ = ["merge_schemas"]

_WHOLE = (BYTE, SHORT, INTEGER, LONG)


def merge_schemas(
    current: StructType,
    data: StructType,
    *,
    mapped: bool = False,
    widening: bool = False,
    assigns: bool = False,
) -> StructType:
    """The schema of a table that takes in data of another schema, as ``mergeSchema`` has it.

    Columns and fields that only the data has come last and are nullable; the others stay as they
    are, and so do their order, their spelling and their metadata. Whole numbers that are narrower
    in the data fit as they are. `mapped` is whether the table maps its columns. With `widening` a
    column becomes as wide as the data's where that keeps its kind, and its metadata tells of it.
    With `assigns` values of other types are to be stored as the table's, which keeps them.

    Example: ``a long`` and ``b string, A integer`` is ``a long, b string``.

    Raises:
        SchemaMismatchError: a column has a type that the table's column cannot take, or a new name
            is not allowed.
    """
    merged = _merge_structs(current, data, "", _Rules(widening, assigns))
    if merged != current:
        check_column_names(merged, mapped=mapped)
    return merged


@dataclass(frozen=True, slots=True)
class _Rules:
    widening: bool
    assigns: bool


def _merge_structs(current: StructType, data: StructType, path: str, rules: _Rules) -> StructType:
    incoming: dict[str, StructField] = {}
    for field in data:
        if field.name.lower() in incoming:
            raise SchemaMismatchError(
                f"the data has two columns {_join(path, field.name)!r} that differ in case alone, "
                "which Delta cannot tell apart; rename one of them"
            )
        incoming[field.name.lower()] = field
    fields = []
    for field in current:
        other = incoming.pop(field.name.lower(), None)
        if other is not None:
            merge = _Merge(rules)
            merged = merge.types(field.type, other.type, _join(path, field.name), ())
            metadata = field.metadata
            if merge.changes:
                before = metadata.get(TYPE_CHANGES_KEY, [])
                metadata = {**metadata, TYPE_CHANGES_KEY: [*before, *merge.changes]}
            fields.append(replace(field, type=merged, metadata=metadata))
        else:
            fields.append(field)
    fields.extend(replace(f, nullable=True) for f in incoming.values())
    return StructType(tuple(fields))


class _Merge:
    """The merge of one field's type, and the changes of type that its metadata has to tell of."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules
        self.changes: list[dict[str, object]] = []

    def types(
        self, current: DataType, data: DataType, path: str, inside: tuple[str, ...]
    ) -> DataType:
        """The merged type; `inside` are the steps from the field to here."""
        match current, data:
            case StructType(), StructType():
                return _merge_structs(current, data, path, self._rules)
            case ArrayType(element), ArrayType(other):
                merged = self.types(element, other, f"{path}.element", (*inside, "element"))
                return replace(current, element_type=merged)
            case MapType(key, value), MapType(other_key, other_value):
                return replace(
                    current,
                    key_type=self.types(key, other_key, f"{path}.key", (*inside, "key")),
                    value_type=self.types(value, other_value, f"{path}.value", (*inside, "value")),
                )
        if data in (current, VOID) or _takes(current, data):
            return current
        if current == VOID:
            return data
        if self._rules.widening and _keeps_kind(current, data) and can_widen(current, data):
            change = {"fromType": type_to_json(current), "toType": type_to_json(data)}
            self.changes.append({**change, "fieldPath": ".".join(inside)} if inside else change)
            return data
        if self._rules.assigns:
            return current
        wider = not self._rules.widening and _keeps_kind(current, data) and can_widen(current, data)
        or_widen = ", or set delta.enableTypeWidening, by which it becomes as wide" if wider else ""
        raise SchemaMismatchError(
            f"column {path!r} is of type {current} in the table and {data} in the data; cast the "
            f"column to the table's type{or_widen}"
        )


def _keeps_kind(current: DataType, data: DataType) -> bool:
    """Not from whole numbers to others, which Delta does on explicit request only."""
    return current not in _WHOLE or data in _WHOLE


def _takes(current: DataType, data: DataType) -> bool:
    """Whether every value of one type is a value of the other, which stays as it is."""
    if current in _WHOLE and data in _WHOLE:
        return _WHOLE.index(data) < _WHOLE.index(current)
    if isinstance(current, DecimalType) and isinstance(data, DecimalType):
        whole = current.precision - current.scale
        return data.scale <= current.scale and data.precision - data.scale <= whole
    return takes_shapes(current, data)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
