"""Arrays as bytes, which are the same where Spark takes two arrays for equal.

Elements are equal one by one, in their order: NULL is NULL there, NaN is NaN, and -0.0 is 0.0.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta.kernel.expressions.coercion import INTEGERS, is_atomic
from adelta.kernel.expressions.library._function import ARRAY, Function, Values
from adelta.kernel.schema import types as t

__all__ = ["ARRAY_KEY", "ARRAY_KEYS", "are_comparable"]

ARRAY_KEY = "array ="
"""The name of what makes such bytes, which no text has."""

_END, _ESCAPE, _NULL = b";", b"\\", rb"\N"


def are_comparable(one: t.DataType, other: t.DataType) -> bool:
    """Whether the bytes of two arrays say whether these are equal."""
    if isinstance(one, t.ArrayType) and isinstance(other, t.ArrayType):
        return are_comparable(one.element_type, other.element_type)
    if isinstance(one, t.StructType) and isinstance(other, t.StructType):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(are_comparable(a.type, b.type) for a, b in pairs)
    if t.VOID in (one, other):
        known = other if one == t.VOID else one
        return known == t.VOID or are_comparable(known, known)
    return is_atomic(one) and (one == other or (one in INTEGERS and other in INTEGERS))


def _elements(values: Values) -> Values:
    """Each value as bytes that have no end inside them, and an end."""
    found = pc.replace_substring(_bytes(values), _ESCAPE, _ESCAPE * 2)
    found = pc.replace_substring(found, _END, _ESCAPE + _END)
    found = pc.fill_null(found, scalar_of(_NULL, pa.binary()))
    return pc.binary_join_element_wise(found, scalar_of(b"", pa.binary()), _END)


def _bytes(values: Values) -> Values:
    """Each value as bytes; NULL of NULL."""
    kind: Any = values.type
    if pa.types.is_list(kind):
        lists = pa.ListArray.from_arrays(values.offsets, _elements(values.values))
        found = pc.binary_join(lists, scalar_of(b"", pa.binary()))
        return pc.if_else(values.is_valid(), found, scalar_of(None, pa.binary()))
    if pa.types.is_struct(kind):
        parts = [_elements(field) for field in values.flatten()]
        found = pc.binary_join_element_wise(*parts, scalar_of(b"", pa.binary()))
        return pc.if_else(values.is_valid(), found, scalar_of(None, pa.binary()))
    if pa.types.is_floating(kind):
        values = pc.add(values, scalar_of(0.0, kind))  # and -0.0 is 0.0
        values = pc.if_else(pc.is_nan(values), scalar_of(float("nan"), kind), values)
        values = values.view(pa.int64() if kind == pa.float64() else pa.int32())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        values = values.cast(pa.string())
    return values.cast(pa.binary())


ARRAY_KEYS = {
    ARRAY_KEY: Function(
        group="collections",
        example="array(1, 2, NULL) = array(1, 2, NULL)",
        parameters=(ARRAY,),
        result=t.BINARY,
        compute=_bytes,
    )
}
"""The function by its name."""
