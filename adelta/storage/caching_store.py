"""CachingStore: a store of which what never changes is kept on a disk of this machine.

Which objects never change is read off their names, and nothing else is ever kept:

* those whose name has a UUID and ends as those of data files, deletion vectors and sidecars do: it
  is taken for the object, as the log takes it, and no request is made for what is there;
* those that are numbered by a version, as commits, checkpoints and their checksums are: another
  table may get the same numbers, so they are answered from the cache only where a listing has told
  their entity tag and size, and these are those of the bytes that are there.

All bytes of an answer are of one version of the object, and so are those of all answers inside a
`Pin`: what is there of another version is deleted. Listings, heads and all that is written go past
the cache; what is here of an object that is written or deleted by this store is deleted.
"""

from __future__ import annotations

import re
import weakref
from collections import OrderedDict
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import xxhash

from adelta._concurrency import in_io_thread, map_concurrent, to_the_end
from adelta._dataclasses import dataclass
from adelta._locks import ForkSafeLock
from adelta._memory import check_memory, memory_limit_of
from adelta.storage._cache_writer import is_behind, later, written
from adelta.storage.cache_file import Extent, tag_of
from adelta.storage.cached_ranges import CachedRanges, new_memory
from adelta.storage.coalesce import LARGEST_FETCH, plan_fetches
from adelta.storage.disk_cache import CacheFigures, DiskCache
from adelta.storage.distrust import is_past_cache
from adelta.storage.forwarding_store import ForwardingStore
from adelta.storage.latest_looks import Contents, LatestLooks, Look
from adelta.storage.object_path import check_range
from adelta.storage.object_store import ObjectMeta, SuffixRead
from adelta.storage.pin import Pin, current_pin, pinned

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Sequence,
    )

    from adelta.storage.http_store import HttpObjectStore
    from adelta.storage.object_store import ObjectStore

__all__ = ["CachingStore"]

T = TypeVar("T")

_UNIQUE = re.compile(r"(?i)[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}[^/]*\.(?:parquet|bin)\Z")
_NUMBERED = re.compile(r"(?:^|/)\d{20}\.[^/]*\Z")
_MOST_LISTED = 1 << 16
_NO_END = 1 << 62
_LEAST_LATE = 1 << 20  # bytes that are read as they are wanted, if they are so many


