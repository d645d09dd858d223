"""Rows by their places, and rows put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arrow_values import array_of_numpy, empty_batch
from adelta.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["concat", "take"]

arrow: Any = pa  # the stubs take arrays of numpy for booleans


def take(rows: pa.RecordBatch, places: NDArray[Any]) -> pa.RecordBatch:
    """The rows at `places`, in this order."""
    return rows.take(array_of_numpy(places))


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows of some batches, in their order.

    Raises:
        OutOfMemoryError: they are too many for one batch.
    """
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    if len(joined) > 1:  # of texts, 2 GiB are the most
        raise OutOfMemoryError(
            f"{sum(batch.num_rows for batch in batches)} rows of the source are to be in memory "
            "at once, and their texts are too long for that; merge it in parts"
        )
    return joined[0] if joined else empty_batch(schema)
