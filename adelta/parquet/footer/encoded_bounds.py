"""Bounds in footers: of the bytes that encode them, the values that Arrow would make."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bound_decoder"]

_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_BOOLEAN = struct.Struct("?")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_EPOCH: Final = date(1970, 1, 1).toordinal()
_FRACTIONS: Final = {"ms": 1000, "us": 1}
"""Microseconds of a unit of timestamps that Python's have room for."""


def bound_decoder(physical_type: str, data_type: pa.DataType) -> Callable[[bytes], Any] | None:
    """What makes a value of a bound of a column; None for types that are left to Arrow.

    What it raises is a ValueError or an OverflowError: the bytes are no value, or Python's types
    have no room for it.
    """
    whole = {"INT32": _number(_INT), "INT64": _number(_LONG)}.get(physical_type)
    if whole is not None:
        return _of_whole(whole, data_type)
    if physical_type == "BOOLEAN" and pa.types.is_boolean(data_type):
        return _number(_BOOLEAN)
    if physical_type == "FLOAT" and pa.types.is_float32(data_type):
        return _number(_FLOAT)
    if physical_type == "DOUBLE" and pa.types.is_float64(data_type):
        return _number(_DOUBLE)
    if physical_type == "BYTE_ARRAY" and pa.types.is_string(data_type):
        return bytes.decode
    if physical_type == "FIXED_LEN_BYTE_ARRAY" and pa.types.is_decimal(data_type):
        return _decimal(lambda data: int.from_bytes(data, "big", signed=True), data_type)
    return None


def _of_whole(whole: Callable[[bytes], int], data_type: Any) -> Callable[[bytes], Any] | None:
    if pa.types.is_signed_integer(data_type):
        return whole
    if pa.types.is_date32(data_type):
        return lambda data: _day(whole(data))
    if pa.types.is_decimal(data_type):
        return _decimal(whole, data_type)
    if pa.types.is_timestamp(data_type) and data_type.unit in _FRACTIONS:
        return _time(whole, data_type)
    return None


def _number(form: struct.Struct) -> Callable[[bytes], Any]:
    unpack = form.unpack

    def number(data: bytes) -> Any:
        try:
            return unpack(data)[0]
        except struct.error as error:
            raise ValueError("a bound of another length than its type") from error

    return number


def _decimal(whole: Callable[[bytes], int], data_type: Any) -> Callable[[bytes], Decimal]:
    exponent = -data_type.scale
    return lambda data: Decimal(f"{whole(data)}E{exponent}")  # exact, whatever the context says


def _time(whole: Callable[[bytes], int], data_type: Any) -> Callable[[bytes], datetime]:
    micros = _FRACTIONS[data_type.unit]
    epoch = datetime(1970, 1, 1, tzinfo=UTC if data_type.tz else None)
    return lambda data: epoch + timedelta(microseconds=whole(data) * micros)


@lru_cache(maxsize=4096)
def _day(days: int) -> date:
    return date.fromordinal(days + _EPOCH)
