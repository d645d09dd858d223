"""ForwardingStore: a store that passes everything on to another one, to be changed in part."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

    from adelta.storage.object_store import (
        FolderPage,
        LocalFiles,
        NearbyObjects,
        ObjectMeta,
        SuffixRead,
    )
    from adelta.storage.stats import RequestCounter

__all__ = ["BorrowedStore", "ForwardingStore", "innermost"]


def innermost(store: ObjectStore) -> ObjectStore:
    """The store that others pass everything on to in the end."""
    while isinstance(store, ForwardingStore):
        store = store.inner
    return store


class ForwardingStore(ObjectStore):
    """An `ObjectStore` that passes every request on to `inner`, files of this machine included.

    All but `list_unordered`, which is `list` here: who changes the one has changed both.
    Whoever changes what can be read has a look at `local`, which reads past the rest.
    """

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.memory_limit = inner.memory_limit
        self.lists_from_anywhere = inner.lists_from_anywhere
        self.lists_prefixes = inner.lists_prefixes

    @property
    def uri(self) -> str:
        """The root's address."""
        return self.inner.uri

    @property
    def lists_in_order(self) -> bool:
        """Whether `list_unordered` gives objects in the order of their paths."""
        return self.inner.lists_in_order

    @property
    def concurrency(self) -> int:
        """How many requests are under way at most."""
        return self.inner.concurrency

    @property
    def counter(self) -> RequestCounter:
        """Counts what is asked of the store below."""
        return self.inner.counter

    @property
    def local(self) -> LocalFiles | None:
        """The objects as files of this machine; None where they are none."""
        return self.inner.local

    @property
    def nearby(self) -> NearbyObjects | None:
        """What is read without a request; None where nothing is."""
        return self.inner.nearby

    async def has_root(self) -> bool:
        """Whether the folder that is the root is there. Raises: StorageError."""
        return await self.inner.has_root()

    async def now_ms(self) -> int | None:
        """The time by the store's own clock, where that is known."""
        return await self.inner.now_ms()

    def below(self, path: str) -> ObjectStore:
        """A folder of the store below, as that gives it. Raises: InvalidOptionError."""
        return self.inner.below(path)

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        await self.inner.aclose()

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        return await self.inner.get(path)

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object and what the store says of it. Raises: ObjectNotFoundError."""
        return await self.inner.get_with_meta(path)

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, in the order asked. Raises: ObjectNotFoundError."""
        return await self.inner.get_many(paths)

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        return await self.inner.get_range(path, start, end)

    async def get_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every range, in the order asked.

        Raises: ObjectNotFoundError, ObjectChangedError.
        """
        return await self.inner.get_ranges(path, ranges)

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError, ObjectChangedError."""
        return await self.inner.get_suffix(path, length)

    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""
        return await self.inner.head(path)

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        pages = self.inner.list(prefix, start_after=start_after, recursive=recursive)
        async with aclosing(pages):
            async for page in pages:
                yield page

    async def list_folder(
        self, prefix: str = "", *, start_after: str | None = None
    ) -> AsyncGenerator[FolderPage, None]:
        """Pages of what lies directly below `prefix`."""
        async with aclosing(self.inner.list_folder(prefix, start_after=start_after)) as pages:
            async for page in pages:
                yield page

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        return await self.inner.put(path, data)

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises: ObjectExistsError, CommitOutcomeUnknownError, CommitNotDurableError, StorageError.
        """
        return await self.inner.put_if_absent(path, data)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size."""
        return await self.inner.put_stream(path, chunks)

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Create or replace an object by one of another store; None where that cannot be done.

        Raises: ObjectNotFoundError, StorageError.
        """
        return await self.inner.copy_from(path, source, there)

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object; one that is not there is no error. Raises: OutsideRootError."""
        await self.inner.delete(paths)


class BorrowedStore(ForwardingStore):
    """A store that somebody else has opened, and closes."""

    async def aclose(self) -> None:
        """Give nothing back."""
