"""Columns as files hold them → columns as the table's schema has them.

Files may lack columns, hold them in another order, in a narrower type, or under physical names.
Every function here takes and returns Arrow data; what cannot be converted without loss is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta.errors import SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import column_id, physical_name
from adelta.kernel.schema.variant.shredding import unshred

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ColumnMappingMode", "conform", "conforms", "find_field", "find_fields"]

ColumnMappingMode = str
"""How files name columns: ``none``, ``name`` or ``id`` (PROTOCOL.md, "Column Mapping")."""

Values: TypeAlias = Any
"""A pa.Array, of a type that is known at run time only."""

_FIELD_ID = b"PARQUET:field_id"
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Of integers, signed or not, by their bits."""

arrow: Any = pa  # the stubs know neither `arange` nor types chosen at run time


def find_field(
    fields: Sequence[pa.Field[Any]], wanted: t.StructField, mode: ColumnMappingMode
) -> int | None:
    """Which of a file's fields holds the logical field `wanted`; None where the file lacks it."""
    return find_fields(fields, (wanted,), mode)[0]


def find_fields(
    fields: Sequence[pa.Field[Any]], wanted: Sequence[t.StructField], mode: ColumnMappingMode
) -> list[int | None]:
    """Which of a file's fields holds each of the logical fields; None for what the file lacks.

    By field id in the mode ``id``, where a column has one, else by physical name: as written, else
    ignoring case.
    """
    ids: dict[bytes, int] = {}
    names: dict[str, int] = {}
    folded: dict[str, int] = {}
    for index in reversed(range(len(fields))):  # of several the first one counts
        field = fields[index]
        names[field.name] = folded[field.name.lower()] = index
        if mode == "id" and field.metadata:
            ids[field.metadata.get(_FIELD_ID, b"")] = index
    found: list[int | None] = []
    for one in wanted:
        if mode == "id" and column_id(one) is not None:
            found.append(ids.get(str(column_id(one)).encode()))
            continue
        name = physical_name(one, mode)
        index_or_none = names.get(name)
        found.append(folded.get(name.lower()) if index_or_none is None else index_or_none)
    return found


def conforms(found: pa.DataType, kind: pa.DataType, mode: ColumnMappingMode) -> bool:
    """Whether values of the type `found` are as `conform` makes them where that gives `kind`."""
    return found.equals(kind) and (mode == "none" or not pa.types.is_nested(kind))


def conform(values: Values, target: t.DataType, mode: ColumnMappingMode, column: str) -> Values:
    """`values` in the Arrow type of `target`; `column` names it in messages.

    Raises:
        SchemaMismatchError: the values cannot be converted.
    """
    kind = to_arrow_type(target)
    if conforms(values.type, kind, mode):
        return values
    if pa.types.is_null(values.type):  # a file whose writer has seen no value of the column
        return arrow.nulls(len(values), kind)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        match target:
            case t.StructType():
                return _struct(values, target, kind, mode, column)
            case t.ArrayType(element):
                return _list(values, element, kind, mode, column)
            case t.MapType(key, value):
                return _map(values, key, value, kind, mode, column)
            case t.VARIANT:
                return _variant(values, column)
        return _primitive(values, target, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"column {column} is {values.type} in the file and {target} in the table: {error}"
        ) from error


def _struct(
    values: Values, target: t.StructType, kind: Any, mode: ColumnMappingMode, column: str
) -> Values:
    if not pa.types.is_struct(values.type):
        raise pa.ArrowInvalid("the file has no struct here")
    struct = values
    fields = [struct.type.field(i) for i in range(struct.type.num_fields)]
    children = []
    found = find_fields(fields, target.fields, mode)
    for wanted, index in zip(target, found, strict=True):
        if index is None:
            children.append(arrow.nulls(len(struct), to_arrow_type(wanted.type)))
        else:
            child = pc.struct_field(struct, [index])
            children.append(conform(child, wanted.type, mode, f"{column}.{wanted.name}"))
    mask = struct.is_null() if struct.null_count else None
    # fields that the schema calls required may be null where the struct itself is
    return arrow.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _list(
    values: Values, element: t.DataType, kind: Any, mode: ColumnMappingMode, column: str
) -> Values:
    if pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    if not pa.types.is_list(values.type):
        raise pa.ArrowInvalid("the file has no list here")
    values = _unsliced(values)
    inner = conform(values.values, element, mode, f"{column}.element")
    mask = values.is_null() if values.null_count else None
    return arrow.ListArray.from_arrays(values.offsets, inner, type=kind, mask=mask)


