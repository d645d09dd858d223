"""The port to storage: what adelta asks of an object store, and the values that pass through it.

Guarantees that every adapter gives, and that the shared suite in ``tests/storage`` proves:

1. `put_if_absent` is atomic: of any number of racing callers exactly one succeeds, and a reader
   sees the whole object or none.
2. A finished put is seen at once by get, head and list.
3. `list` yields objects in the order of their paths' UTF-8 bytes, every path once.
4. A failure is one of the `StorageError` family, never an error of the library underneath.

Paths are relative to the store's root, separated by ``/`` and not percent-encoded. A store knows
nothing of Delta.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias

from adelta._concurrency import map_concurrent
from adelta._dataclasses import dataclass
from adelta.storage.coalesce import GAP, LARGEST_FETCH, plan_fetches
from adelta.storage.object_path import check_range
from adelta.storage.pin import Pin, current_pin, pinned
from adelta.storage.stats import RequestCounter

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Container,
        Iterable,
        Iterator,
        Sequence,
    )
    from contextlib import AbstractContextManager

    from adelta.storage.cached_ranges import CachedRanges
    from adelta.storage.stats import StoreStats

__all__ = [
    "FolderPage",
    "FoundFiles",
    "LocalFiles",
    "NearbyObjects",
    "ObjectMeta",
    "ObjectStore",
    "SuffixRead",
    "UnfinishedObject",
    "WantsStatus",
]

WantsStatus: TypeAlias = "Callable[[list[str]], Sequence[bool]]"
"""Says of which of some paths of files size and time are asked for."""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """What a store says of an object without its bytes.

    `path` is relative to the store's root, `size` in bytes, `last_modified_ms` in milliseconds
    since the Unix epoch, `etag` the store's own tag of the content where it has one. Of an object
    that was put, `repeated` says that an earlier request of the same put got no answer.
    """

    path: str
    size: int
    last_modified_ms: int
    etag: str | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class SuffixRead:
    """The last bytes of an object, and the size in bytes of the whole object."""

    data: bytes
    object_size: int


@dataclass(frozen=True, slots=True)
class FolderPage:
    """A page of what lies directly in a folder: its objects, and the paths of folders in it.

    The paths of folders end in ``/``.
    """

    objects: Sequence[ObjectMeta]
    folders: Sequence[str]


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files, by their paths relative to the store's root, their sizes and when they were changed.

    Sizes are in bytes, times in milliseconds since the Unix epoch; None of what was not asked for.
    """

    paths: list[str]
    sizes: list[int | None]
    modified_ms: list[int | None]


@dataclass(frozen=True, slots=True)
class UnfinishedObject:
    """A file that `list` leaves out: that of an interrupted or running put, or a stale checksum.

    A stale checksum is a checksum file of Hadoop's that is outdated, or whose file is missing.
    `path` is the path of this file itself, `last_modified_ms` the time of its last change.
    """

    path: str
    size: int
    last_modified_ms: int


