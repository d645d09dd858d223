"""Objects in this process's memory: the reference adapter, for tests and short-lived tables.

Stores opened by the same ``memory://name`` share their objects until the process ends; a
`MemoryStore` made without a name has its own. It may be used from several threads and loops.
"""

from __future__ import annotations

import copy
import itertools
from bisect import bisect_left, bisect_right, insort
from dataclasses import field
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK, Clock
from adelta._dataclasses import dataclass
from adelta._locks import ForkSafeLock
from adelta.errors import InvalidOptionError, ObjectExistsError, ObjectNotFoundError
from adelta.storage.object_path import check_path, check_prefix, check_range
from adelta.storage.object_store import FolderPage, ObjectMeta, ObjectStore, SuffixRead
from adelta.storage.pin import Pin, current_pin, pinned

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

__all__ = ["MemoryStore"]

_PAGE = 1000
_anonymous = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    last_modified_ms: int
    etag: str


@dataclass(slots=True)
class _Space:
    """Every object under one name, its keys kept in order. Hold `lock` to read or write it."""

    objects: dict[str, _Object] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    tags: Iterable[int] = field(default_factory=itertools.count)
    lock: ForkSafeLock = field(default_factory=ForkSafeLock)


_spaces: dict[str, _Space] = {}
_spaces_lock = ForkSafeLock()


class MemoryStore(ObjectStore):
    """An `ObjectStore` over a dictionary.

    `name` and `root` are the parts of ``memory://name/root``.
    """

    def __init__(
        self, name: str | None = None, root: str = "", *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        root = check_path(root.strip("/")) if root.strip("/") else ""
        if name is None:
            name, self._space = f"anonymous-{next(_anonymous)}", _Space()
        else:
            with _spaces_lock:
                self._space = _spaces.setdefault(name, _Space())
        self._uri = f"memory://{name}/{root}".rstrip("/")
        self._root = f"{root}/" if root else ""
        self._clock = clock

    def __repr__(self) -> str:
        return f"MemoryStore({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root's address."""
        return self._uri

    @property
    def concurrency(self) -> int:
        """As many as a caller would want: memory does not make anyone wait."""
        return 64

    def below(self, path: str) -> MemoryStore:
        """A folder of the same objects. Raises: InvalidOptionError."""
        made = copy.copy(self)
        made._root, made._uri = f"{self._root}{check_path(path)}/", f"{self._uri}/{path}"
        made.counter = self.counter
        return made

    def _find(self, path: str) -> _Object:
        with self._space.lock:
            found = self._space.objects.get(self._root + check_path(path))
        if found is None:
            raise ObjectNotFoundError(f"there is no object {path!r} in {self._uri}")
        return found

    def _pinned(self, path: str) -> _Object:
        found = self._find(path)
        if (pin := current_pin()) is not None:
            pin.saw(f"{self._uri}/{path}", found.etag)
        return found

    def _given(self, data: bytes) -> bytes:
        """Bytes that are given out, which are counted."""
        self.counter.asked("get")
        self.counter.received(len(data))
        return data

    def _store(self, path: str, data: bytes, *, replace: bool) -> ObjectMeta:
        key, space = self._root + check_path(path), self._space
        self.counter.asked("put", written=len(data))
        with space.lock:
            if key not in space.objects:
                insort(space.keys, key)
            elif not replace:
                raise ObjectExistsError(f"there is an object {path!r} in {self._uri} already")
            made = _Object(bytes(data), self._clock.now_ms(), f"{next(iter(space.tags)):x}")
            space.objects[key] = made
        return _meta(path, made)

    async def now_ms(self) -> int | None:
        """The time by the clock that objects get theirs from."""
        return self._clock.now_ms()

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object, and what there is to say of it. Raises: ObjectNotFoundError."""
        found = self._find(path)
        self._given(found.data)
        return found.data, _meta(path, found)

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        check_range(path, start, end)
        return self._given(self._pinned(path).data[start:end])

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes of every range, in the order asked. Raises: ObjectNotFoundError."""
        with pinned(current_pin() or Pin()):
            return [await self.get_range(path, start, end) for start, end in ranges]

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError."""
        if length < 1:
            raise InvalidOptionError(f"the last {length} bytes of {path!r} are no bytes")
        data = self._pinned(path).data
        return SuffixRead(self._given(data[-length:]), len(data))

    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""
        self.counter.asked("head")
        return _meta(path, self._find(path))

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        return self._store(path, data, replace=True)

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object. Raises: ObjectExistsError."""
        return self._store(path, data, replace=False)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace the object from its pieces."""
        check_path(path)
        return self._store(path, b"".join([chunk async for chunk in chunks]), replace=True)

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object; one that is not there is no error."""
        space = self._space
        keys = {self._root + check_path(path) for path in paths}
        self.counter.asked("delete", times=len(keys))
        with space.lock:
            present = {key for key in keys if space.objects.pop(key, None) is not None}
            if len(present) == 1:
                del space.keys[bisect_left(space.keys, next(iter(present)))]
            elif present:
                space.keys = [key for key in space.keys if key not in present]

    def _page(self, prefix: str, after: str, *, recursive: bool) -> list[ObjectMeta]:
        self.counter.asked("list")
        page: list[ObjectMeta] = []
        skip = len(self._root)
        with self._space.lock:
            keys = self._space.keys
            at = max(bisect_left(keys, prefix), bisect_right(keys, after))
            while at < len(keys) and len(page) < _PAGE and keys[at].startswith(prefix):
                slash = -1 if recursive else keys[at].find("/", len(prefix))
                if slash < 0:
                    page.append(_meta(keys[at][skip:], self._space.objects[keys[at]]))
                    at += 1
                else:  # over the whole subtree: "0" is the character after "/"
                    at = bisect_left(keys, keys[at][:slash] + "0", at)
        return page

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        prefix = self._root + check_prefix(prefix)
        after = "" if start_after is None else self._root + start_after
        while page := self._page(prefix, after, recursive=recursive):
            yield page
            after = self._root + page[-1].path

    async def list_folder(
        self, prefix: str = "", *, start_after: str | None = None
    ) -> AsyncGenerator[FolderPage, None]:
        """One page of what lies directly below `prefix`."""
        whole = self._root + check_prefix(prefix)
        after = "" if start_after is None else self._root + start_after
        self.counter.asked("list")
        skip = len(self._root)
        objects: list[ObjectMeta] = []
        folders: list[str] = []
        with self._space.lock:
            keys = self._space.keys
            at = bisect_left(keys, whole)
            while at < len(keys) and keys[at].startswith(whole):
                slash = keys[at].find("/", len(whole))
                if slash >= 0:
                    folders.append(keys[at][skip : slash + 1])
                    at = bisect_left(keys, keys[at][:slash] + "0", at)  # after the whole subtree
                    continue
                if keys[at] > after:
                    objects.append(_meta(keys[at][skip:], self._space.objects[keys[at]]))
                at += 1
        yield FolderPage(objects, folders)


def _meta(path: str, found: _Object) -> ObjectMeta:
    return ObjectMeta(path, len(found.data), found.last_modified_ms, found.etag)
