"""Column chunks for Arrow to decode: as they are stored, or without their compression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["ChunkSource"]


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """A file with column chunks.

    Attributes:
        file: the file where they are.
        metadata: its footer.
        row_groups: the numbers of their row groups in it.
        decompressed: whether they are decompressed on the way.
    """

    file: pa.NativeFile
    metadata: pq.FileMetaData
    row_groups: list[int]
    decompressed: bool = False
