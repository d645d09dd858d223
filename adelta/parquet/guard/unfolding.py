"""What column chunks come to once they are decoded, before they are: few bytes may make very many.

The footer counts the bytes of decompressed pages, and the reader counts values of fixed width. Left
are pages that decompress to more than the footer says, texts that a dictionary holds once and
millions of rows repeat, and texts of which each repeats the one before. A chunk that Snappy can not
have made much of is stated by its first page; of others the headers of all pages are read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._dataclasses import dataclass
from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.faults import reading
from adelta.parquet.page_headers import DICTIONARY_PAGE, HeldBytes, Page, pages_of
from adelta.parquet.snappy import unsnapped
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.page_headers import PageBytes

__all__ = ["Unfolding", "unfolded"]

Values: TypeAlias = Any
"""A pa.Array, of a type that is known at run time only."""

_MOST_UNTOLD: Final = 256 << 20  # bytes that pages may have beyond what the footer says
_AT_ONCE: Final = 1 << 30  # bytes of texts decoded at once where each may repeat the one before
_SNAPPY_RATIO: Final = 32  # more bytes than one compressed byte makes
_MAGIC: Final[tuple[tuple[bytes, Any], ...]] = (  # the stubs want literals
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
)
_PREFIXED: Final = 7  # the encoding DELTA_BYTE_ARRAY
_WINDOWS: Final = 64 * 1024  # looked through at once
_MOST_ENTRIES: Final = 200_000  # of a dictionary, walked through in Python


@dataclass(frozen=True, slots=True)
class Unfolding:
    """What a column chunk comes to.

    Attributes:
        text_bytes: bytes of the texts that a dictionary repeats, where they are many; else 0.
        rows_at_once: how many rows may be decoded together; None for any number.
    """

    text_bytes: int = 0
    rows_at_once: int | None = None


def unfolded(
    path: str,
    source: PageBytes,
    metadata: pq.FileMetaData,
    chunk: tuple[int, int],
    place: ByteRange,
    *,
    limit: int,
    rows: int | None = None,
) -> Unfolding:
    """What the chunk of byte arrays, a row group and a leaf, at `place` of `path` comes to.

    Texts are only counted where so many `rows` of them, all by default, may be more than `limit`
    bytes. CPU-heavy: call it in a worker thread.

    Raises:
        InvalidTableError: its pages come to far more than the footer says.
    """
    group, leaf = chunk
    column: Any = metadata.row_group(group).column(leaf)
    stated, values = column.total_uncompressed_size, column.num_values
    if rows is not None and values == metadata.row_group(group).num_rows:  # no lists
        values = min(values, rows)
    prefixed = "DELTA_BYTE_ARRAY" in column.encodings
    try:
        pages = pages_of(source, place)
        first = next(pages, None)
        if first is None:
            return Unfolding()
        most = (place[1] - place[0]) * _SNAPPY_RATIO
        bounded = most <= stated + _MOST_UNTOLD and _codec(source, first) == "snappy"
        rest = [] if bounded and not prefixed else list(pages)
    except ThriftError:
        return Unfolding()  # damaged: reading it says so
    total = first.unfolded + sum(page.unfolded for page in rest)
    if total > stated + _MOST_UNTOLD:
        raise InvalidTableError(
            f"{path}: a column of its row group {group} unfolds to {total:,} bytes where its "
            f"footer says {stated:,}. The object is damaged, or made to exhaust memory: restore "
            "it, or remove it from the table."
        )
    found = 0
    if (
        first.kind == DICTIONARY_PAGE
        and first.unfolded * values > limit
        and _longest(source, first, limit // values) * values > limit
    ):
        found = _text_bytes(path, source, metadata, chunk)
    largest = [page.unfolded for page in (first, *rest) if page.encoding == _PREFIXED]
    if not largest or max(largest) * values <= limit:
        return Unfolding(found)
    rows = metadata.row_group(group).num_rows
    at_once = _AT_ONCE // max(largest) * rows // max(values, 1)
    return Unfolding(found, max(1, at_once))


def _codec(source: PageBytes, page: Page) -> Any:
    """The codec of a page as its bytes tell it; None where they do not.

    The footer's word for it is not asked for: Arrow ends the process where it does not know it.
    """
    head = page.starts_with(source)
    for magic, codec in _MAGIC:
        if head.startswith(magic):
            return codec
    return "snappy" if page.may_be_snappy(head) else None


def _longest(source: PageBytes, page: Page, short: int) -> int:
    """The longest text of a dictionary, or 0 where all are of `short` bytes at most.

    The size of the whole where the dictionary is not understood.
    """
    codec = _codec(source, page)
    start, end = page.payload
    source.seek(start)
    data: Any = source.read(end - start)
    if codec is not None:
        try:
            if codec == "snappy":
                into: Any = pa.allocate_buffer(page.unfolded, memory_pool=lasting_pool())
                unsnapped(memoryview(data), memoryview(into).cast("B"))
                data = into
            else:
                data = pa.Codec(codec).decompress(data, decompressed_size=page.unfolded)
        except (pa.ArrowException, OSError, ValueError):
            return page.unfolded
    elif len(data) != page.unfolded:
        return page.unfolded
    view = memoryview(data).cast("B")
    if not _any_longer(view, short):
        return 0
    if page.values > _MOST_ENTRIES:
        return page.unfolded
    at = longest = 0
    unpack = struct.Struct("<I").unpack_from
    try:
        for _ in range(page.values):
            (length,) = unpack(view, at)
            longest = max(longest, length)
            at += 4 + length
    except struct.error:
        return page.unfolded
    return longest


def _any_longer(data: memoryview, short: int) -> bool:
    """Whether anything in the bytes could be the length of a text that is longer than `short`."""
    least, most = short + 1, len(data)
    for shift in range(4 if least < most else 0):
        windows = np.frombuffer(data, "<u4", (most - shift) // 4, shift)
        for start in range(0, len(windows), _WINDOWS):
            above = windows[start : start + _WINDOWS] - np.uint32(least)  # what is below wraps
            if (above < most - least).any():
                return True
    return False


def _text_bytes(
    path: str, source: PageBytes, metadata: pq.FileMetaData, chunk: tuple[int, int]
) -> int:
    """Bytes of all texts of a chunk: its numbers of dictionary entries are read, not the texts."""
    group, leaf = chunk
    name = metadata.schema.column(leaf).path
    file = source.file if isinstance(source, HeldBytes) else source
    reader = open_arrow_reader(path, file, metadata, read_dictionary=[name])
    with reading(path):
        table = reader.read_row_groups([group], column_indices=[leaf], use_threads=False)
    return sum(_bytes_of(part) for column in table.columns for part in column.chunks)


def _bytes_of(values: Values) -> int:
    """Bytes of the texts under these values; of a dictionary those that it stands for."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(values.dictionary).cast(pa.int64())
        total: int = pc.sum(lengths.take(values.indices)).as_py() or 0
        return total
    if pa.types.is_struct(kind):
        return sum(_bytes_of(values.field(index)) for index in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _bytes_of(values.keys) + _bytes_of(values.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bytes_of(values.values)
    return int(values.nbytes)
