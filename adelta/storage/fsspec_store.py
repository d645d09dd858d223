"""A file system of fsspec as a store: SFTP, archives, GitHub, and whatever else has one.

`put_if_absent` is refused, for fsspec has none that excludes other writers: tables are read, and
written to where something else claims their versions. Where files are renamed, an object is
written under another name and renamed when it is whole; elsewhere the file system itself has an
upload appear at once. Who tells no times of files is read and not written to: nothing could be
deleted for its age.
"""

from __future__ import annotations

import copy
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from adelta._chance import new_uuid
from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_io_thread, map_concurrent
from adelta.errors import InvalidOptionError, ObjectNotFoundError, StorageError
from adelta.storage.fsspec_answers import etag_of, is_answer, modified_ms, translated
from adelta.storage.object_path import check_path, check_prefix, check_range
from adelta.storage.object_store import FolderPage, ObjectMeta, ObjectStore, SuffixRead
from adelta.storage.pin import current_pin
from adelta.storage.unfinished_files import HIDDEN_PREFIX, is_hidden

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
    )

    from adelta.storage.fsspec_calls import Calls

__all__ = ["FsspecStore"]

_CONCURRENCY = 8
_PAGE = 1000
_FOLDERS = 5  # attempts to make one that others make too


class _Told:
    """What answers have told, which a store shares with those below it."""

    def __init__(self) -> None:
        self.clock_ahead_ms: int | None = None
        self.without_times = False