def _unsliced(values: Values) -> Values:
    """The same values from offset 0: Arrow builds nested arrays with a mask from such alone."""
    return values.take(arrow.arange(0, len(values))) if values.offset else values


def _map(
    values: Values,
    key: t.DataType,
    value: t.DataType,
    kind: pa.DataType,
    mode: ColumnMappingMode,
    column: str,
) -> Values:
    if not pa.types.is_map(values.type):
        raise pa.ArrowInvalid("the file has no map here")
    pairs = _unsliced(values)
    keys = conform(pairs.keys, key, mode, f"{column}.key")
    items = conform(pairs.items, value, mode, f"{column}.value")
    mask = pairs.is_null() if pairs.null_count else None
    return arrow.MapArray.from_arrays(pairs.offsets, keys, items, type=kind, mask=mask)


def _variant(values: Values, column: str) -> Values:
    if not pa.types.is_struct(values.type):
        raise pa.ArrowInvalid("the file has no variant here")
    try:
        return unshred(values)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"column {column}: {error}") from error


def _primitive(values: Values, target: t.DataType, kind: pa.DataType) -> Values:
    have = values.type
    if pa.types.is_null(kind):
        return arrow.nulls(len(values), kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(have):
        return _timestamp(values, have, kind)
    if not _fits(have, target, kind):
        raise pa.ArrowInvalid("no values of the one type are values of the other")
    if pa.types.is_decimal(kind) and pa.types.is_integer(have):
        values = values.cast(_decimal_of(have, kind))  # Arrow asks for room for all integers
    return values.cast(kind)


def _decimal_of(integers: Any, kind: Any) -> pa.DataType:
    """A decimal of the scale of `kind` that has room for all integers of a width."""
    digits = _DIGITS[integers.bit_width] + kind.scale
    return pa.decimal128(digits, kind.scale) if digits <= 38 else pa.decimal256(digits, kind.scale)


def _fits(have: pa.DataType, target: t.DataType, kind: pa.DataType) -> bool:
    """Whether values of a file's type may be cast to `kind`, the Arrow type of `target`.

    Integers of any width go into each other, for what a writer called a short may be stored as an
    integer; that each value fits is the cast's to check. Everything else only ever widens.
    """
    if pa.types.is_integer(kind):
        return pa.types.is_integer(have)
    if pa.types.is_decimal(kind):
        return pa.types.is_integer(have) or pa.types.is_decimal(have)
    if pa.types.is_floating(kind):
        if pa.types.is_integer(have):
            return bool(have.bit_width <= 32)
        return pa.types.is_floating(have) and have.bit_width <= kind.bit_width
    if pa.types.is_date(kind):
        return pa.types.is_date(have)
    if pa.types.is_timestamp(kind):
        return target == t.TIMESTAMP_NTZ and pa.types.is_date(have)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        # old writers do not mark text as such
        return _is_bytes(have)
    return False


def _is_bytes(have: pa.DataType) -> bool:
    return (
        pa.types.is_binary(have)
        or pa.types.is_large_binary(have)
        or pa.types.is_binary_view(have)
        or pa.types.is_fixed_size_binary(have)
        or pa.types.is_string(have)
        or pa.types.is_large_string(have)
        or pa.types.is_string_view(have)
    )


def _timestamp(values: Values, have: Any, kind: Any) -> Values:
    """Any timestamp in microseconds, taken as UTC where one side has no zone."""
    if have.unit == "ns":
        # finer digits are cut, towards the past, as every engine with microseconds cuts them
        values = pc.floor_temporal(values.view(pa.timestamp("ns")), 1, unit="microsecond")
        return values.cast(pa.timestamp("us")).view(kind)
    if have.unit != "us":
        values = values.cast(pa.timestamp("us", have.tz))
    return values.view(kind)
