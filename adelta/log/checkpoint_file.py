"""A Parquet file of a checkpoint: what opening a table needs of it is read without Arrow.

Arrow is given the footer, which is kept, when file actions are first asked for.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from adelta._concurrency import in_thread
from adelta._memory import memory_limit_of
from adelta.errors import InvalidTableError
from adelta.parquet.byte_ranges import join_adjacent
from adelta.parquet.faults import unchanged
from adelta.parquet.footer.fetch_footer import fetch_footer
from adelta.parquet.rare.rows import RareColumns, UnusualFileError
from adelta.storage.pin import Pin, pinned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.footer.fetch_footer import FetchedFooter
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.object_store import ObjectStore

__all__ = ["CheckpointFile", "Singletons", "open_file"]

Singletons: TypeAlias = "dict[str, list[dict[str, Any]]]"
"""Rows of actions that are no file actions, by action."""

_log = logging.getLogger("adelta.log")

_SINGLETONS = ("protocol", "metaData", "sidecar", "txn", "domainMetadata")
_LEAST_TAIL = 64 * 1024
_LARGEST_TAIL = 512 * 1024
_JOINED = 4 << 20  # bytes that are asked for as one range
_LARGEST = 64 << 20  # bytes of rows that are read without Arrow


class CheckpointFile:
    """A Parquet file of a checkpoint, whose footer has been read.

    Attributes:
        path: its path in the table.
        size: its bytes.
        num_rows: how many actions it has.
        num_row_groups: in how many row groups.
    """

    __slots__ = (
        "_file",
        "_footer",
        "_pin",
        "_rare",
        "_store",
        "num_row_groups",
        "num_rows",
        "path",
        "size",
    )

    def __init__(
        self,
        store: ObjectStore,
        footer: FetchedFooter | None,
        pin: Pin,
        read: RareColumns | ParquetFile,
    ) -> None:
        self._store = store
        self._footer = footer
        self._pin = pin
        if isinstance(read, RareColumns):
            assert footer is not None
            self._rare: RareColumns | None = read
            self._file: ParquetFile | None = None
            self.path, self.size = footer.path, footer.object_size
            self.num_rows, self.num_row_groups = read.num_rows, read.num_row_groups
        else:
            layout = read.layout
            self._rare, self._file = None, read
            self.path, self.size = layout.path, layout.size
            self.num_rows, self.num_row_groups = layout.num_rows, layout.num_row_groups

    @classmethod
    async def open(cls, store: ObjectStore, path: str, size: int | None) -> CheckpointFile:
        """Read the footer: by one request for nearly every size of it.

        Raises:
            InvalidTableError: the file is damaged.
            ObjectNotFoundError: there is no such file.
        """
        pin = Pin()
        try:
            footer = await fetch_footer(store, path, tail=_tail_of(size), pin=pin)
        except InvalidTableError:  # damaged on a disk cache alone, perhaps: the reader looks there
            return cls(store, None, pin, await open_file(store, path, size))
        end = footer.object_size - len(footer.footer)
        try:
            rare = await in_thread(RareColumns.of_footer, footer.footer, end, _SINGLETONS)
        except UnusualFileError as error:
            _log.debug("%s: its footer is read by Arrow: %s", path, error)
            return cls(store, footer, pin, await _of_footer(store, footer, pin))
        return cls(store, footer, pin, rare)

    async def parquet(self) -> ParquetFile:
        """The file, to be read by Arrow. There is no request for it.

        Raises:
            InvalidTableError: the footer is damaged.
        """
        if self._file is None:
            assert self._footer is not None
            self._file = await _of_footer(self._store, self._footer, self._pin)
        return self._file

    async def singletons(self, markers: Mapping[str, str]) -> Singletons | None:
        """Rows of the named actions, each with a field that is never null; None for Arrow to read.

        Raises:
            InvalidTableError: the file was written again.
            ObjectNotFoundError: it is no longer there.
        """
        rare = self._rare
        if rare is None:
            return None
        try:
            plan = await in_thread(rare.plan, markers)
            if plan.decoded_bytes > min(_LARGEST, memory_limit_of(self._store)):
                raise UnusualFileError(f"{plan.decoded_bytes:,} bytes")
            pieces = await self._fetched(plan.ranges)
            return await in_thread(plan.rows, pieces.bytes_of)
        except UnusualFileError as error:
            _log.debug("%s: its %s are read by Arrow: %s", self.path, [*markers], error)
            self._rare = None  # what comes next is, too: nothing is fetched twice again
            return None

    async def _fetched(self, ranges: list[ByteRange]) -> _Pieces:
        assert self._footer is not None
        start, data = self._footer.data_start, self._footer.data
        wanted = join_adjacent(ranges, limit=_JOINED)
        missing = [(a, b) for a, b in wanted if not start <= a <= b <= start + len(data)]
        answers: list[bytes | memoryview] = []
        if missing:
            with unchanged(self.path), pinned(self._pin):
                answers = [*await self._store.get_ranges(self.path, missing)]
        got = [(a, memoryview(each)) for (a, _), each in zip(missing, answers, strict=True)]
        return _Pieces([(start, data), *got])


class _Pieces:
    """Bytes of a file."""

    def __init__(self, pieces: list[tuple[int, memoryview]]) -> None:
        self._pieces = sorted(pieces, key=itemgetter(0))
        self._starts = [at for at, _ in self._pieces]

    def bytes_of(self, place: ByteRange) -> memoryview:
        start, end = place
        found = bisect_right(self._starts, start) - 1
        if found >= 0:
            at, data = self._pieces[found]
            if end <= at + len(data):
                return data[start - at : end - at]
        raise UnusualFileError(f"{end - start:,} bytes at {start:,} that did not come")


def _tail_of(size: int | None) -> int:
    tail = _LARGEST_TAIL // 2 if size is None else size // 32
    tail = min(max(tail, _LEAST_TAIL), _LARGEST_TAIL)
    return tail if size is None else min(tail, size)


async def open_file(store: ObjectStore, path: str, size: int | None) -> ParquetFile:
    """A file of a checkpoint, opened by one request for nearly every size of its footer.

    Its pages are held to their checksums: what is decoded costs many times as much.

    Raises:
        InvalidTableError: the file is damaged.
        ObjectNotFoundError: there is no such file.
    """
    from adelta.parquet.reader import ParquetFile

    return await ParquetFile.open(store, path, size=size, tail=_tail_of(size), verify=True)


async def _of_footer(store: ObjectStore, footer: FetchedFooter, pin: Pin) -> ParquetFile:
    from adelta.parquet.reader import ParquetFile

    return await ParquetFile.of_footer(store, footer, pin, verify=True)
