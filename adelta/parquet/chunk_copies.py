"""Parquet objects made of column chunks that are there, byte for byte: nothing is decoded.

`copied_chunks` fetches chunks of an object and holds every page of them to its checksum;
`encoded_chunks` makes chunks of rows; a `ChunkFileWriter` puts both into row groups of one object.
What the footers say of chunks, and the indexes of their pages, go along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.parquet.faults import reading
from adelta.parquet.footer.fetch_footer import TRAILER
from adelta.parquet.footer.footer_parts import (
    FooterParts,
    GroupParts,
    StoredChunk,
    assembled_footer,
    footer_parts,
    moved_offset_index,
)
from adelta.parquet.footer.layout import SelectedColumns
from adelta.parquet.guard.page_checks import check_pages
from adelta.parquet.page_headers import HeldBytes
from adelta.parquet.thrift import ThriftError
from adelta.parquet.write.abortable import Abortable
from adelta.parquet.write.encoder import Encoder
from adelta.parquet.write.upload import Upload
from adelta.parquet.write.writer import WrittenFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.reader import ParquetFile
    from adelta.parquet.write.options import WriterOptions
    from adelta.parquet.write.statistics import StatisticsCollector
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "ChunkBytes",
    "ChunkFileWriter",
    "UncheckedPagesError",
    "copied_chunks",
    "encoded_chunks",
    "footer_of_new_files",
    "parts_of",
]

_MAGIC: Final = b"PAR1"
_AT_ONCE: Final = 8 * 1024 * 1024  # bytes of chunks


class UncheckedPagesError(Exception):
    """A page has no checksum, so that nobody knows whether it is as it was written."""


@dataclass(frozen=True, slots=True)
class ChunkBytes:
    """A column chunk: what a footer says of it, its pages, and the indexes of these."""

    stored: StoredChunk
    pages: bytes
    column_index: bytes = b""
    offset_index: bytes = b""


# ------------------------------------------------------------------------------------- of objects


def parts_of(file: ParquetFile) -> FooterParts | None:
    """The footer of a file taken apart; None where its chunks cannot be copied. CPU-heavy."""
    footer = file.layout.footer
    if footer is None:
        return None
    try:
        found = footer_parts(footer)
    except ThriftError:
        return None
    leaves = file.layout.tree.num_leaves
    whole = all(len(group.chunks) == leaves for group in found.groups)
    return found if whole and len(found.groups) == file.layout.num_row_groups else None


async def copied_chunks(
    file: ParquetFile, parts: FooterParts, group: int, leaves: Sequence[int]
) -> AsyncGenerator[list[ChunkBytes], None]:
    """The chunks of the leaves in a row group, in pieces, once their pages are checked.

    Raises:
        InvalidTableError: a page is damaged, or the object is.
        UncheckedPagesError: a page has no checksum.
        ObjectNotFoundError: the object is no longer there.
    """
    chunks = parts.groups[group].chunks
    sizes = [chunks[leaf].end - chunks[leaf].start for leaf in leaves]
    start = held = 0
    for place, size in enumerate(sizes):
        if held and held + size > _AT_ONCE:
            yield await _checked(file, parts, group, leaves[start:place])
            start, held = place, 0
        held += size
    yield await _checked(file, parts, group, leaves[start:])


async def _checked(
    file: ParquetFile, parts: FooterParts, group: int, leaves: Sequence[int]
) -> list[ChunkBytes]:
    wanted = [parts.groups[group].chunks[leaf] for leaf in leaves]
    fetched = await file.fetch(SelectedColumns(tuple(leaves), None), row_groups=(group,))
    indexes = await _index_bytes(file, wanted)

    def checked() -> list[ChunkBytes]:
        layout = file.layout
        places = layout.places(leaves, (group,))
        found = []
        with file.bytes.source(fetched) as source:
            for leaf, chunk, place in zip(leaves, wanted, places, strict=True):
                held = HeldBytes(source, place)
                counts = check_pages(layout.path, held, layout.metadata, (group, leaf), place)
                if counts.summed < counts.pages or place != (chunk.start, chunk.end):
                    raise UncheckedPagesError
                pages = held.read_at(place[1] - place[0], place[0])
                own = (indexes.get(chunk.column_index, b""), indexes.get(chunk.offset_index, b""))
                found.append(ChunkBytes(chunk, pages, *own))
        return found

    return await in_thread(checked)


async def _index_bytes(
    file: ParquetFile, chunks: Sequence[StoredChunk]
) -> dict[ByteRange | None, bytes]:
    """The bytes of the indexes of chunks, by their places; without those that lie nowhere."""
    end = file.layout.footer_start
    places = {place for c in chunks for place in (c.column_index, c.offset_index)}
    inside = sorted(place for place in places if place is not None and place[1] <= end)
    held = {place: file.bytes.slice(*place) for place in inside}
    missing = [place for place, data in held.items() if data is None]
    found: dict[ByteRange | None, bytes] = {
        place: bytes(data) for place, data in held.items() if data is not None
    }
    for place, (_, data) in zip(missing, await file.bytes.get(missing), strict=True):
        found[place] = bytes(data)
    return found


# ---------------------------------------------------------------------------------------- of rows


def encoded_chunks(
    path: str,
    schema: pa.Schema,
    options: WriterOptions,
    rows: list[pa.Table],
    statistics: StatisticsCollector | None,
) -> list[ChunkBytes]:
    """The chunks of one row group of `rows`, as a file at `path` would hold them. CPU-heavy.

    The tables are forgotten, so that their memory is free meanwhile.

    Raises: as `ParquetObjectWriter.write` does.
    """
    encoder = Encoder(path, schema, options)
    pieces = encoder.encode(rows, statistics)
    last, _ = encoder.finish(statistics)
    data = b"".join((*pieces, *last))
    (group,) = _parts_of_bytes(data).groups
    return [
        ChunkBytes(
            chunk,
            data[chunk.start : chunk.end],
            b"" if chunk.column_index is None else data[slice(*chunk.column_index)],
            b"" if chunk.offset_index is None else data[slice(*chunk.offset_index)],
        )
        for chunk in group.chunks
    ]


def footer_of_new_files(path: str, schema: pa.Schema, options: WriterOptions) -> FooterParts:
    """The footer of a file of one row of nulls that is written by these options. CPU-heavy."""
    encoder = Encoder(path, schema, options)
    nulls: list[Any] = [pa.nulls(1, field.type) for field in schema]
    pieces = encoder.encode([pa.table(nulls, schema=schema)], None)
    last, _ = encoder.finish(None)
    return _parts_of_bytes(b"".join((*pieces, *last)))


def _parts_of_bytes(data: bytes) -> FooterParts:
    length = int.from_bytes(data[-TRAILER:-4], "little")
    return footer_parts(data[-TRAILER - length : -TRAILER])


# ----------------------------------------------------------------------------------------- a file


class ChunkFileWriter(Abortable):
    """Writes one Parquet object row group by row group; used by one task at a time.

    Nothing appears under the path until `close` has returned, and nothing at all after `abort`.

    Args:
        store: where the object goes.
        path: its path there.
        alike: the footer that the object's is to be like, but for the row groups.
    """

    def __init__(self, store: ObjectStore, path: str, alike: FooterParts) -> None:
        self.path = path
        self._alike = alike
        self._upload = Upload(store, path)
        self._at = 0
        self._chunks: list[tuple[int, ChunkBytes]] = []
        self._groups: list[tuple[int, list[tuple[int, ChunkBytes]]]] = []

    async def put(self, chunks: Sequence[ChunkBytes]) -> None:
        """The next chunks of the row group under way, in the order of the schema's leaves.

        Raises:
            StorageError: the store refused or failed.
        """
        pieces = [] if self._at else [_MAGIC]
        self._at = self._at or len(_MAGIC)
        for chunk in chunks:
            pieces.append(chunk.pages)
            self._chunks.append((self._at, replace(chunk, pages=b"")))
            self._at += len(chunk.pages)
        await self._upload.send(pieces)

    def end_group(self, num_rows: int) -> None:
        """The row group has a chunk for each leaf, of so many rows."""
        self._groups.append((num_rows, self._chunks))
        self._chunks = []

    async def close(self) -> WrittenFile:
        """Write the indexes and the footer; the object is there when this returns.

        Raises:
            StorageError: the store refused or failed.
        """
        pieces, metadata = await in_thread(self._end)
        await self._upload.finish(pieces)
        return WrittenFile(self.path, self._at, metadata.num_rows, metadata)

    async def abort(self) -> None:
        """Give the object up: nothing appears under its path."""
        await self._upload.cancel()

    def _end(self) -> tuple[list[bytes], pq.FileMetaData]:
        pieces = [] if self._at else [_MAGIC]
        at = self._at or len(_MAGIC)

        def put(data: bytes) -> ByteRange | None:
            nonlocal at
            if not data:
                return None
            pieces.append(data)
            start, at = at, at + len(data)
            return start, at

        columns = [[put(_kept_index(chunk)) for _, chunk in each] for _, each in self._groups]
        groups = []
        for (rows, chunks), indexes in zip(self._groups, columns, strict=True):
            moved = [
                chunk.stored.moved(start, index, put(_moved_index(chunk, start)))
                for (start, chunk), index in zip(chunks, indexes, strict=True)
            ]
            groups.append(GroupParts(rows, tuple(moved)))
        footer = assembled_footer(self._alike, groups)
        pieces.append(footer)
        self._at = at + len(footer)
        with reading(self.path):
            metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer))
        return pieces, metadata


def _kept_index(chunk: ChunkBytes) -> bytes:
    """The column index, which says nothing without the other one."""
    return chunk.column_index if _moved_index(chunk, chunk.stored.start) else b""


def _moved_index(chunk: ChunkBytes, start: int) -> bytes:
    """The offset index of the chunk at `start`; of none, or of a damaged one, nothing is left."""
    if not chunk.offset_index:
        return b""
    try:
        return moved_offset_index(chunk.offset_index, start - chunk.stored.start)
    except ThriftError:
        return b""
