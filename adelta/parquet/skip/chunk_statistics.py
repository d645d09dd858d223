"""What a footer says of the values of one leaf in one row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.parquet.faults import reading

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ChunkStatistics", "chunk_statistics"]


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """What the footer says of one leaf in one row group; None where it says nothing.

    Writers leave NaN out of `min` and `max` and may have cut long texts short.
    """

    min: Any
    max: Any
    null_count: int | None
    num_values: int


def chunk_statistics(path: str, chunk: pq.ColumnChunkMetaData) -> ChunkStatistics | None:
    """The statistics of a chunk of the object at `path`; None where it has none.

    Raises:
        InvalidTableError: they are damaged.
    """
    with reading(path):
        found = chunk.statistics
        if found is None:
            return None
        bounded = found.has_min_max
        return ChunkStatistics(
            min=found.min if bounded else None,
            max=found.max if bounded else None,
            null_count=found.null_count,
            num_values=found.num_values,
        )