class FsspecStore(ObjectStore):
    """An `ObjectStore` over a file system that `calls` reach, below the path `root` in it.

    `renames` says that it renames files in one step.
    """

    lists_from_anywhere = lists_prefixes = False

    def __init__(self, calls: Calls, uri: str, root: str, *, renames: bool) -> None:
        self._calls = calls
        self._uri = uri.rstrip("/")
        self._root = root.rstrip("/")
        self._renames = renames
        self._told = _Told()

    def __repr__(self) -> str:
        return f"FsspecStore({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root's address."""
        return self._uri

    @property
    def concurrency(self) -> int:
        """How many calls are under way at once: each may need a connection of its own."""
        return _CONCURRENCY

    async def now_ms(self) -> int | None:
        """The time by the clock that files get theirs from, once one has been written."""
        ahead = self._told.clock_ahead_ms
        return None if ahead is None else SYSTEM_CLOCK.now_ms() + ahead

    def below(self, path: str) -> FsspecStore:
        """A folder, by the same connections. Raises: InvalidOptionError."""
        made = copy.copy(self)
        check_path(path)
        made._root, made._uri = f"{self._root}/{path}", f"{self._uri}/{path}"
        made._calls = _Borrowed(self._calls)
        made.counter = self.counter
        return made

    async def aclose(self) -> None:
        """Give back connections; later calls make new ones."""
        await self._calls.aclose()

    # -------------------------------------------------------------------------------- reading

    def _path(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    async def _ask(self, path: str, name: str, *args: Any, **how: Any) -> Any:
        """What a call that changes nothing returns: by a new connection where one broke."""
        with translated(f"{self._uri}/{path}"):
            try:
                return await self._calls.call(name, *args, **how)
            except Exception as error:
                if is_answer(error):
                    raise
                self.counter.retried()
            return await self._calls.call(name, *args, **how)

    async def _meta(self, path: str) -> ObjectMeta:
        info = await self._ask(path, "info", self._path(path))
        if info.get("type", "file") != "file":
            raise ObjectNotFoundError(f"{self._uri}/{path} is no file")
        return self._meta_of(path, info)

    def _meta_of(self, path: str, info: Any) -> ObjectMeta:
        size, modified = info.get("size"), modified_ms(info)
        if not isinstance(size, int):
            raise StorageError(f"{self._uri}/{path}: its file system does not tell its size")
        if modified is None:
            self._told.without_times = True
        return ObjectMeta(path, size, modified or 0, etag_of(info, size, modified))

    async def _pinned(self, path: str) -> ObjectMeta:
        meta = await self._meta(path)
        if (pin := current_pin()) is not None:
            pin.saw(f"{self._uri}/{path}", meta.etag)
        return meta

    async def _read(self, meta: ObjectMeta, start: int, end: int) -> bytes:
        """Bytes of an object that was looked at just now."""
        end = min(end, meta.size)
        if start >= end:
            return b""
        data = await self._ask(meta.path, "cat_file", self._path(meta.path), start=start, end=end)
        if len(data) != end - start:
            raise StorageError(
                f"{self._uri}/{meta.path}: {len(data):,} bytes came where {end - start:,} were "
                "asked for"
            )
        self.counter.received(len(data))
        return bytes(data)

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object and what is said of it. Raises: ObjectNotFoundError."""
        check_path(path)
        self.counter.asked("get")
        meta = await self._meta(path)
        return await self._read(meta, 0, meta.size), meta

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        check_range(path, start, end)
        self.counter.asked("get")
        return await self._read(await self._pinned(path), start, end)

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError, ObjectChangedError."""
        if length < 1:
            raise InvalidOptionError(f"the last {length} bytes of {path!r} are no bytes")
        self.counter.asked("get")
        meta = await self._pinned(path)
        return SuffixRead(await self._read(meta, max(0, meta.size - length), meta.size), meta.size)

    async def head(self, path: str) -> ObjectMeta:
        """What the file system says of the object. Raises: ObjectNotFoundError."""
        check_path(path)
        self.counter.asked("head")
        return await self._meta(path)

    # -------------------------------------------------------------------------------- writing

    def _check_writable(self, path: str) -> None:
        if self._told.without_times:
            raise StorageError(
                f"{self._uri}/{path}: this file system tells no times of files, without which "
                "tables are not written to; copy the table to a store that tells them"
            )

    async def _write(
        self, path: str, size: int, send: Callable[[str], Awaitable[object]]
    ) -> ObjectMeta:
        self._check_writable(path)
        self.counter.asked("put", written=size)
        target = self._path(path)
        with translated(f"{self._uri}/{path}"):
            if self._renames:
                await self._sent_and_renamed(target, size, send)
            else:
                await send(target)
        made = await self._meta(path)
        self._told.clock_ahead_ms = made.last_modified_ms - SYSTEM_CLOCK.now_ms()
        return made

    async def _sent_and_renamed(
        self, target: str, size: int, send: Callable[[str], Awaitable[object]]
    ) -> None:
        folder, _, _ = target.rpartition("/")
        hidden = f"{folder}/{HIDDEN_PREFIX}{new_uuid().hex[:16]}"
        try:
            try:
                await send(hidden)
            except FileNotFoundError:
                await self._make_folder(folder)
                await send(hidden)
            arrived = (await self._calls.call("info", hidden)).get("size")
            if arrived != size:
                raise StorageError(f"{arrived} bytes of {size:,} have arrived: it may be full")
            await self._calls.call("mv", hidden, target)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(Exception):
                await self._calls.call("rm_file", hidden)
            raise

    async def _make_folder(self, folder: str) -> None:
        for left in reversed(range(_FOLDERS)):
            try:
                await self._calls.call("makedirs", folder, exist_ok=True)
            except Exception:
                if not left and not await self._calls.call("isdir", folder):
                    raise
            else:
                return

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        check_path(path)
        return await self._write(
            path, len(data), lambda target: self._calls.call("pipe_file", target, bytes(data))
        )

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Refuse to create the object.

        Raises:
            InvalidOptionError: fsspec knows no way of doing so that excludes others.
        """
        check_path(path)
        raise InvalidOptionError(
            f"{self._uri}/{path} cannot be put on the condition that it is absent: file systems of "
            "fsspec have no such writes. Let something else claim the table's versions, by the "
            "storage option adelta_commit_lock=postgresql://... for all writers"
        )

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace the object, which goes through a temporary file of this machine."""
        check_path(path)
        self._check_writable(path)
        file = await in_io_thread(tempfile.NamedTemporaryFile)
        try:
            size = 0
            async for chunk in chunks:
                await in_io_thread(file.write, chunk)
                size += len(chunk)
            await in_io_thread(file.flush)
            return await self._write(
                path, size, lambda target: self._calls.call("put_file", file.name, target)
            )
        finally:
            with anyio.CancelScope(shield=True):
                await in_io_thread(file.close)

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object; one that is not there is no error."""
        wanted = [check_path(path) for path in paths]
        for path in wanted[:1]:
            self._check_writable(path)
        self.counter.asked("delete", times=len(wanted))

        async def delete(path: str) -> None:
            with translated(f"{self._uri}/{path}"):
                try:
                    await self._calls.call("rm_file", self._path(path))
                except Exception:
                    try:
                        await self._meta(path)
                    except ObjectNotFoundError:  # it is gone, or a folder
                        return
                    raise

        await map_concurrent(delete, wanted, limit=self.concurrency)

    # -------------------------------------------------------------------------------- listing

    async def _folder(self, folder: str) -> list[tuple[str, Any]]:
        """What lies in a folder, in the order of paths below it: names, of folders with a slash."""
        self.counter.asked("list")
        where = f"{self._root}/{folder}".rstrip("/")
        try:
            infos = await self._ask(folder, "ls", where, detail=True)
        except ObjectNotFoundError:
            return []
        found = []
        for info in infos:
            above, _, name = info["name"].rstrip("/").rpartition("/")
            kind = info.get("type", "file")
            if above.strip("/") != where.strip("/") or not name or is_hidden(name):
                continue  # of a file its own entry
            if kind in ("file", "directory"):
                found.append((f"{name}/" if kind == "directory" else name, info))
        return sorted(found, key=lambda each: each[0])

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        check_prefix(prefix)
        after = start_after or ""
        page: list[ObjectMeta] = []
        folder = prefix[: prefix.rfind("/") + 1]
        pending = [iter(await self._folder(folder))]
        folders = [folder]
        while pending:
            name, info = next(pending[-1], ("", None))
            if not name:
                pending.pop()
                folders.pop()
                continue
            path = folders[-1] + name
            if not path.startswith(prefix) and not prefix.startswith(path):
                continue
            if name.endswith("/"):
                if recursive and not (after > path and not after.startswith(path)):
                    pending.append(iter(await self._folder(path)))
                    folders.append(path)
            elif path.startswith(prefix) and path > after:
                page.append(self._meta_of(path, info))
                if len(page) == _PAGE:
                    yield page
                    page = []
        if page:
            yield page

    async def list_folder(
        self, prefix: str = "", *, start_after: str | None = None
    ) -> AsyncGenerator[FolderPage, None]:
        """One page of what lies directly below `prefix`."""
        check_prefix(prefix)
        folder = prefix[: prefix.rfind("/") + 1]
        found = [(folder + name, info) for name, info in await self._folder(folder)]
        matching = [(path, info) for path, info in found if path.startswith(prefix)]
        objects = [
            self._meta_of(path, info)
            for path, info in matching
            if not path.endswith("/") and path > (start_after or "")
        ]
        yield FolderPage(objects, [path for path, _ in matching if path.endswith("/")])


class _Borrowed:
    """Calls by connections that another store gives back."""

    def __init__(self, calls: Calls) -> None:
        self.call = calls.call

    async def aclose(self) -> None:
        """Give nothing back."""
