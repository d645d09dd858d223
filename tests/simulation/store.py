"""A simulated object store: a dictionary, and a network between it and whoever asks.

A `Bucket` is what is stored. A `SimulatedStore` is one process's way to it: each of its requests is
carried by a `Network`, which decides when it takes effect, how often, and what is answered.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from adelta._concurrency import map_concurrent
from adelta.errors import ObjectExistsError, ObjectNotFoundError
from adelta.storage.object_store import ObjectMeta, ObjectStore, SuffixRead
from adelta.storage.pin import current_pin

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable

    from tests.simulation.world import World

__all__ = ["Bucket", "Direct", "Network", "Request", "SimulatedStore", "Stored"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its kind (get, head, list, put, part, create or delete) and the path it is for.

    A listing is of what is below the path, behind `after`; in folders too if it is `recursive`.
    """

    kind: str
    path: str
    after: str = ""
    recursive: bool = True

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.kind in ("get", "head", "list", "query")

    def meets(self, other: Request) -> bool:
        """Whether it matters which of the two comes first."""
        if self.reads and other.reads:
            return False
        if "list" in (self.kind, other.kind):
            listing, changed = (self, other) if self.kind == "list" else (other, self)
            return listing.finds(changed.path)
        return self.path == other.path

    def finds(self, path: str) -> bool:
        """Whether a listing can have the path."""
        if not path.startswith(self.path) or path <= self.after:
            return False
        return self.recursive or "/" not in path[len(self.path) :]


class Network(Protocol):
    """What carries requests to a bucket, and answers back."""

    async def carry(self, request: Request, effect: Callable[[], R]) -> R:
        """The answer to a request whose effect is that of `effect`."""
        ...


class Direct:
    """A network that takes no time and loses nothing."""

    async def carry(self, request: Request, effect: Callable[[], R]) -> R:
        """What the effect returns."""
        return effect()


@dataclass(frozen=True, slots=True)
class Stored:
    """An object: its bytes, and what there is to say of it."""

    data: bytes
    meta: ObjectMeta


