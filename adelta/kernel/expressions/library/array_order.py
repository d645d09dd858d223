"""Arrays as bytes, which come in the order in which Spark has arrays.

The first elements that differ say which array is less; where there are none, the shorter one is.
NULL is less than any value, NaN greater than any number, and -0.0 is 0.0. Structs are in the order
of their fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import numpy_of, scalar_of
from adelta.kernel.expressions.library._function import ARRAY, Function, Values
from adelta.kernel.schema import types as t

__all__ = ["ARRAY_ORDER", "ARRAY_ORDERS"]

ARRAY_ORDER = "array <"
"""The name of what makes such bytes, which no text has."""

_END, _NULL, _VALUE = b"\0", b"\1", b"\2"
_ESCAPED = b"\0\xff"
_SIGN = np.uint64(1 << 63)


def _tagged(values: Values) -> Values:
    """Each value as bytes behind which others may stand; NULL has some that are less."""
    found = _joined(scalar_of(_VALUE, pa.binary()), _bytes(values))
    return pc.fill_null(found, scalar_of(_NULL, pa.binary()))


def _bytes(values: Values) -> Values:
    """Each value as bytes, none of which begin with those of another one; NULL of NULL."""
    kind: Any = values.type
    if pa.types.is_null(kind):
        return values.cast(pa.binary())
    if pa.types.is_list(kind):
        lists = pa.ListArray.from_arrays(values.offsets, _tagged(values.values))
        found = pc.binary_join(lists, scalar_of(b"", pa.binary()))
        return _where_known(values, _joined(found, scalar_of(_END, pa.binary())))
    if pa.types.is_struct(kind):
        return _where_known(values, _joined(*map(_tagged, values.flatten())))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = pc.replace_substring(values.cast(pa.binary()), _END, _ESCAPED)
        return _joined(found, scalar_of(_END * 2, pa.binary()))
    if pa.types.is_decimal(kind):
        return _where_known(values, _of_width(_of_decimals(values)))
    if pa.types.is_floating(kind):
        numbers = _of_floats(numpy_of(pc.fill_null(values.cast(pa.float64()), 0.0)))
    else:
        if pa.types.is_temporal(kind):
            values = values.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())
        whole = numpy_of(pc.fill_null(values.cast(pa.int64()), 0))
        numbers = whole.astype(np.int64).view(np.uint64) ^ _SIGN
    return _where_known(values, _of_width(numbers.astype(">u8").view(np.uint8).reshape(-1, 8)))


def _of_floats(numbers: Any) -> Any:
    """Numbers without a sign in the order of floating-point ones."""
    plain = np.where(np.isnan(numbers), np.nan, numbers) + 0.0
    bits = plain.astype(np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _of_decimals(values: Values) -> Any:
    """The sixteen bytes of each decimal, the greatest digits first, in the order of the numbers."""
    buffer = values.buffers()[1]
    whole = np.frombuffer(buffer, np.uint8, count=16 * (values.offset + len(values)))
    found = whole.reshape(-1, 16)[values.offset :, ::-1].copy()
    found[:, 0] ^= 0x80
    return found


def _of_width(rows: Any) -> Values:
    """Rows of bytes as an array."""
    kind = pa.binary(rows.shape[1])
    found = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows.tobytes())])
    return found.cast(pa.binary())


def _joined(*parts: Values) -> Values:
    return pc.binary_join_element_wise(*parts, scalar_of(b"", pa.binary()))


def _where_known(values: Values, found: Values) -> Values:
    return pc.if_else(values.is_valid(), found, scalar_of(None, pa.binary()))


ARRAY_ORDERS = {
    ARRAY_ORDER: Function(
        group="collections",
        example="array(1, 2) < array(1, 3)",
        parameters=(ARRAY,),
        result=t.BINARY,
        compute=_bytes,
    )
}
"""The function by its name."""
