"""Which columns hardly repeat a value, so that a dictionary of their values would only cost.

Arrow's writer gives a dictionary up when it has grown too large, but has looked every value up by
then, and the file keeps the dictionary beside the values that were written plainly after it. A few
thousand values of the first row group tell beforehand.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["distinct_columns"]

_FEWEST_ROWS: Final = 32 * 1024  # of fewer, no dictionary costs anything worth a look
_SAMPLED: Final = 4096
_CHUNKS: Final = 128  # at most, that are looked at
_FEWEST_VALUES: Final = 1024
_REPEATS: Final = 200  # one value in so many may have been seen before


def distinct_columns(table: pa.Table) -> list[str]:
    """The columns of flat values of 4 bytes or more that hardly repeat, going by a sample.

    With one repeated value in 200 a column has some 400,000 different ones, and its dictionary
    would be larger than Arrow lets it become.
    """
    if table.num_rows < _FEWEST_ROWS:
        return []
    return [
        field.name
        for index, field in enumerate(table.schema)
        if _is_candidate(field.type) and _is_distinct(table.column(index))
    ]


def _is_candidate(data_type: pa.DataType) -> bool:
    types = pa.types
    if types.is_string(data_type) or types.is_large_string(data_type):
        return True
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return True
    is_flat = types.is_primitive(data_type) or types.is_decimal(data_type)
    return is_flat and data_type.bit_width >= 32


def _is_distinct(column: pa.ChunkedArray[Any]) -> bool:
    sample = pa.chunked_array(_samples(column), column.type)
    values = len(sample) - sample.null_count
    if values < _FEWEST_VALUES:
        return False
    repeated = values - pc.count_distinct(sample, mode="only_valid").as_py()
    return bool(repeated * _REPEATS <= values)


def _samples(column: pa.ChunkedArray[Any]) -> Iterator[pa.Array[Any]]:
    chunks = column.chunks
    if len(chunks) > _CHUNKS:
        chunks = [chunks[place.as_py()] for place in _places(len(chunks), _CHUNKS)]
    rows = sum(map(len, chunks))
    for chunk in chunks:
        wanted = -(-_SAMPLED * len(chunk) // rows)
        yield chunk if wanted >= len(chunk) else chunk.take(_places(len(chunk), wanted))


@lru_cache(maxsize=64)
def _places(rows: int, wanted: int) -> pa.Array[Any]:
    """As many places, anywhere: a regular step could fall in with what the values repeat by."""
    return array_of(sorted(random.Random(rows).sample(range(rows), wanted)), pa.int64())
