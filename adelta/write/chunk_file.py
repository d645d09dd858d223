"""A data file of column chunks that other files of the table have, with its `add` action.

Chunks can be taken over where the file would be written with the same schema, by the same writer
and with the same codec; and where nothing is asked of single columns, such as Bloom filters, that
would have to be made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_actions import AddFile, encode_path
from adelta.parquet.chunk_copies import (
    ChunkFileWriter,
    UncheckedPagesError,
    copied_chunks,
    footer_of_new_files,
    parts_of,
)
from adelta.parquet.write.abortable import Abortable
from adelta.write.discarding import discard_data_files
from adelta.write.layout import DataFileLayout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta._clock import Clock
    from adelta.parquet.chunk_copies import ChunkBytes
    from adelta.parquet.footer.footer_parts import FooterParts
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.object_store import ObjectStore
    from adelta.write.spec import WriteSpec

__all__ = ["ChunkDataFile", "ChunkLayout", "UncheckedPagesError"]


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """How the files of a spec are made, where chunks can be taken over from others."""

    spec: WriteSpec
    files: DataFileLayout
    footer: FooterParts
    codec: int

    @classmethod
    def of(cls, spec: WriteSpec) -> ChunkLayout | None:
        """The layout; None where rows have to be encoded anew. CPU-heavy.

        Raises: as `DataFileLayout.of` does.
        """
        files = DataFileLayout.of(spec)
        options = files.options
        usual = (options.dictionary, options.statistics, options.page_checksums) == (True,) * 3
        choices = options.names_columns or options.compression_level is not None
        if not usual or choices or spec.row_id_columns or spec.max_records_per_file is not None:
            return None
        footer = footer_of_new_files("a new file", files.file_schema, options)
        codec = footer.codec
        return None if codec is None else cls(spec, files, footer, codec)

    def parts_of(self, file: ParquetFile) -> FooterParts | None:
        """The parts of a file whose chunks can be taken over; None of another. CPU-heavy."""
        parts = parts_of(file)
        if parts is None or not parts.is_alike(self.footer):
            return None
        return parts if not parts.groups or parts.codec == self.codec else None


class ChunkDataFile(Abortable):
    """One new data file; used by one task at a time. It is deleted where the block fails.

    Args:
        store: the table's.
        layout: how its files are made.
        partition_values: the file's, by physical name.
    """

    def __init__(
        self,
        store: ObjectStore,
        layout: ChunkLayout,
        partition_values: Mapping[str, str | None],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._layout = layout
        self._clock = clock
        self._values = dict(partition_values)
        values = [self._values.get(name) for name, _ in layout.files.partition_columns]
        self.path = layout.files.path_of(values, 0)
        self._writer = ChunkFileWriter(store, self.path, layout.footer)

    async def copy(
        self, file: ParquetFile, parts: FooterParts, group: int, leaves: Sequence[int]
    ) -> None:
        """The next chunks of the row group under way: those of the leaves in one of a file's.

        Raises:
            InvalidTableError: a page is damaged, or the file is.
            UncheckedPagesError: a page has no checksum.
            StorageError: the store refused or failed.
        """
        async for chunks in copied_chunks(file, parts, group, leaves):
            await self._writer.put(chunks)

    async def put(self, chunks: Sequence[ChunkBytes]) -> None:
        """The next chunks of the row group under way.

        Raises:
            StorageError: the store refused or failed.
        """
        await self._writer.put(chunks)

    def end_group(self, num_rows: int) -> None:
        """The row group has a chunk for each leaf, of so many rows."""
        self._writer.end_group(num_rows)

    async def finish(self, stats: str) -> AddFile:
        """The action that would add the file, with these statistics, once it is there.

        Raises:
            StorageError: the store refused or failed.
        """
        written = await self._writer.close()
        return AddFile(
            path=encode_path(written.path),
            partition_values=self._values,
            size=written.size,
            modification_time=self._clock.now_ms(),
            data_change=True,
            stats=stats,
            tags=self._layout.spec.file_tags,
        )

    async def abort(self) -> None:
        """Delete what was written."""
        await self._writer.abort()
        await discard_data_files(self._store, [self.path])