@dataclass
class Bucket:
    """What is stored. Without `conditional` puts, one of an object that is there overwrites it.

    `on_change` is told of every object that is put, or was deleted. A page of a listing has so many
    objects, and leaves out new ones, and has those that were deleted, for the seconds that `lag`
    says, each by itself.
    """

    world: World
    conditional: bool = True
    objects: dict[str, Stored] = field(default_factory=dict)
    page_size: int = 1000
    lag: Callable[[], float] = lambda: 0.0
    on_change: Callable[[str, bytes | None], None] = lambda *_: None

    def __post_init__(self) -> None:
        self._keys = sorted(self.objects)
        self._listed_from: dict[str, float] = {}
        self._listed_until: dict[str, tuple[float, ObjectMeta]] = {}  # what is there no more

    def find(self, path: str) -> Stored:
        """The object. Raises: ObjectNotFoundError."""
        found = self.objects.get(path)
        if found is None:
            raise ObjectNotFoundError(f"there is no object {path!r}")
        return found

    def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace it."""
        if path not in self.objects:
            if self._listed_until.pop(path, None) is None:
                self._keys.insert(bisect_left(self._keys, path), path)
            if (lag := self.lag()) > 0:
                self._listed_from[path] = self.world.loop.time() + lag
        etag = hashlib.blake2b(data, digest_size=8).hexdigest()
        meta = ObjectMeta(path, len(data), self.world.now_ms(), etag)
        self.objects[path] = Stored(data, meta)
        self.on_change(path, data)
        return meta

    def create(self, path: str, data: bytes) -> ObjectMeta:
        """Create it, and where the store has conditional puts, do not replace it."""
        if self.conditional and path in self.objects:
            raise ObjectExistsError(f"there is an object {path!r} already")
        return self.put(path, data)

    def delete(self, path: str) -> None:
        """Delete it, if it is there."""
        found = self.objects.pop(path, None)
        if found is not None:
            if (lag := self.lag()) > 0:
                self._listed_until[path] = (self.world.loop.time() + lag, found.meta)
            else:
                del self._keys[bisect_left(self._keys, path)]
            self.on_change(path, None)

    def meta(self, path: str) -> ObjectMeta:
        """What there is to say of it. Raises: ObjectNotFoundError."""
        return self.find(path).meta

    def page(self, prefix: str, after: str, *, recursive: bool) -> list[ObjectMeta]:
        """The first objects below a prefix and behind a path."""
        page: list[ObjectMeta] = []
        self._forget()
        for at in range(bisect_left(self._keys, max(prefix, after)), len(self._keys)):
            key = self._keys[at]
            if not key.startswith(prefix) or len(page) == self.page_size:
                break
            if self._listed_from and not self._is_listed(key):
                continue
            if key > after and (recursive or "/" not in key[len(prefix) :]):
                there = self.objects.get(key)
                page.append(self._listed_until[key][1] if there is None else there.meta)
        return page

    def _forget(self) -> None:
        now = self.world.loop.time()
        for key in [key for key, (until, _) in self._listed_until.items() if until <= now]:
            del self._listed_until[key]
            del self._keys[bisect_left(self._keys, key)]

    def _is_listed(self, key: str) -> bool:
        if self._listed_from.get(key, 0.0) > self.world.loop.time():
            return False
        self._listed_from.pop(key, None)
        return True


class SimulatedStore(ObjectStore):
    """One process's way to a bucket, over a network; or to a `folder` of it, which ends with /."""

    def __init__(
        self,
        bucket: Bucket,
        network: Network,
        uri: str = "s3://simulated/table",
        folder: str = "",
    ) -> None:
        self.bucket = bucket
        self.network = network
        self._uri = uri
        self._folder = folder

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def concurrency(self) -> int:
        return 8

    async def _ask(self, kind: str, path: str, effect: Callable[[str], R]) -> R:
        key = self._folder + path
        return await self.network.carry(Request(kind, key), lambda: effect(key))

    def _named(self, meta: ObjectMeta) -> ObjectMeta:
        if not self._folder:
            return meta
        name = meta.path[len(self._folder) :]
        return ObjectMeta(name, meta.size, meta.last_modified_ms, meta.etag, meta.repeated)

    def below(self, path: str) -> ObjectStore:
        raise AssertionError("one table alone is simulated")

    def list_folder(self, prefix: str = "", *, start_after: str | None = None) -> Any:
        raise AssertionError("one table alone is simulated")

    async def now_ms(self) -> int | None:
        return self.bucket.world.now_ms()

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        data, meta = await self._ask(
            "get", path, lambda key: (self.bucket.find(key).data, self.bucket.meta(key))
        )
        return data, self._named(meta)

    async def _pinned(self, path: str) -> bytes:
        found = await self._ask("get", path, self.bucket.find)
        if (pin := current_pin()) is not None:
            pin.saw(f"{self._uri}/{path}", found.meta.etag)
        return found.data

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        return (await self._pinned(path))[start:end]

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        data = await self._pinned(path)
        return SuffixRead(data[-length:], len(data))

    async def head(self, path: str) -> ObjectMeta:
        return self._named(await self._ask("head", path, self.bucket.meta))

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        data = bytes(data)
        return self._named(await self._ask("put", path, lambda key: self.bucket.put(key, data)))

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        data = bytes(data)
        made = await self._ask("create", path, lambda key: self.bucket.create(key, data))
        return self._named(made)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Part by part: an upload that is torn between two of them leaves nothing that is seen."""
        parts: dict[int, bytes] = {}
        async for chunk in chunks:
            part = {len(parts): bytes(chunk)}
            await self._ask("part", path, lambda _, part=part: parts.update(part))
        return await self.put(path, b"".join(parts.values()))

    async def delete(self, paths: Iterable[str]) -> None:
        async def one(path: str) -> None:
            await self._ask("delete", path, self.bucket.delete)

        await map_concurrent(one, sorted(paths), limit=self.concurrency)

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        below = self._folder + prefix
        after = self._folder + start_after if start_after else ""
        while True:
            page: list[Any] = await self.network.carry(
                Request("list", below, after, recursive),
                lambda after=after: self.bucket.page(below, after, recursive=recursive),
            )
            if page:
                yield [self._named(meta) for meta in page]
            if len(page) < self.bucket.page_size:
                return
            after = page[-1].path
