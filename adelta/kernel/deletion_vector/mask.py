"""Deletion vectors → Arrow masks of the rows that are left."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from adelta.errors import InvalidTableError

__all__ = ["check_bounds", "kept_rows", "named_rows"]

arrow: Any = pa  # the stubs do not know `arange`


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
        return _are_in(named, start, count)
    # A search for the few others is cheaper.
    found: pa.BooleanArray = pc.invert(_are_in(within - named, start, count))
    return found


def _are_in(rows: BitMap64, start: int, count: int) -> pa.BooleanArray:
    places = rows.to_array()
    values = pa.Array.from_buffers(pa.uint64(), len(places), [None, pa.py_buffer(places)])
    candidates = arrow.arange(start, start + count).cast(pa.uint64())
    found: pa.BooleanArray = pc.is_in(candidates, value_set=values)
    return found


def kept_rows(rows: BitMap64, start: int, count: int) -> pa.BooleanArray | None:
    """Which of the `count` rows from `start` on are not deleted; None where all are kept.

    Example: with the rows {1, 4} deleted, the rows 0 to 2 are ``[True, False, True]``.
    """
    named = named_rows(rows, start, count)
    return None if named is None else pc.invert(named)
