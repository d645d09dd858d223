"""Rows → rows by partition, without a Python loop over rows.

Two rows belong together where their partition values have the same text in the log, so that values
which the log cannot tell apart (0.0 and -0.0, or null and an empty string) share a directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._dataclasses import dataclass
from adelta.kernel.partition import serialise_partition_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.schema.types import DataType

__all__ = ["PartitionedRows", "split_by_partition"]


@dataclass(frozen=True, slots=True)
class PartitionedRows:
    """The rows of one partition: its values as the log's texts, and the remaining columns."""

    values: tuple[str | None, ...]
    rows: pa.RecordBatch


def split_by_partition(
    batch: pa.RecordBatch, columns: Sequence[tuple[str, DataType]], *, keep: bool = False
) -> list[PartitionedRows]:
    """The rows of `batch` by the values of `columns`; order is kept inside.

    The columns are left out, unless they are to `keep`.

    Example: rows (a, 1), (b, 2), (a, 3) by the first column become a: 1, 3 and b: 2.
    """
    if not columns:
        return [PartitionedRows((), batch)]
    texts = [_texts(batch.column(name), data_type) for name, data_type in columns]
    rest = batch if keep else batch.drop_columns([name for name, _ in columns])
    codes = _codes(texts)
    if pc.max(codes).as_py() == 0:  # one partition: nothing to move
        return [PartitionedRows(tuple(text[0].as_py() for text in texts), rest)]
    order = pc.array_sort_indices(codes)  # stable
    ends = pc.run_end_encode(codes.take(order)).run_ends.to_pylist()
    rows = rest.take(order)
    found = []
    for start, end in zip([0, *ends], ends, strict=False):
        first = order[start].as_py()
        values = tuple(text[first].as_py() for text in texts)
        found.append(PartitionedRows(values, rows.slice(start, end - start)))
    return found


def _texts(column: pa.Array[Any], data_type: DataType) -> pa.Array[Any]:
    """The log's text for every row, each distinct value serialised once."""
    encoded = column.dictionary_encode()
    distinct = serialise_partition_values(encoded.dictionary, data_type)
    return distinct.take(encoded.indices)


def _codes(texts: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    """For every row a number, counted from 0, that equal texts share."""
    combined: pa.Array[Any] | None = None
    for text in texts:
        encoded = text.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.cast(pa.int64())
        if combined is not None:
            wide = pc.add(pc.multiply(combined, pa.scalar(len(encoded.dictionary))), codes)
            codes = wide.dictionary_encode().indices.cast(pa.int64())  # small again: no overflow
        combined = codes
    assert combined is not None
    return combined
