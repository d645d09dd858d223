"""Small files with footers alike, decoded together: as the row groups of one file.

To have Arrow open a small file takes longer than to decode it, and so does to look at its pages one
by one. So the bytes of many are laid one behind the other, and one footer is made that says where
their chunks are now. The files are to be whole, of one row group each, without lists, and their
pages are held to the same as those of files that are read by themselves; what does not pass is left
to `ParquetFile`, which says what is wrong with it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.parquet.arrow_reader import open_arrow_reader, open_footer
from adelta.parquet.faults import reading
from adelta.parquet.footer.chunk_ranges import decoded_bytes
from adelta.parquet.footer.fetch_footer import footer_within
from adelta.parquet.footer.known_shapes import KnownShape, known_file
from adelta.parquet.footer.layout import FileLayout, SelectedColumns
from adelta.parquet.guard.usual_pages import HEADER_ROOM, Chunks, Pages, usual_pages, words_of
from adelta.parquet.guard.zstd_frames import are_whole_frames
from adelta.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    encoded_binary,
    encoded_integer,
    field_header,
    list_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.parquet.footer.footer_shape import ChunkPlace
    from adelta.storage.object_store import SuffixRead

__all__ = ["AlikeFile", "AlikeFiles", "alike_file"]

Numbers: TypeAlias = Any
"""An array of NumPy, of a type that is known at run time only."""

_NUMBER_BYTES: Final = 5  # of a number in the footer that is made, which may be of 34 bits
_TYPES: Final = (
    "BOOLEAN",
    "INT32",
    "INT64",
    "INT96",
    "FLOAT",
    "DOUBLE",
    "BYTE_ARRAY",
    "FIXED_LEN_BYTE_ARRAY",
)
_ENCODINGS: Final = (0, 3, 8)  # what a chunk says of them is not looked at
_TEXTS: Final = "BYTE_ARRAY"
_ZSTD: Final = 6  # of the codecs
_ANY_ENCODING: Final = -1  # has all bits


class AlikeFile(NamedTuple):
    """A whole file of one row group, by a footer of a known shape.

    `decoded_bytes` is the memory that its columns take, but for texts that a dictionary repeats.
    """

    data: bytes
    known: KnownShape
    rows: int
    chunks: list[ChunkPlace]
    decoded_bytes: int

    @property
    def kind(self) -> tuple[int, tuple[int, ...]]:
        """What those have in common that can be decoded together."""
        return id(self.known), tuple(chunk.codec for chunk in self.chunks)


def alike_file(path: str, read: SuffixRead) -> AlikeFile | None:
    """The file of which `read` is all; None where it has to be read by itself. CPU-heavy.

    Raises:
        InvalidTableError: the object is no Parquet, is cut short, or is encrypted.
    """
    if len(read.data) != read.object_size:
        return None
    fetched = footer_within(path, read)
    if fetched is None:
        return None
    found = known_file(bytes(fetched.footer), read.object_size - len(fetched.footer))
    if found is None or not found.known.is_flat or not found.rows:
        return None
    if any(chunk.num_values != found.rows for chunk in found.chunks):
        return None
    size = sum(
        decoded_bytes(*kind, chunk.unfolded, chunk.num_values)
        for kind, chunk in zip(found.known.types, found.chunks, strict=True)
    )
    return AlikeFile(read.data, found.known, found.rows, found.chunks, size)


class AlikeFiles:
    """Files of one kind, whose pages are looked at once. CPU-heavy, all of it.

    `sizes` are the most bytes that each file's columns may come to; None of one that is to be read
    by itself. The pages of the others are as they were written, and as the footers say.
    """

    def __init__(self, files: Sequence[AlikeFile]) -> None:
        known, leaves = files[0].known, len(files[0].chunks)
        self._files = files
        self._table = _chunks(files)
        is_text = np.array([kind == _TEXTS for kind, _ in known.types], np.bool_)
        start, end, values, unfolded, _, encodings = self._table.T
        if not known.names_encodings:
            encodings = np.full(len(encodings), _ANY_ENCODING)
        self._data = b"".join([*(file.data for file in files), bytes(HEADER_ROOM)])
        chunks = Chunks(start, end, values, unfolded, encodings)
        good, texts, self._pages = usual_pages(self._data, chunks)
        whole = good.reshape(-1, leaves).all(axis=1).tolist()
        repeated = (texts.reshape(-1, leaves) * is_text).sum(axis=1).tolist()
        self.sizes: list[int | None] = [
            file.decoded_bytes + most if is_whole else None
            for file, most, is_whole in zip(files, repeated, whole, strict=True)
        ]

    def decode(
        self, numbers: range, select: Callable[[FileLayout], SelectedColumns]
    ) -> tuple[FileLayout, SelectedColumns, pa.Table] | None:
        """The rows of files that have a size, in their order, of the selected columns.

        The layout is that of a file that has them all. None where Arrow does not make of them what
        their footers say: then one is damaged.
        """
        rows = sum(self._files[number].rows for number in numbers)
        path = f"{len(numbers)} small files"
        try:
            layout, source = self._as_one(path, numbers, rows)
            columns = select(layout)
            if not columns.leaves:
                return None
            reader = open_arrow_reader(path, source, layout.metadata, pool=lasting_pool())
            groups, leaves = list(range(len(numbers))), list(columns.leaves)
            with reading(path):
                table = reader.read_row_groups(groups, column_indices=leaves, use_threads=False)
        except (InvalidTableError, UnsupportedFeatureError):
            return None
        if table.num_rows != rows:
            return None
        order = columns.order
        return layout, columns, table if order is None else table.select(list(order))

    def _as_one(self, path: str, numbers: range, rows: int) -> tuple[FileLayout, pa.NativeFile]:
        first = self._files[numbers[0]]
        leaves = len(first.chunks)
        own = slice(numbers.start * leaves, numbers.stop * leaves)
        start, end, values, unfolded, *_ = self._table[own].T
        codecs, data = [chunk.codec for chunk in first.chunks], self._data
        unpacked = self._unpacked(own) if set(codecs) == {_ZSTD} else None
        if unpacked is not None:
            data, start, end = unpacked
            codecs, unfolded = [0] * leaves, end - start
        template, places = _template(first.known, codecs)
        shape = (len(numbers), -1)
        sizes = np.array([[self._files[number].rows] for number in numbers], np.int64)
        stated = np.stack([values, unfolded, end - start, start], axis=1).reshape(shape)
        whole = unfolded.reshape(shape).sum(axis=1, keepdims=True)
        stated = np.concatenate([stated, whole, sizes], axis=1)
        groups = np.tile(np.frombuffer(template, np.uint8), (len(numbers), 1))
        _put_numbers(groups, places, stated)
        footer = first.known.shape.footer_of(rows, [group.tobytes() for group in groups])
        reader = open_footer(path, memoryview(footer))
        with reading(path):
            schema = reader.schema_arrow
        return FileLayout.of(path, len(data), reader.metadata, schema), pa.BufferReader(data)

    def _unpacked(self, own: slice) -> tuple[bytes, Numbers, Numbers] | None:
        """The pages of some chunks without compression: all decompressed in one go.

        With where each chunk starts and ends. None where that cannot be.
        """
        pages = self._pages.of((self._pages.chunk >= own.start) & (self._pages.chunk < own.stop))
        words = words_of(self._data)
        if not are_whole_frames(words, pages.start, pages.end, pages.unfolded).all():
            return None
        view = memoryview(self._data)
        places = zip(pages.start.tolist(), pages.end.tolist(), strict=True)
        frames = b"".join([view[start:end] for start, end in places])
        ends = np.cumsum(pages.unfolded)
        try:
            raw = memoryview(_codec().decompress(frames, int(ends[-1]), memory_pool=lasting_pool()))
        except (pa.ArrowException, OSError):
            return None
        heads = _page_headers(pages)
        pieces: list[Any] = []
        at = 0
        for head, end in zip(heads, ends.tolist(), strict=True):
            pieces += (head, raw[at:end])
            at = end
        sizes = pages.unfolded + np.array([len(head) for head in heads])
        stops = np.cumsum(np.bincount(pages.chunk - own.start, sizes).astype(np.int64))
        return b"".join(pieces), np.concatenate([[0], stops[:-1]]), stops


# ------------------------------------------------------------------------------------- one of many


@cache
def _codec() -> pa.Codec:
    return pa.Codec("zstd")


def _chunks(files: Sequence[AlikeFile]) -> Numbers:
    """What the footers say of all chunks, file by file, as if the files were one."""
    table = np.array([file.chunks for file in files], np.int64)
    sizes = np.array([len(file.data) for file in files], np.int64)
    table[:, :, :2] += (np.cumsum(sizes) - sizes)[:, None, None]
    return table.reshape(-1, table.shape[2])


def _put_numbers(rows: Numbers, places: Numbers, numbers: Numbers) -> None:
    """Write numbers that are not negative at the same places of each row, all as long."""
    for byte in range(_NUMBER_BYTES):
        more = 0x80 if byte < _NUMBER_BYTES - 1 else 0
        rows[:, places + byte] = (numbers << 1 >> 7 * byte & 0x7F) | more


def _page_headers(pages: Pages) -> list[bytes]:
    """Headers of the pages as they are without compression, and without checksums."""
    found = np.zeros(len(pages.chunk), object)
    for is_data in (True, False):
        chosen = pages.is_data == is_data
        some = pages.of(chosen)
        columns = [some.unfolded, some.unfolded, some.values, some.encoding]
        columns += [some.defined, some.repeated] if is_data else []
        number = field_header(I32, 1) + bytes(_NUMBER_BYTES)
        head = field_header(I32, 1) + encoded_integer(0 if is_data else 2) + number * 2
        inner = field_header(STRUCT, 2 if is_data else 4)
        rest = number * (len(columns) - 2)
        template = head + inner + rest + bytes(2)
        first, step = len(head) - 2 * len(number) + 1, len(number)
        places = [first, first + step]
        places += [len(head + inner) + 1 + step * at for at in range(len(columns) - 2)]
        rows = np.tile(np.frombuffer(template, np.uint8), (len(some.chunk), 1))
        _put_numbers(rows, np.array(places), np.stack(columns, axis=1))
        found[chosen] = [row.tobytes() for row in rows]
    headers: list[bytes] = found.tolist()
    return headers


def _template(known: KnownShape, codecs: Sequence[int]) -> tuple[bytes, Numbers]:
    """A row group without its numbers, and where these are: four a leaf, bytes, and rows."""
    out = bytearray(field_header(LIST, 1) + list_header(STRUCT, len(codecs)))
    places: list[int] = []

    def number(step: int) -> None:
        out.extend(field_header(I64, step))
        places.append(len(out))
        out.extend(bytes(_NUMBER_BYTES))

    encodings = list_header(I32, len(_ENCODINGS)) + b"".join(map(encoded_integer, _ENCODINGS))
    for (kind, _), codec in zip(known.types, codecs, strict=True):
        out += field_header(I64, 2) + encoded_integer(0)  # where this is stored once more: nowhere
        out += field_header(STRUCT, 1)
        out += field_header(I32, 1) + encoded_integer(_TYPES.index(kind))
        out += field_header(LIST, 1) + encodings
        out += field_header(LIST, 1) + list_header(BINARY, 1) + encoded_binary(b"")  # its name
        out += field_header(I32, 1) + encoded_integer(codec)
        for step in (1, 1, 1, 2):  # values, bytes of pages, as they are stored, and where
            number(step)
        out += bytes(2)
    number(1)
    number(1)
    out += bytes(1)
    return bytes(out), np.array(places)
