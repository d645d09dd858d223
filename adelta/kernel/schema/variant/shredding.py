"""Shredded Variants → their binary form (VariantShredding.md of parquet-format).

A file may keep the parts of a Variant that have one type in columns of their own, `typed_value`,
beside what is left, `value`. Arrow holds most values in the very bytes that the binary form has, so
they are cut out of its buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of, scalar_of
from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.schema.variant.binary import (
    EMPTY_METADATA,
    NULL,
    Metadata,
    object_fields,
)
from adelta.kernel.schema.variant.encoding import encode_array, encode_object, encode_text

__all__ = ["METADATA", "TYPED_VALUE", "VALUE", "Dictionaries", "bytes_by_row", "unshred"]

METADATA = "metadata"
VALUE = "value"
TYPED_VALUE = "typed_value"

Arrow: TypeAlias = Any  # a pa.Array, of a type that is known at run time only

_Read: TypeAlias = Callable[[int, Metadata], bytes | None]
"""The encoded value of a row; None where the row has none."""

_FIXED: dict[pa.DataType, int] = {
    pa.int8(): 3,
    pa.int16(): 4,
    pa.int32(): 5,
    pa.int64(): 6,
    pa.float32(): 14,
    pa.float64(): 7,
    pa.date32(): 11,
    pa.timestamp("us", "UTC"): 12,
    pa.timestamp("us"): 13,
    pa.time64("us"): 17,
    pa.timestamp("ns", "UTC"): 18,
    pa.timestamp("ns"): 19,
}


class Dictionaries:
    """The decoded dictionaries of names; consecutive rows mostly have the same one."""

    def __init__(self) -> None:
        self._last: tuple[bytes, Metadata] | None = None

    def of(self, data: bytes) -> Metadata:
        """The dictionary that the bytes hold.

        Raises:
            InvalidTableError: they hold none.
        """
        if self._last is None or self._last[0] != data:
            self._last = data, Metadata.decode(data)
        return self._last[1]


def unshred(group: pa.StructArray) -> pa.StructArray:
    """A column of Variants as a struct of `value` and `metadata`, whether it is shredded or not.

    Raises:
        SchemaMismatchError: it is no column of Variants.
        InvalidTableError: a Variant is damaged.
    """
    names = [group.type.field(i).name for i in range(group.type.num_fields)]
    if METADATA not in names or not {VALUE, TYPED_VALUE} & set(names):
        raise SchemaMismatchError("a variant has the parts metadata and value, or typed_value")
    metadata = _plain(pc.struct_field(group, METADATA))
    if VALUE in names:
        values = _plain(pc.struct_field(group, VALUE))
    else:
        values = pa.nulls(len(group), pa.binary())
    if TYPED_VALUE in names:
        values = _rebuilt(group, metadata, values)
    present = group.is_valid()
    # where there is a Variant, it has a value: a missing one is the value null
    values = pc.if_else(pc.and_(present, values.is_null()), scalar_of(NULL, pa.binary()), values)
    metadata = pc.if_else(
        pc.and_(present, metadata.is_null()), scalar_of(EMPTY_METADATA, pa.binary()), metadata
    )
    mask = pc.invert(present) if group.null_count else None
    return pa.StructArray.from_arrays([values, metadata], names=[VALUE, METADATA], mask=mask)


def _rebuilt(group: Arrow, metadata: Arrow, values: Arrow) -> Arrow:
    typed = pc.struct_field(group, TYPED_VALUE)
    rows = pc.indices_nonzero(typed.is_valid())
    if not len(rows):
        return values
    read = _reader(group)
    names, dictionaries = bytes_by_row(metadata), Dictionaries()
    built = [
        read(row, dictionaries.of(names(row) or EMPTY_METADATA))
        for row in memoryview(rows.buffers()[1]).cast("Q")[: len(rows)]
    ]
    return pc.replace_with_mask(values, typed.is_valid(), column_of(built, pa.binary()))


def _reader(group: Arrow) -> _Read:
    """How to read a struct of `value` and `typed_value`, either of which may not be there."""
    value: Callable[[int], bytes | None] = _nothing
    if group.type.get_field_index(VALUE) >= 0:
        value = bytes_by_row(pc.struct_field(group, VALUE))
    if group.type.get_field_index(TYPED_VALUE) < 0:
        return lambda row, _: value(row)
    typed = pc.struct_field(group, TYPED_VALUE)
    if pa.types.is_struct(typed.type):
        return _object(value, typed)
    shredded = _list(typed) if _is_list(typed.type) else _leaf(typed)

    def read(row: int, names: Metadata) -> bytes | None:
        found = shredded(row, names)
        return value(row) if found is None else found

    return read


def _object(value: Callable[[int], bytes | None], typed: Arrow) -> _Read:
    valid = _validity(typed)
    fields = []
    for index in range(typed.type.num_fields):
        name = typed.type.field(index).name
        field = pc.struct_field(typed, [index])
        if not pa.types.is_struct(field.type):
            raise SchemaMismatchError(
                f"the shredded field {name!r} of a variant is {field.type} where a struct of value "
                "and typed_value belongs"
            )
        fields.append((name, _reader(field)))

    def read(row: int, names: Metadata) -> bytes | None:
        rest = value(row)
        if not valid[row]:
            return rest
        parts = {} if rest is None else object_fields(names, rest)
        for name, of in fields:
            found = of(row, names)
            if found is not None:
                parts[name] = found
        return encode_object(names, parts)

    return read


def _list(typed: Arrow) -> _Read:
    if not pa.types.is_list(typed.type):
        typed = typed.cast(pa.list_(typed.type.value_type))
    valid = _validity(typed)
    if not pa.types.is_struct(typed.values.type):
        raise SchemaMismatchError(
            f"the items of a shredded variant are {typed.values.type} where structs of value and "
            "typed_value belong"
        )
    of = _reader(typed.values)
    ends = memoryview(typed.offsets.buffers()[1]).cast("i")[typed.offsets.offset :]

    def read(row: int, names: Metadata) -> bytes | None:
        if not valid[row]:
            return None
        items = [of(item, names) for item in range(ends[row], ends[row + 1])]
        return encode_array([NULL if item is None else item for item in items])

    return read


def _leaf(typed: Arrow) -> _Read:
    kind = typed.type
    valid = _validity(typed)
    if pa.types.is_boolean(kind):
        true = _flags(pc.fill_null(typed, False))
        return lambda row, _: (b"\x04" if true[row] else b"\x08") if valid[row] else None
    if _is_text(kind):
        text = bytes_by_row(typed)
        return lambda row, _: None if (found := text(row)) is None else encode_text(found)
    if _is_binary(kind):
        raw = bytes_by_row(typed)
        return lambda row, _: None if (found := raw(row)) is None else _binary(found)
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp(kind.unit, "UTC" if kind.tz else None)
    scale = b""
    if pa.types.is_decimal(kind):
        typed = typed.cast(pa.decimal128(kind.precision, kind.scale))
        width, number = next(
            (width, number)
            for width, number, most in ((4, 8, 9), (8, 9, 18), (16, 10, 38))
            if kind.precision <= most
        )
        step, scale = 16, bytes([kind.scale])
    elif pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        width, number, step = 16, 20, 16
    elif kind in _FIXED:
        number = _FIXED[kind]
        width = step = kind.bit_width // 8
    else:
        raise SchemaMismatchError(f"a shredded variant has the type {kind}, which is none of its")
    head = bytes([number << 2]) + scale
    data = memoryview(typed.buffers()[1] or b"").cast("B")
    first = typed.offset

    def read(row: int, _: Metadata) -> bytes | None:
        if not valid[row]:
            return None
        at = (first + row) * step
        return head + bytes(data[at : at + width])

    return read


def _binary(data: bytes) -> bytes:
    return b"\x3c" + len(data).to_bytes(4, "little") + data


def _nothing(_: int) -> bytes | None:
    """What a column holds that is not there."""
    return None


def _validity(values: Arrow) -> memoryview:
    """A byte a row: whether it has a value."""
    return _flags(values.is_valid())


def _flags(values: Arrow) -> memoryview:
    """A byte a row: whether it is true."""
    wide = values.cast(pa.uint8())
    return memoryview(wide.buffers()[1] or b"").cast("B")[wide.offset :]


def bytes_by_row(values: Arrow) -> Callable[[int], bytes | None]:
    """How to read a column of bytes, or of text, row by row.

    Raises:
        InvalidTableError: it is another column.
    """
    values = _plain(values)
    if not len(values):
        return _nothing
    valid = _validity(values)
    ends = memoryview(values.buffers()[1]).cast("i")[values.offset :]
    data = memoryview(values.buffers()[2] or b"").cast("B")
    return lambda row: bytes(data[ends[row] : ends[row + 1]]) if valid[row] else None


def _plain(values: Arrow) -> Arrow:
    """Bytes or text as `binary`."""
    if not (_is_binary(values.type) or _is_text(values.type)):
        raise InvalidTableError(
            f"a variant has a part of the type {values.type} where bytes belong; the data file is "
            "damaged: restore it, or the table to an earlier version"
        )
    return values.cast(pa.binary())


def _is_binary(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)
