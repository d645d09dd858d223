"""Deletion vectors → Arrow masks of the rows that are left."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from adelta import _compute as pc
from adelta.errors import InvalidTableError

__all__ = ["check_bounds", "kept_rows", "named_rows"]


def check_bounds(rows: BitMap64, num_rows: int, cardinality: int, source: str) -> None:
    """Check a vector against the file that it belongs to.

    Raises:
        InvalidTableError: it names other rows than the log says, or rows that the file has not.
    """
    if len(rows) != cardinality:
        raise InvalidTableError(
            f"{source}: the deletion vector names {len(rows)} rows where the log says {cardinality}"
        )
    if rows and rows.max() >= num_rows:
        raise InvalidTableError(
            f"{source}: the deletion vector names row {rows.max()} of a file of {num_rows} rows"
        )


def named_rows(rows: BitMap64, start: int, count: int) -> pa.BooleanArray | None:
    """Which of the `count` rows from `start` on the vector names; None where it names none.

    Example: with the rows {1, 4}, the rows 0 to 2 are ``[False, True, False]``.
    """
    if not rows.range_cardinality(start, start + count):
        return None
    within = BitMap64(range(start, start + count))
    named = rows & within
    if 2 * len(named) <= count:
        return _mask(named, start, count, named=True)
    return _mask(within - named, start, count, named=False)  # the few others


def _mask(rows: BitMap64, start: int, count: int, *, named: bool) -> pa.BooleanArray:
    mask = np.full(count, not named)
    mask[np.frombuffer(rows.to_array(), np.uint64) - np.uint64(start)] = named
    bits = pa.py_buffer(np.packbits(mask, bitorder="little").tobytes())
    return cast("pa.BooleanArray", pa.Array.from_buffers(pa.bool_(), count, [None, bits]))


def kept_rows(rows: BitMap64, start: int, count: int) -> pa.BooleanArray | None:
    """Which of the `count` rows from `start` on are not deleted; None where all are kept.

    Example: with the rows {1, 4} deleted, the rows 0 to 2 are ``[True, False, True]``.
    """
    named = named_rows(rows, start, count)
    return None if named is None else pc.invert(named)