class ObjectStore(ABC):
    """A flat space of immutable-by-convention objects under one root.

    An adapter gives what is abstract here; the rest follows from it, and is there to be given
    better where a store can.
    """

    memory_limit: int | None = None
    """What one thing read from it is decoded in, in bytes; None for a share of the machine's."""

    lists_from_anywhere: bool = True
    """Whether a listing that starts after some path costs no more than what comes after it."""

    lists_prefixes: bool = True
    """Whether a listing of a prefix that ends within a name costs no more than what begins so."""

    # ------------------------------------------------------------------------------ the store

    @property
    def lists_in_order(self) -> bool:
        """Whether `list_unordered` gives objects in the order of their paths, as far as known."""
        return True

    @property
    @abstractmethod
    def uri(self) -> str:
        """The root's address, with scheme and without a trailing slash."""

    @property
    @abstractmethod
    def concurrency(self) -> int:
        """How many requests the store's budget lets be under way at once."""

    @cached_property
    def counter(self) -> RequestCounter:
        """Counts what is asked of the store; an adapter tells it of each request."""
        return RequestCounter()

    @property
    def stats(self) -> StoreStats:
        """Requests by kind, bytes and retries, since the store was opened."""
        return self.counter.stats()

    @property
    def local(self) -> LocalFiles | None:
        """The objects as files of this machine; None where they are none."""
        return None

    @property
    def nearby(self) -> NearbyObjects | None:
        """What is read without a request, from a disk of this machine; None where nothing is."""
        return self.local

    async def has_root(self) -> bool:
        """Whether the folder that is the root is there.

        True of stores without folders, which have none that could be missing. Raises: StorageError.
        """
        return True

    async def now_ms(self) -> int | None:
        """The time by the store's own clock, in milliseconds since the Unix epoch.

        None where the store has not told it, in any answer so far.
        """
        return None

    @abstractmethod
    def below(self, path: str) -> ObjectStore:
        """The folder at `path` as a store of its own, by the connections of this one. No I/O.

        What one of the two is asked counts in the `stats` of both, and closing the new one gives
        nothing back. It is of use as long as this one is open.

        Raises:
            InvalidOptionError: no folder can have that path.
        """

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back connections; later requests make new ones. Calling it again does nothing."""

    # -------------------------------------------------------------------------------- reading

    @abstractmethod
    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object and what the store says of it, in one request.

        Raises: ObjectNotFoundError.
        """

    @abstractmethod
    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``, fewer where the object ends, in one request.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it is not the version that an earlier read of the same `Pin` saw.
        """

    @abstractmethod
    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes (all of them where the object is shorter), in one request.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it is not the version that an earlier read of the same `Pin` saw.
        """

    @abstractmethod
    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        data, _ = await self.get_with_meta(path)
        return data

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, fetched concurrently, in the order asked. Raises: ObjectNotFoundError."""
        return await map_concurrent(self.get, paths, limit=self.concurrency)

    async def get_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every ``[start, end)``, near ranges fetched as one, in the order asked.

        All are of one version of the object: inside `pinned`, of that which an earlier read saw.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: they would be of several versions.
        """
        for start, end in ranges:
            check_range(path, start, end)
        if all(start == end for start, end in ranges):
            await self.head(path)
            return [b""] * len(ranges)
        plan = plan_fetches(ranges, gap=GAP, largest=LARGEST_FETCH)
        pieces = [(index, piece) for index, fetch in enumerate(plan.fetches) for piece in fetch]
        with pinned(current_pin() or Pin()):
            found = await map_concurrent(
                lambda one: self.get_range(path, *one[1]), pieces, limit=self.concurrency
            )
        spans: list[list[bytes]] = [[] for _ in plan.fetches]
        for (index, _), data in zip(pieces, found, strict=True):
            spans[index].append(data)
        return plan.cut([b"".join(span) for span in spans])

    # -------------------------------------------------------------------------------- writing

    @abstractmethod
    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""

    @abstractmethod
    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another object is there.
            CommitOutcomeUnknownError: the store took the request, gave no clear answer, and cannot
                be asked again.
            CommitNotDurableError: the object is there, and may be gone after a crash: reading it
                back tells nothing.
            StorageError: the store refused; certainly the object was not created.
        """

    @abstractmethod
    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size in bounded memory; all of it appears or none."""

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Create or replace an object by the one at `there` in `source`, without reading it.

        None where this store cannot do that by itself, and has done nothing.

        Raises:
            ObjectNotFoundError: there is no such object in `source`.
            StorageError: a store failed.
        """
        return None

    @abstractmethod
    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object; one that is not there is no error.

        Where objects are files, no link is followed below the root, and none is deleted.

        Raises:
            OutsideRootError: an object is a link, or lies behind one; the others were deleted.
        """

    def list_unordered(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of what `list` gives, in whatever order the store has it.

        It is for those who need no order: a page comes when it has been fetched, on every store.
        """
        return self.list(prefix, start_after=start_after, recursive=recursive)

    @abstractmethod
    def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix` and sorts after `start_after`.

        A page is fetched when it is asked for. With ``recursive=False`` objects below a further
        ``/`` are left out. A store that lists in no order holds all of them before the first page.
        """

    @abstractmethod
    def list_folder(
        self, prefix: str = "", *, start_after: str | None = None
    ) -> AsyncGenerator[FolderPage, None]:
        """Pages of what ``list(..., recursive=False)`` gives, and of folders that it leaves out.

        Folders come once each, and objects too, both in no order; `start_after` need not keep back
        a folder.
        """


class NearbyObjects(Protocol):
    """Objects of which some, or parts of them, are on a disk of this machine."""

    def read_suffix(self, path: str, length: int, *, pin: Pin | None = None) -> SuffixRead | None:
        """The last `length` bytes, for a worker thread that goes on with them.

        None where they are not all here. Raises: as of `LocalFiles`.
        """
        ...

    def read_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> Sequence[bytes | memoryview] | None:
        """Bytes of every range, in the order asked, for a worker thread that goes on with them.

        None where they are not all here. Raises: as of `LocalFiles`.
        """
        ...

    def find_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> CachedRanges | None:
        """Where copies of every range are, to be read as they are wanted. Blocks.

        None where not all are copied here, or are better read at once, and of files of this machine
        that are the objects. The ranges are disjoint.
        """
        ...

    def distrust(self, path: str) -> bool:
        """Answer no more with what is here of an object that is damaged. Blocks.

        Whether copies of it are kept here: then the object itself may be sound.
        """
        ...


class LocalFiles(NearbyObjects, Protocol):
    """Objects that are files of this machine, which worker threads may read by themselves."""

    def file_to_read(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), *, pin: Pin | None = None
    ) -> AbstractContextManager[bytes]:
        """A name of the object's file, for a worker thread that reads `ranges` of it by itself.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it is not the version that an earlier read of the same `Pin` saw,
                or has changed at the end of the block.
        """
        ...

    def read_suffix(self, path: str, length: int, *, pin: Pin | None = None) -> SuffixRead:
        """The last `length` bytes, for a worker thread that goes on with them.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it is not the version that an earlier read of the same `Pin` saw.
        """
        ...

    def read_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every range, from one open file, for a worker thread that goes on with them.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it is not the version that an earlier read of the same `Pin` saw.
        """
        ...

    def read_suffixes(self, paths: Sequence[str], length: int) -> Iterator[SuffixRead]:
        """As `read_suffix` of each of the objects, in order.

        Raises:
            ObjectNotFoundError: there is no such object.
        """
        ...

    async def list_unfinished(self, directory: str) -> tuple[UnfinishedObject, ...]:
        """What puts have left below a directory, which `list` leaves out, and `delete` takes.

        Hadoop's checksum files whose file is missing are among them.

        Raises: OutsideRootError, StorageError.
        """
        ...

    async def list_wrong_checksums(self, directory: str) -> tuple[UnfinishedObject, ...]:
        """Hadoop's checksum files below a directory that do not match their files. Reads the files.

        Raises: OutsideRootError, StorageError.
        """
        ...

    def own_files(
        self,
        hides: Callable[[str], bool],
        wants: WantsStatus | None = None,
    ) -> Iterator[FoundFiles]:
        """Pages of the regular files below the root, in order, for a worker thread.

        Links are passed over, and so is what is below a name that `hides` is true for. `wants` says
        for which paths of many the file system is asked for size and time; others may have none.

        Raises: StorageError.
        """
        ...

    async def remove_empty_directories(
        self, hides: Callable[[str], bool], *, older_than_ms: int, emptied: Container[str]
    ) -> int:
        """Delete empty directories that have not changed since a time; how many there were.

        The time does not count for those in `emptied`, whose paths end in ``/``. Before that,
        hidden files of interrupted writes, and Hadoop's checksum files whose file is missing, are
        deleted if they have not changed since that time.

        Raises: StorageError.
        """
        ...
