"""Stores around a store: one that counts, one that fails when told to, one that is slow."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio

from adelta._concurrency import map_concurrent
from adelta.errors import CommitOutcomeUnknownError, ObjectNotFoundError, StorageError
from adelta.kernel.log_path import commit_path
from adelta.storage.forwarding_store import ForwardingStore
from adelta.storage.memory import MemoryStore
from adelta.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from adelta.storage.object_store import ObjectMeta, SuffixRead

__all__ = [
    "CountingStore",
    "DenyingStore",
    "FailingStore",
    "Fault",
    "LaterStore",
    "OverlookingStore",
    "Request",
    "SlowStore",
    "WrappedStore",
    "copy_of",
]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Request:
    """One request that a verb makes of a store: its kind is get, head, put, delete or list."""

    kind: str
    path: str


def copy_of(store: MemoryStore) -> MemoryStore:
    """The same objects, of the same times and under the same address, in a store of their own."""
    other = MemoryStore(clock=store._clock)
    other._root, other._uri = store._root, store._uri
    other._space.objects.update(store._space.objects)
    other._space.keys.extend(store._space.keys)
    return other


class WrappedStore(ForwardingStore):
    """A store that passes everything on to another one, one request after the other.

    What a port verb costs is made explicit here, as S3 would charge it: `get_many` is one request
    a path, `get_ranges` one for ranges that lie near each other, `list` one a page, a put of any
    kind one, `delete` one a thousand paths. Subclasses override `request`.
    """

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        """Make one request."""
        return await run()

    @property
    def local(self) -> None:
        """Nothing is read past the requests."""

    @property
    def nearby(self) -> None:
        """Nothing is read past the requests."""

    async def get(self, path: str) -> bytes:
        return await self.request(Request("get", path), lambda: self.inner.get(path))

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        return await self.request(Request("get", path), lambda: self.inner.get_with_meta(path))

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        return await map_concurrent(self.get, paths, limit=self.concurrency)

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        return await self.request(
            Request("get", path), lambda: self.inner.get_range(path, start, end)
        )

    get_ranges = ObjectStore.get_ranges

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        return await self.request(Request("get", path), lambda: self.inner.get_suffix(path, length))

    async def head(self, path: str) -> ObjectMeta:
        return await self.request(Request("head", path), lambda: self.inner.head(path))

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        return await self.request(Request("put", path), lambda: self.inner.put(path, data))

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        return await self.request(
            Request("put", path), lambda: self.inner.put_if_absent(path, data)
        )

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        return await self.request(Request("put", path), lambda: self.inner.put_stream(path, chunks))

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        return await self.request(
            Request("copy", path), lambda: self.inner.copy_from(path, source, there)
        )

    async def delete(self, paths: Iterable[str]) -> None:
        todo = list(paths)
        for at in range(0, len(todo), 1000):
            batch = todo[at : at + 1000]
            await self.request(
                Request("delete", batch[0]), lambda batch=batch: self.inner.delete(batch)
            )

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncIterator[list[ObjectMeta]]:
        pages = self.inner.list(prefix, start_after=start_after, recursive=recursive)

        first = True
        while True:
            found = await anext(pages, [])
            if not found and not first:
                return

            async def page(found: list[ObjectMeta] = found) -> list[ObjectMeta]:
                return found

            if await self.request(Request("list", prefix), page):
                yield found
            first = False


class CountingStore(WrappedStore):
    """A store that keeps its requests, in order."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        self.requests.append(request)
        return await run()

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def kinds(self) -> Counter[str]:
        """How many requests there were of each kind."""
        return Counter(request.kind for request in self.requests)

    def paths(self, kind: str) -> list[str]:
        """The paths asked for by requests of one kind."""
        return [request.path for request in self.requests if request.kind == kind]

    def clear(self) -> None:
        self.requests.clear()


@dataclass(slots=True)
class Fault:
    """What happens to one request: `error` instead of it, or after it took effect."""

    error: Exception = field(default_factory=lambda: StorageError("an injected fault"))
    after: bool = False


class FailingStore(WrappedStore):
    """A store whose n-th request, counted from 0, meets a fault.

    >>> store = FailingStore(MemoryStore(), {2: Fault(after=True)})
    """

    def __init__(self, inner: ObjectStore, faults: dict[int, Fault]) -> None:
        super().__init__(inner)
        self.faults = faults
        self.made = 0

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        fault = self.faults.get(self.made)
        self.made += 1
        if fault is None:
            return await run()
        if fault.after:
            await run()
        raise fault.error

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        fault = self.faults.get(self.made)
        try:
            return await super().put_if_absent(path, data)
        except StorageError as error:
            if fault is None or not fault.after:
                raise
            raise CommitOutcomeUnknownError("no answer came") from error


class LaterStore(WrappedStore):
    """A store on whose clock it is so many milliseconds later."""

    def __init__(self, inner: ObjectStore, ms: int) -> None:
        super().__init__(inner)
        self.ms = ms

    async def now_ms(self) -> int | None:
        told = await self.inner.now_ms()
        return None if told is None else told + self.ms


class SlowStore(WrappedStore):
    """A store whose every request takes `seconds` longer; requests made at once wait together."""

    def __init__(self, inner: ObjectStore, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        await anyio.sleep(self.seconds)
        return await run()


class OverlookingStore(WrappedStore):
    """A store whose listings leave commits out that are there, as a folder's may.

    Each listing overlooks the versions `always`, and the next of the sets `overlooked`.
    """

    def __init__(self, inner: ObjectStore, *overlooked: set[int]) -> None:
        super().__init__(inner)
        self.overlooked = list(overlooked)
        self.always: set[int] = set()
        self.listings = 0

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncIterator[list[ObjectMeta]]:
        self.listings += 1
        versions = self.always | (self.overlooked.pop(0) if self.overlooked else set())
        without = {*map(commit_path, versions)}
        async for page in self.inner.list(prefix, start_after=start_after, recursive=recursive):
            yield [meta for meta in page if meta.path not in without]


class DenyingStore(WrappedStore):
    """A store that lists the object at `denied`, and says so many times that it is not there."""

    def __init__(self, inner: ObjectStore, denied: str = "", times: float = math.inf) -> None:
        super().__init__(inner)
        self.denied = denied
        self.left = times

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind in ("get", "head") and request.path == self.denied and self.left > 0:
            self.left -= 1
            raise ObjectNotFoundError(request.path)
        return await run()
