"""Whether the pages of column chunks are those that were written.

A page's header may have the CRC-32 of the bytes after it, as adelta, Spark and Arrow when it is
asked write it. The header itself is in no checksum: what it says decides how the bytes are decoded,
so it is held to what the footer says of the chunk. That finds what changed, by any one bit, how
many values a page has or how they are encoded.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from adelta.errors import InvalidTableError
from adelta.parquet.faults import reading
from adelta.parquet.page_headers import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, Page, pages_of
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.page_headers import PageBytes

__all__ = ["PageCounts", "check_pages", "is_as_written"]

_PADDING: Final = 100  # bytes that Arrow reads after a chunk, as an early writer counted too few
_ARROW: Final = "parquet-cpp-arrow"
_ENCODINGS: Final = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}


class PageCounts(NamedTuple):
    """How many pages there are, and how many of them have a checksum."""

    pages: int
    summed: int


def check_pages(
    path: str,
    source: PageBytes,
    metadata: pq.FileMetaData,
    chunk: tuple[int, int],
    place: ByteRange,
) -> PageCounts:
    """The pages of the chunk, a row group and a leaf, at `place`, if they are as they were written.

    `source` has the bytes of the object at `path`. Memory holds a page at a time. CPU-heavy: call
    it in a worker thread.

    Raises:
        InvalidTableError: a page has other bytes than its checksum says, or is not as the footer
            has it.
    """
    with reading(path):
        group, leaf = chunk
        column = metadata.row_group(group).column(leaf)
        name, stated = column.path_in_schema, column.num_values
        # Others' lists of encodings have been known to lack some.
        encodings = (
            set(column.encodings) if (metadata.created_by or "").startswith(_ARROW) else None
        )
        seen = count = summed = 0
        at, end = place

        def damaged(what: str) -> InvalidTableError:
            return InvalidTableError(
                f"{path}: the page at byte {at:,}, of column {name} in row group {group}, {what}. "
                "The object is damaged: restore it, or remove it from the table."
            )

        pages = pages_of(source, place)
        while seen < stated and at < end:
            try:
                page = next(pages)
            except ThriftError as error:
                raise damaged(f"has no header that can be read ({error})") from error
            count += 1
            if page.payload[1] > end:
                raise damaged("does not end where its column chunk does")
            if page.crc is not None:
                summed += 1
                if not is_as_written(source, page):
                    raise damaged("has other bytes than its checksum says")
            if page.kind in (DATA_PAGE, DATA_PAGE_V2):
                seen += page.values
            elif page.kind != DICTIONARY_PAGE or at != place[0]:
                raise damaged(f"is of kind {page.kind}, which is no page of values")
            if encodings is not None and _ENCODINGS.get(page.encoding) not in encodings:
                raise damaged("is in an encoding that the footer does not name")
            at = page.payload[1]
        if seen != stated or end - at > _PADDING:
            raise InvalidTableError(
                f"{path}: the pages of column {name} in row group {group} have {seen:,} values in "
                f"{at - place[0]:,} bytes where the footer says {stated:,} in {end - place[0]:,}. "
                "The object is damaged: restore it, or remove it from the table."
            )
        return PageCounts(count, summed)


def is_as_written(source: PageBytes, page: Page) -> bool:
    """Whether a page has the bytes that its checksum says, if it has one. CPU-heavy."""
    if page.crc is None:
        return True
    start, end = page.payload
    source.seek(start)
    return zlib.crc32(source.read_buffer(end - start)) == page.crc & 0xFFFFFFFF
