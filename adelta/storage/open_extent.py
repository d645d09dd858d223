"""Extents of the disk cache, read from their files and held to their checksums.

What fails these is deleted; files of other users are never read. That a file was asked for is
noted in its time of change, as `disk_cache` says.
"""

from __future__ import annotations

import contextlib
import os

from adelta.storage.cache_file import CHUNK, Extent, chunk_sums, header_length, sums_of

__all__ = ["TICK", "OpenExtent", "open_extent", "pass_over", "read_extent", "read_parts"]

TICK = 16
"""Nanoseconds in which a file's time of change says how often it was asked for, too."""

_MOST_ASKED = 3
_FLAGS = os.O_RDONLY | os.O_CLOEXEC


class OpenExtent:
    """An extent's open file, whose header is what it has to be. Its methods block.

    It is for one thread, and keeps the last chunk of which it read a part: the next part, too, is
    held to the checksum of the whole.
    """

    __slots__ = ("_extent", "_file", "_header_size", "_held", "_number", "_path", "_sums")

    def __init__(self, file: int, path: str, extent: Extent, sums: list[int]) -> None:
        self._file = file
        self._path = path
        self._extent = extent
        self._sums = sums
        self._header_size = header_length(extent)
        self._held = memoryview(b"")
        self._number = -1  # of the chunk that is held

    def read(self, start: int, into: memoryview) -> bool:
        """Put the object's bytes from `start` on, which are in the extent, to `into`.

        Whether they are what was kept; where not, the file is deleted.
        """
        at = start - self._extent.start + self._extent.place
        head = min(-at % CHUNK, len(into))
        whole = (len(into) - head) // CHUNK * CHUNK
        if at + len(into) == self._extent.content_length:
            whole = len(into) - head
        tail = head + whole
        try:
            is_kept = (
                (not head or self._part(at, into[:head]))
                and (not whole or self._chunks((at + head) // CHUNK, into[head:tail]))
                and (tail == len(into) or self._part(at + tail, into[tail:]))
            )
        except OSError:
            return False
        if not is_kept:
            _delete(self._path)
        return is_kept

    def _part(self, at: int, into: memoryview) -> bool:
        """Put what begins so far in the extent, and is in one chunk, to `into`."""
        number, first = divmod(at, CHUNK)
        if number != self._number:
            self._number = -1
            size = min(CHUNK, self._extent.content_length - number * CHUNK)
            if len(self._held) != size:
                self._held = memoryview(bytearray(size))
            if not self._chunks(number, self._held):
                return False
            self._number = number
        into[:] = self._held[first : first + len(into)]
        return True

    def _chunks(self, number: int, into: memoryview) -> bool:
        """Put whole chunks to `into`, beginning with the one of that number."""
        if not _read(self._file, self._header_size + number * CHUNK, into):
            return False
        return _is_kept(self._sums, number * CHUNK, bytearray(), into, bytearray())

    def close(self) -> None:
        """Give back the file."""
        os.close(self._file)


def open_extent(path: str, entry: str, extent: Extent) -> OpenExtent | None:
    """The open file at `path`, if it is of this extent of `entry`; else what is there is deleted.

    None where it cannot be opened, too, or is another user's.
    """
    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if found.st_uid == os.geteuid():
            header = bytearray(header_length(extent))
            is_whole = found.st_size == len(header) + extent.content_length
            is_whole = is_whole and _read(file, 0, header)
            sums = sums_of(entry, extent, bytes(header)) if is_whole else None
            if sums is not None:
                _ask(file, found)
                opened, file = OpenExtent(file, path, extent, sums), -1
                return opened
            _delete(path)
    except OSError:
        pass
    finally:
        if file >= 0:
            os.close(file)
    return None


def read_extent(path: str, entry: str, extent: Extent, start: int, into: memoryview) -> bool:
    """As `OpenExtent.read`, of a file that is opened for this: the system is asked little."""
    at = start - extent.start + extent.place
    return _read_content(path, entry, extent, at, into)


def read_parts(path: str, entry: str, extent: Extent) -> memoryview | None:
    """All bytes of the object that the extent's file has, in the order of its `parts`.

    They are held to their checksums; None, too, where they are not there, as of `read_extent`.
    """
    content = memoryview(bytearray(extent.content_length))
    return content if _read_content(path, entry, extent, 0, content) else None


def _read_content(path: str, entry: str, extent: Extent, at: int, into: memoryview) -> bool:
    """Put what begins so far in the content of a file to `into`: whether that is there."""
    first, before, after = _around(extent, at, len(into))
    header_size = header_length(extent)
    try:
        file = os.open(path, _FLAGS)
        try:
            found = os.fstat(file)
            if found.st_uid != os.geteuid():
                return False
            is_whole = found.st_size == header_size + extent.content_length
            header = bytearray(header_size if is_whole else 0)
            if is_whole and first:
                at_first = header_size + first
                is_whole = _read(file, 0, header) and _read(file, at_first, before, into, after)
            elif is_whole:
                is_whole = _read(file, 0, header, before, into, after)
            _ask(file, found)
        finally:
            os.close(file)
    except OSError:
        return False
    sums = sums_of(entry, extent, bytes(header)) if is_whole else None
    if sums is not None and _is_kept(sums, first, before, into, after):
        return True
    _delete(path)
    return False


def pass_over(waiting: list[memoryview], count: int) -> None:
    """Leave those waiting that come after so many bytes of them."""
    while waiting and count >= len(waiting[0]):
        count -= len(waiting.pop(0))
    if count:
        waiting[0] = waiting[0][count:]


def _around(extent: Extent, at: int, length: int) -> tuple[int, bytearray, bytearray]:
    """Where the first chunk begins that has some of these bytes; room for the rest of the chunks.

    It is counted from the first byte of the file's content. The room is before and after the bytes.
    """
    first = at // CHUNK * CHUNK
    last = min(-(-(at + length) // CHUNK) * CHUNK, extent.content_length)
    return first, bytearray(at - first), bytearray(last - at - length)


def _is_kept(
    sums: list[int], first: int, before: bytearray, into: memoryview, after: bytearray
) -> bool:
    """Whether these are the bytes that were kept, beginning with a chunk's `first`."""
    found = chunk_sums(before, into, after)
    return found == sums[first // CHUNK :][: len(found)]


def _ask(file: int, found: os.stat_result) -> None:
    """Note that a file was asked for, unless that is known to be often."""
    if found.st_mtime_ns % TICK < _MOST_ASKED:
        with contextlib.suppress(OSError):
            os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _read(file: int, start: int, *into: bytearray | memoryview) -> bool:
    """Fill `into` with what begins at `start`: whether there is so much."""
    waiting = [memoryview(each) for each in into if each]
    while waiting:
        count = os.preadv(file, waiting, start)
        if not count:
            return False
        start += count
        pass_over(waiting, count)
    return True
