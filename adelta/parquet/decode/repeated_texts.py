"""Columns of texts that repeat: decoded as a dictionary and numbers, and laid out at once.

Arrow decodes texts one by one, also those that a column chunk holds only once. To decode their
numbers alone, and then to lay the texts out in one go, takes half of the time. But where a chunk
has texts outside its dictionary, as writers leave them when they grow too many, it takes several
times as long; so this is for chunks that are too small to have many of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._memory import lasting_pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

__all__ = ["laid_out", "repeated_texts"]

_FEWEST_ROWS = 4096
_MOST_BYTES = 3  # a value: one outside a dictionary takes four and its text
_DICTIONARIES = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_ENCODINGS = _DICTIONARIES | {"PLAIN", "RLE", "BIT_PACKED"}
_LARGEST_ARRAY = 2**31 - 1  # bytes of text


def repeated_texts(
    metadata: pq.FileMetaData, groups: Sequence[int], texts: Mapping[int, str]
) -> list[str]:
    """Which of the text columns, given by leaf, hold most of their texts in dictionaries."""
    return [
        name
        for leaf, name in texts.items()
        if all(_repeats(metadata.row_group(group), leaf) for group in groups)
    ]


def _repeats(group: pq.RowGroupMetaData, leaf: int) -> bool:
    if group.num_rows < _FEWEST_ROWS:
        return False
    chunk = group.column(leaf)
    values = chunk.num_values
    if chunk.total_uncompressed_size > _MOST_BYTES * values:
        return False
    statistics = chunk.statistics
    if statistics is not None:
        values -= statistics.null_count or 0
    if chunk.total_uncompressed_size > _MOST_BYTES * values:
        return False
    encodings = set(chunk.encodings)
    return encodings <= _ENCODINGS and not encodings.isdisjoint(_DICTIONARIES)


def laid_out(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with the columns named, which are dictionaries, as texts."""
    if not names:
        return table
    for index, field in enumerate(table.schema):
        if field.name not in names or not pa.types.is_dictionary(field.type):
            continue
        parts = [part for chunk in table.column(index).chunks for part in _texts(chunk)]
        if len(parts) > 1 and sum(map(_bytes, parts)) <= _LARGEST_ARRAY:
            parts = [pa.concat_arrays(parts, memory_pool=lasting_pool())]
        texts = pa.chunked_array(parts, pa.string())
        table = table.set_column(index, field.with_type(pa.string()), texts)
    return table


def _texts(chunk: Any) -> list[pa.Array[Any]]:
    longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 1
    rows = _LARGEST_ARRAY // longest
    return [
        pc.cast(chunk.slice(start, rows), pa.string(), memory_pool=lasting_pool())
        for start in range(0, max(1, len(chunk)), rows)
    ]


def _bytes(texts: pa.Array[Any]) -> int:
    data = texts.buffers()[2]
    return 0 if data is None else data.size