@dataclass(frozen=True, slots=True)
class _Version:
    """What is known of the version of an object that is wanted: its tag's digest, and its size."""

    tag: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What the cache has of one version of the object `entry`, and its size where that is known.

    `contents` is what was read of files that have several extents.
    """

    entry: str
    extents: list[Extent]
    size: int | None
    contents: Contents


@dataclass(slots=True)
class _Found:
    """What the cache has of the range that begins at `start`: all of it but what is `missing`.

    `memory` is for the whole range; None where the cache has nothing of it.
    """

    start: int
    memory: memoryview | None
    missing: list[tuple[int, int]]
    tag: str | None

    @property
    def cached(self) -> int:
        """How many bytes there are."""
        if self.memory is None:
            return 0
        return len(self.memory) - sum(end - start for start, end in self.missing)

    def joined(self, came: Sequence[bytes | memoryview]) -> memoryview:
        """The whole range, up to where the object ends, with what came of what was missing."""
        if self.memory is None:
            return memoryview(came[0]) if came else memoryview(b"")
        ends = len(self.memory)
        for (start, end), data in zip(self.missing, came, strict=True):
            at = start - self.start
            self.memory[at : at + len(data)] = data
            if len(data) < end - start:
                ends = min(ends, at + len(data))
        return self.memory[:ends]


class CachingStore(ForwardingStore):
    """A store behind HTTP, before which a disk cache is asked."""

    inner: HttpObjectStore

    def __init__(self, inner: HttpObjectStore, cache: DiskCache) -> None:
        super().__init__(inner)
        self.cache = cache
        self.figures = CacheFigures()
        self._counted = CacheFigures()
        self._counts_for = self
        self._lock = ForkSafeLock()
        self._listed: OrderedDict[str, ObjectMeta] = OrderedDict()
        self._looked = LatestLooks()
        self._identity = inner.identity
        self._answered: weakref.WeakKeyDictionary[Pin, dict[str, str]] = weakref.WeakKeyDictionary()

    def below(self, path: str) -> CachingStore:
        """A folder of the store, before which the same cache is asked, and counted here."""
        made = CachingStore(self.inner.below(path), self.cache)
        made._counts_for, made._lock = self._counts_for, self._lock
        return made

    # ------------------------------------------------------------------------------------- what

    @property
    def nearby(self) -> CachingStore:
        """What is read without a request, from a disk of this machine."""
        return self

    def _wanted(self, path: str, pin: Pin | None) -> _Version | None:
        """The version of the object to answer with; None where the cache has no say."""
        numbered = _NUMBERED.search(path) is not None
        if is_past_cache() or not (numbered or _UNIQUE.search(path)):
            return None
        etag = None if pin is None else pin.etag(self.inner.pin_address(path))
        pinned_to = self._held_to(pin, path) if etag is None else tag_of(etag)
        if not numbered:
            return _Version(pinned_to)
        listed = self._listed.get(path)
        if listed is None or listed.etag is None:
            return None
        tag = tag_of(listed.etag)
        return _Version(tag, listed.size) if pinned_to in (None, tag) else None

    def _held_to(self, pin: Pin | None, path: str) -> str | None:
        """The version that the cache has answered with inside `pin`."""
        return None if pin is None else self._answered.get(pin, {}).get(path)

    def _entry(self, path: str) -> str:
        return xxhash.xxh3_128_hexdigest(f"{self._identity}{path}".encode())

    def _note(self, page: Iterable[ObjectMeta]) -> None:
        """Remember what a listing says of objects that are numbered."""
        for meta in page:
            if meta.etag is not None and _NUMBERED.search(meta.path):
                self._listed[meta.path] = meta
                self._listed.move_to_end(meta.path)
        while len(self._listed) > _MOST_LISTED:
            self._listed.popitem(last=False)

    def _look(self, path: str, wanted: _Version, spans: Sequence[tuple[int, int]]) -> list[_Found]:
        """What the cache has of each span of one version of the object. Blocks."""
        known = self._known(path, wanted)
        return [self._found(known, span) for span in spans]

    def _nothing_of(
        self, path: str, wanted: _Version, spans: Sequence[tuple[int, int]]
    ) -> list[_Found] | None:
        """As `_look`, without any I/O, where a look of just now found nothing of the spans."""
        entry = self._entry(path)
        latest = self._looked.taken(entry)
        if latest is None or any(
            start < each.end and each.start < end for start, end in spans for each in latest.extents
        ):
            return None
        known = self._of(entry, latest, wanted)
        return [self._found(known, span) for span in spans]

    def read_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> Sequence[bytes | memoryview] | None:
        """Bytes of every range, in the order asked; None where they are not all here. Blocks."""
        wanted = self._wanted(path, pin)
        if wanted is None:
            return None
        plan = plan_fetches(ranges, gap=0, largest=_NO_END)
        known = self._known_all(path, wanted, plan.spans)
        if known is None:
            return None
        found: list[_Found] = []
        for span in plan.spans:
            found.append(self._found(known, span))
            if found[-1].missing:
                return None
        self._answers(path, pin, found)
        return plan.cut([one.joined([]) for one in found])

    def find_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> CachedRanges | None:
        """Where every range is; None where they are not all here, or better read at once. Blocks.

        They are disjoint.
        """
        size = sum(end - start for start, end in ranges)
        wanted = self._wanted(path, pin) if size >= _LEAST_LATE else None
        if wanted is None:
            return None
        known = self._known_all(path, wanted, ranges)
        if known is None:
            return None
        self._hold(path, pin, {known.extents[0].tag})
        self._count(size, 0)
        return CachedRanges(self.cache, known.entry, known.extents, ranges)

    def read_suffix(self, path: str, length: int, *, pin: Pin | None = None) -> SuffixRead | None:
        """The last `length` bytes; None where they are not all here. Blocks."""
        wanted = self._wanted(path, pin)
        looked = None if wanted is None else self._look_at_end(path, wanted, length)
        if looked is None:
            return None
        found, size = looked
        self._answers(path, pin, [found])
        return SuffixRead(bytes(found.joined([])), size)

    def distrust(self, path: str) -> bool:
        """Delete what is here of an object: it may have been damaged on its way. Blocks."""
        self._forget([path])
        return bool(_NUMBERED.search(path) or _UNIQUE.search(path))

    def _answers(self, path: str, pin: Pin | None, found: Sequence[_Found]) -> None:
        """Note what the cache answers with, by itself."""
        self._hold(path, pin, {each.tag for each in found if each.tag is not None})
        self._count(sum(one.cached for one in found), 0)

    def _hold(self, path: str, pin: Pin | None, tags: set[str]) -> None:
        """Hold later reads inside `pin` to the version that is answered with."""
        if pin is not None and tags:
            with self._lock:
                self._answered.setdefault(pin, {})[path] = min(tags)

    def _look_at_end(
        self, path: str, wanted: _Version, length: int, *, most: int | None = None
    ) -> tuple[_Found, int] | None:
        """The last `length` bytes, and the object's size; None unless all is there. Blocks.

        Raises:
            OutOfMemoryError: the object has more than `most` bytes.
        """
        known = self._known(path, wanted)
        size = known.size
        if size is None:
            return None
        if most is not None:
            check_memory(size, most, f"the object {path!r}")
        found = self._found(known, (max(0, size - length), size))
        return None if found.missing else (found, size)

    def _known_all(
        self, path: str, wanted: _Version, spans: Sequence[tuple[int, int]]
    ) -> _Known | None:
        """What is there of one version of an object; None where that is not all of the spans."""
        entry = self._entry(path)
        latest = self._looked.taken(entry)
        known = self._known(path, wanted) if latest is None else self._of(entry, latest, wanted)
        if all(_is_in(span, known.extents) for span in spans):
            return known
        if latest is not None:
            self._looked.note(entry, Look(latest.extents, {}))
        return None

    def _known(self, path: str, wanted: _Version) -> _Known:
        """What is there of one version of an object."""
        entry = self._entry(path)
        look = Look(self.cache.extents(entry), {})
        self._looked.note(entry, look)
        return self._of(entry, look, wanted)

    def _of(self, entry: str, look: Look, wanted: _Version) -> _Known:
        extents = [each for each in look.extents if _fits(each, wanted)]
        tag = wanted.tag or (extents[0].tag if extents else None)
        extents = [each for each in extents if each.tag == tag]
        return _Known(entry, extents, wanted.size or _size_of(extents), look.contents)

    def _found(self, known: _Known, span: tuple[int, int]) -> _Found:
        extents, size = known.extents, known.size
        start, end = span
        end = end if size is None else max(start, min(end, size))
        memory: memoryview | None = None
        missing: list[tuple[int, int]] = []
        tag: str | None = None
        at = start
        while at < end:
            over = [each for each in extents if each.start <= at < each.end]
            if over:
                best = max(over, key=lambda each: each.end)
                stop = min(end, best.end)
                content = self._content(known, best, at, stop) if best.parts else None
                if content is not None and (at, stop) == (start, end):
                    return _Found(start, content, [], best.tag)
                memory = memory or new_memory(end - start)
                into = memory[at - start : stop - start]
                if content is not None:
                    into[:] = content
                elif best.parts or not self.cache.read(known.entry, best, at, into):
                    extents.remove(best)
                    continue
                tag = best.tag
            else:
                stop = min([end, *(each.start for each in extents if each.start > at)])
                if missing and missing[-1][1] == at:  # what was there is there no more
                    missing[-1] = (missing[-1][0], stop)
                else:
                    missing.append((at, stop))
            at = stop
        return _Found(start, None if tag is None else memory, missing, tag)

    def _content(self, known: _Known, extent: Extent, start: int, end: int) -> memoryview | None:
        """Bytes in an extent of a file that has several, which is read once for all of them.

        None where they are not there.
        """
        file = extent.tag, extent.parts
        content = known.contents.get(file)
        if content is None:
            content = self.cache.read_parts(known.entry, extent)
            if content is None:
                return None
            known.contents[file] = content
        at = extent.place + start - extent.start
        return content[at : at + end - start]

    # ------------------------------------------------------------------------------------- read

    async def get_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every range, in the order asked, from the cache as far as it has them.

        Raises: ObjectNotFoundError, ObjectChangedError.
        """
        for start, end in ranges:
            check_range(path, start, end)
        pin = current_pin()
        wanted = self._wanted(path, pin)
        if wanted is None or all(start == end for start, end in ranges):
            return await self.inner.get_ranges(path, ranges)
        plan = plan_fetches(ranges, gap=0, largest=_NO_END)
        found = self._nothing_of(path, wanted, plan.spans)
        if found is None:
            found = await in_io_thread(self._look, path, wanted, plan.spans)
            self._looked.taken(self._entry(path))
        missing = [each for one in found for each in one.missing]
        if not missing:
            self._answers(path, pin, found)
            return plan.cut([one.joined([]) for one in found])
        tags = {each.tag for each in found if each.tag is not None}
        pin = pin or Pin()
        came, tag = await self._of_store(path, pin, partial(self.inner.get_ranges, path, missing))
        if tags - {tag}:  # what is there is of another version
            await in_io_thread(self.cache.forget, self._entry(path), tag)
            with pinned(pin):
                return await self.inner.get_ranges(path, ranges)
        if tag is not None and wanted.tag in (None, tag):
            for (start, end), data in zip(missing, came, strict=True):
                ends = 0 < len(data) < end - start
                self._keep(path, tag, start + len(data) if ends else wanted.size, start, data)
        self._count(sum(one.cached for one in found), sum(map(len, came)))
        rest = iter(came)
        return plan.cut([one.joined([next(rest) for _ in one.missing]) for one in found])

    async def _of_store(
        self, path: str, pin: Pin, ask: Callable[[], Awaitable[T]]
    ) -> tuple[T, str | None]:
        """The store's answer, and the tag of the version that it is of.

        Raises:
            ObjectChangedError: the cache has answered with another version inside `pin`.
        """
        held = self._held_to(pin, path)
        if is_behind():
            await in_io_thread(written)
        with pinned(pin):
            came = await ask()
        etag = pin.etag(self.inner.pin_address(path))
        tag = None if etag is None else tag_of(etag)
        if held is not None and held != tag:
            raise pin.broken(self.inner.pin_address(path))
        return came, tag

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        if self._wanted(path, current_pin()) is None:
            return await self.inner.get_range(path, start, end)
        (data,) = await self.get_ranges(path, [(start, end)])
        return bytes(data)

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError, ObjectChangedError."""
        pin = current_pin()
        wanted = self._wanted(path, pin)
        if wanted is None or length < 1:
            return await self.inner.get_suffix(path, length)
        entry = self._entry(path)
        latest = self._looked.taken(entry)
        if latest is None or latest.extents:
            known = await in_io_thread(partial(self.read_suffix, path, length, pin=pin))
            if known is not None:
                return known
            latest = self._looked.taken(entry)
        ask = partial(self.inner.get_suffix, path, length)
        read, tag = await self._of_store(path, pin or Pin(), ask)
        if tag is not None and wanted.tag in (None, tag):
            start = read.object_size - len(read.data)
            self._keep(path, tag, read.object_size, start, read.data)
            kept = Extent(start, read.object_size, read.object_size, tag, kept=False)
            before = () if latest is None else latest.extents
            self._looked.note(entry, Look([*before, kept], {}))
        self._count(0, len(read.data))
        return read

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        data, _ = await self._whole(path)
        return data

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object and what the store says of it. Raises: ObjectNotFoundError."""
        data, meta = await self._whole(path)
        if meta is not None:
            return data, meta
        return await self.inner.get_with_meta(path)

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, in the order asked. Raises: ObjectNotFoundError."""
        return await map_concurrent(self.get, paths, limit=self.concurrency)

    async def _whole(self, path: str) -> tuple[bytes, ObjectMeta | None]:
        """The object, and what is known of it by a listing or by the store's answer."""
        wanted = self._wanted(path, current_pin())
        if wanted is not None:
            look = partial(self._look_at_end, path, wanted, _NO_END, most=memory_limit_of(self))
            looked = await in_io_thread(look)
            if looked is not None:
                found, _ = looked
                self._count(found.cached, 0)
                return bytes(found.joined([])), self._listed_as(path, wanted)
        data, meta = await self.inner.get_with_meta(path)
        if meta.etag is not None and (_UNIQUE.search(path) or _NUMBERED.search(path)):
            self._keep(path, tag_of(meta.etag), meta.size, 0, data)
            self._count(0, len(data))
        return data, meta

    def _listed_as(self, path: str, version: _Version) -> ObjectMeta | None:
        """What the last listing said of the object, where that was of this version of it."""
        meta = self._listed.get(path)
        same = meta is not None and meta.etag is not None and tag_of(meta.etag) == version.tag
        return meta if same else None

    def _keep(
        self, path: str, tag: str, size: int | None, start: int, data: bytes | memoryview
    ) -> None:
        """Have bytes of the object written, without waiting for it."""
        entry, view = self._entry(path), memoryview(data)
        for at in range(0, len(view), LARGEST_FETCH):
            piece = view[at : at + LARGEST_FETCH]
            extent = Extent(start + at, start + at + len(piece), size, tag, kept=False)
            later(self.cache, entry, extent, piece)

    def _count(self, cached: int, fetched: int) -> None:
        counted = CacheFigures(int(not fetched), int(fetched > 0), cached, fetched)
        with self._lock:  # of readers in threads
            self._counts_for.figures += counted

    # ------------------------------------------------------------------------------------- rest

    async def _noted(
        self, pages: AsyncGenerator[list[ObjectMeta], None]
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        async with aclosing(pages):
            async for page in pages:
                self._note(page)
                yield page

    def list_unordered(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, as the store gives them."""
        pages = self.inner.list_unordered(prefix, start_after=start_after, recursive=recursive)
        return self._noted(pages)

    def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        return self._noted(self.inner.list(prefix, start_after=start_after, recursive=recursive))

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        return await self._changed([path], self.inner.put(path, data))

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises: ObjectExistsError, CommitOutcomeUnknownError, CommitNotDurableError, StorageError.
        """
        return await self._changed([path], self.inner.put_if_absent(path, data))

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size."""
        return await self._changed([path], self.inner.put_stream(path, chunks))

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Create or replace an object by one of another store; None where that cannot be done.

        Raises: ObjectNotFoundError, StorageError.
        """
        return await self._changed([path], self.inner.copy_from(path, source, there))

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object, here too; one that is not there is no error."""
        paths = list(paths)
        await self._changed(paths, self.inner.delete(paths))

    async def _changed(self, paths: Sequence[str], change: Awaitable[T]) -> T:
        """The result of a change, after which nothing is here of these objects."""
        try:
            return await change
        finally:  # it may have come about though it failed
            for path in paths:
                self._listed.pop(path, None)
            if unique := [path for path in paths if _UNIQUE.search(path)]:
                await to_the_end(in_io_thread(self._forget, unique))

    def _forget(self, paths: Sequence[str]) -> None:
        """Delete what is here of objects, or is still to be written. Blocks."""
        for path in paths:
            entry = self._entry(path)
            written(entry)
            self.cache.forget(entry)
            self._looked.taken(entry)

    async def aclose(self) -> None:
        """Give back connections, when what is to be kept has been written."""
        try:
            await in_io_thread(written)
            new = CacheFigures(
                *(
                    getattr(self.figures, name) - getattr(self._counted, name)
                    for name in CacheFigures.__slots__
                )
            )
            self._counted = self.figures
            await in_io_thread(self.cache.count, new)
        finally:
            await self.inner.aclose()


def _is_in(span: tuple[int, int], extents: Iterable[Extent]) -> bool:
    """Whether the extents have all bytes of a range."""
    at, end = span
    for each in sorted(extents, key=lambda each: each.start):
        if each.start <= at < each.end:
            at = each.end
    return at >= end


def _fits(extent: Extent, wanted: _Version) -> bool:
    """Whether it is of the version that is wanted, as far as that is known."""
    if wanted.tag is not None and extent.tag != wanted.tag:
        return False
    return wanted.size is None or extent.size in (None, wanted.size)


def _size_of(extents: Sequence[Extent]) -> int | None:
    """How large the object is, where that was known when they came."""
    return next((each.size for each in extents if each.size is not None), None)
