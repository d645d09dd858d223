"""Which changes a table's schema may undergo while its data files stay as they are.

Files lack the columns that came later, and those read as null: so columns and fields may be added,
behind the others and nullable, and a column that forbids nulls may come to allow them. What files
hold cannot change its type, except from `void`, of which they hold nothing.
"""

from __future__ import annotations

from dataclasses import replace

from adelta.errors import SchemaMismatchError
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

__all__ = ["check_evolution", "merge_schemas"]

_WHOLE = (BYTE, SHORT, INTEGER, LONG)


def merge_schemas(current: StructType, data: StructType, *, mapped: bool = False) -> StructType:
    """The schema of a table that takes in data of another schema, as ``mergeSchema`` has it.

    Columns and fields that only the data has come last and are nullable; the others stay as they
    are, and so do their order, their spelling and their metadata. Whole numbers that are narrower
    in the data fit as they are. `mapped` is whether the table maps its columns.

    Example: ``a long`` and ``b string, A integer`` is ``a long, b string``.

    Raises:
        SchemaMismatchError: a column has a type that the table's column cannot take, or a new name
            is not allowed.
    """
    merged = _merge_structs(current, data, "")
    if merged != current:
        check_column_names(merged, mapped=mapped)
    return merged


def check_evolution(before: StructType, after: StructType) -> None:
    """Refuse a schema under which the files written for another one could not be read.

    Raises:
        SchemaMismatchError: a column or a field is gone, is new and forbids nulls, has another
            type, or forbids nulls that it used to allow.
    """
    _check_structs(before, after, "")


# ------------------------------------------------------------------------------------------- merge


def _merge_structs(current: StructType, data: StructType, path: str) -> StructType:
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
            merged = _merge(field.type, other.type, _join(path, field.name))
            fields.append(replace(field, type=merged))
        else:
            fields.append(field)
    fields.extend(replace(f, nullable=True) for f in incoming.values())
    return StructType(tuple(fields))


def _merge(current: DataType, data: DataType, path: str) -> DataType:
    match current, data:
        case StructType(), StructType():
            return _merge_structs(current, data, path)
        case ArrayType(element), ArrayType(other):
            return replace(current, element_type=_merge(element, other, f"{path}.element"))
        case MapType(key, value), MapType(other_key, other_value):
            return replace(
                current,
                key_type=_merge(key, other_key, f"{path}.key"),
                value_type=_merge(value, other_value, f"{path}.value"),
            )
    if data in (current, VOID) or _takes(current, data):
        return current
    if current == VOID:
        return data
    raise SchemaMismatchError(
        f"column {path!r} is of type {current} in the table and {data} in the data; cast the "
        "column to the table's type"
    )


def _takes(current: DataType, data: DataType) -> bool:
    """Whether every value of one type is a value of the other, which stays as it is."""
    if current in _WHOLE and data in _WHOLE:
        return _WHOLE.index(data) < _WHOLE.index(current)
    if isinstance(current, DecimalType) and isinstance(data, DecimalType):
        whole = current.precision - current.scale
        return data.scale <= current.scale and data.precision - data.scale <= whole
    return False


# ------------------------------------------------------------------------------------------- check


def _check_structs(before: StructType, after: StructType, path: str) -> None:
    kept = {f.name.lower() for f in before}
    for field in before:
        shown = _join(path, field.name)
        now = after.field(field.name)
        if now is None:
            raise SchemaMismatchError(
                f"column {shown!r} would be gone, though data files hold it; overwrite the schema "
                "and the data together, or map the table's columns"
            )
        if field.nullable and not now.nullable:
            _refuse_strictness(shown)
        _check(field.type, now.type, shown)
    for field in after:
        if field.name.lower() not in kept and not field.nullable:
            raise SchemaMismatchError(
                f"the new column {_join(path, field.name)!r} forbids nulls, but the rows that are "
                "there have no value for it; let it be nullable"
            )


def _check(before: DataType, after: DataType, path: str) -> None:
    match before, after:
        case StructType(), StructType():
            _check_structs(before, after, path)
        case ArrayType(element, nulls), ArrayType(other, other_nulls):
            if nulls and not other_nulls:
                _refuse_strictness(f"{path}.element")
            _check(element, other, f"{path}.element")
        case MapType(key, value, nulls), MapType(other_key, other_value, other_nulls):
            if nulls and not other_nulls:
                _refuse_strictness(f"{path}.value")
            _check(key, other_key, f"{path}.key")
            _check(value, other_value, f"{path}.value")
        case _ if before not in (after, VOID):
            raise SchemaMismatchError(
                f"column {path!r} would change from {before} to {after}, but data files hold "
                f"{before}; overwrite the schema and the data together"
            )


def _refuse_strictness(path: str) -> None:
    raise SchemaMismatchError(
        f"column {path!r} would forbid nulls, but rows that are there may hold some; let it be "
        "nullable"
    )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
