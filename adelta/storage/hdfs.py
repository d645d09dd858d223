"""Files below a directory of HDFS, by WebHDFS.

A file is written under a hidden name beside its own, held to the length that was sent, and renamed:
a rename is atomic, overwrites nothing unless it is told to, and leaves the number of the inode, by
which a rename whose answer was lost is recognised. A process that is killed in between leaves a
file named ``.adelta-tmp-*``, which listings leave out.

Directories are no objects. They come in an order of the namenode's own, so each is read whole and
sorted. A read cannot ask for a version: where several have to be of one, the status of the file is
looked at before and after them.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_thread, map_concurrent
from adelta._memory import memory_limit_of
from adelta.errors import (
    CommitOutcomeUnknownError,
    ObjectChangedError,
    ObjectExistsError,
    StorageError,
)
from adelta.storage.coalesce import GAP, LARGEST_FETCH, plan_fetches
from adelta.storage.hdfs_answers import HdfsStatus, boolean_of, listed, status_of
from adelta.storage.hdfs_client import HdfsClient, HdfsRequest, Writing
from adelta.storage.hdfs_options import HdfsOptions, parse_hdfs_options
from adelta.storage.http_store import HttpObjectStore
from adelta.storage.object_answers import Answer, Failure, Kind, Page
from adelta.storage.object_client import LARGE, Into, ObjectRequest
from adelta.storage.object_path import check_path, check_prefix, check_range
from adelta.storage.object_store import ObjectMeta
from adelta.storage.pieces import in_pieces, put_back
from adelta.storage.pin import Pin, current_pin, pinned
from adelta.storage.sigv4 import encode_query
from adelta.storage.unfinished_files import HIDDEN_PREFIX, is_hidden

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

__all__ = ["HdfsStore"]

_log = logging.getLogger("adelta.storage")

PIECE = 8 << 20
"""Bytes up to which a stream is one put, which can be made again."""

_LONGEST_LISTING = 256 << 20
_MOST_ENTRIES = 6_400_000  # of a directory, which HDFS lets no cluster exceed
_PAGE = 1000
_AHEAD = 16  # directories that are listed at once
_ATTEMPTS = 5
_PAUSES = (0.1, 0.5, 2.0)  # seconds between looks for what may still come


class HdfsStore(HttpObjectStore):
    """An `ObjectStore` over the files of a cluster below `root`."""

    _client: HdfsClient
    _has_suffixes = False
    _verifies = False
    lists_from_anywhere = lists_prefixes = False

    def __init__(self, root: str, options: HdfsOptions) -> None:
        super().__init__(HdfsClient(options), f"{options.scheme}://{options.authority}", root)
        self._options = options
        self._lists_in_batches = True

    @classmethod
    def from_options(
        cls, authority: str, root: str, storage_options: Mapping[str, str], *, scheme: str = "hdfs"
    ) -> HdfsStore:
        """A store by Hadoop's names of options. Raises: InvalidOptionError."""
        return cls(root, parse_hdfs_options(scheme, authority, storage_options))

    @property
    def identity(self) -> str:
        """Its address, with where the options say that its namenodes are."""
        options = self._options
        said = sorted(each for each in options.properties.items() if "-address" in each[0])
        return f"hdfs|{options.folder or ''}|{said}|{self._uri}/"

    def _tag(self, headers: Mapping[str, str]) -> str | None:
        return None  # bytes come without one

    def _only_if(self, tag: str) -> Mapping[str, str]:
        return {}

    # ------------------------------------------------------------------------------------- read

    def _get(
        self,
        path: str,
        span: str | None = None,
        most: int | None = None,
        into: Into | None = None,
        pin: Pin | None = None,
    ) -> ObjectRequest:
        wanted: dict[str, str] = {}
        if span is not None:
            first, _, last = span.partition("-")
            wanted = {"offset": first, "length": str(int(last) + 1 - int(first))}
        return HdfsRequest(
            "GET",
            self._root + check_path(path),
            encode_query(wanted),
            into=into,
            most=most,
            memory=memory_limit_of(self) if span is None else None,
            partial=span is not None,
            kind="get",
            operation="OPEN",
        )

    async def _status(self, key: str, at: str = "") -> HdfsStatus | Failure:
        """What the namenode says of the file `key`, or of the one at `at` on its way there."""
        request = HdfsRequest("GET", key, kind="head", operation="GETFILESTATUS", at=at)
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer):
            return outcome
        return status_of(outcome.body, f"GETFILESTATUS of {self._client.name}/{at or key}")

    async def has_root(self) -> bool:
        """Whether the directory is there. Raises: StorageError."""
        key = self._root.rstrip("/")
        found = await self._status(key) if key else None
        if not isinstance(found, Failure):
            return True
        if found.kind is Kind.NOT_FOUND:
            return False
        raise self._client.error(HdfsRequest("GET", key, operation="GETFILESTATUS"), found)

    async def head(self, path: str) -> ObjectMeta:
        """What the namenode says of the file. Raises: ObjectNotFoundError."""
        key = self._root + check_path(path)
        found = await self._status(key)
        request = HdfsRequest("GET", key, operation="GETFILESTATUS")
        if not isinstance(found, HdfsStatus):
            raise self._client.error(request, found)
        if not found.is_file:
            raise self._client.error(request, Failure(Kind.NOT_FOUND, "", "it is no file", {}))
        return _meta(path, found)

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole file, and its status before and after. Raises: ObjectNotFoundError."""
        before = await self.head(path)
        for _ in range(_ATTEMPTS):
            data = await self.get(path)
            after = await self.head(path)
            if after.etag == before.etag and after.size == len(data):
                return data, after
            before = after
        raise ObjectChangedError(f"{self._uri}/{path} is written again each time it is read")

    async def _look(self, path: str, pin: Pin) -> None:
        """See that the file is still the one that `pin` holds to. Raises: ObjectChangedError."""
        pin.saw(self.pin_address(path), (await self.head(path)).etag)

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        pin = current_pin()
        if pin is None or start == end:
            return await super().get_range(path, start, end)
        check_range(path, start, end)
        if pin.etag(self.pin_address(path)) is None:
            await self._look(path, pin)
        data = await super().get_range(path, start, end)
        await self._look(path, pin)
        return data

    async def get_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every range: near ones in one request, large ones in several."""
        pin = current_pin()
        for start, end in ranges:
            check_range(path, start, end)
        fetches = plan_fetches(ranges, gap=GAP, largest=LARGEST_FETCH).fetches
        if not any(fetches):
            if ranges:
                await self.head(path)
            return [b""] * len(ranges)
        if pin is None and sum(map(len, fetches)) == 1:  # which is of one version
            return await super().get_ranges(path, ranges)
        with pinned(pin or Pin()) as pin:
            if pin.etag(self.pin_address(path)) is None:
                await self._look(path, pin)
            found = await super().get_ranges(path, ranges)
            await self._look(path, pin)
        return found

    # ------------------------------------------------------------------------------------ write

    async def _put_request(self, path: str, data: bytes, *, if_absent: bool) -> HdfsRequest:
        """What brings the bytes, to a file under a name of its own."""
        return self._creating(path, data)

    def _creating(
        self, path: str, data: bytes = b"", chunks: AsyncIterator[bytes] | None = None
    ) -> HdfsRequest:
        key = self._root + check_path(path)
        folder = key[: key.rfind("/") + 1]
        return HdfsRequest(
            "PUT",
            key,
            encode_query({"overwrite": "false"}),
            body=data,
            kind="put",
            operation="CREATE",
            writing=Writing(lambda: f"{folder}{HIDDEN_PREFIX}{secrets.token_hex(8)}", chunks),
        )

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        return await self._write(path, self._creating(path, data), data, if_absent=False)

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another object is there.
            CommitOutcomeUnknownError: it may have been created, and the namenode cannot be asked.
        """
        return await self._write(path, self._creating(path, data), data, if_absent=True)

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size, by one request that cannot be made again."""
        pieces = in_pieces(chunks, lambda _: PIECE)
        first = await anext(pieces, b"")
        second = await anext(pieces, None) if len(first) >= PIECE else None
        if second is None:
            return await self.put(path, first)
        request = self._creating(path, chunks=put_back(first, second, rest=pieces))
        return await self._write(path, request, None, if_absent=False)

    async def _write(
        self, path: str, request: HdfsRequest, data: bytes | None, *, if_absent: bool
    ) -> ObjectMeta:
        """Write a hidden file by `request`, and give it its name."""
        writing = request.writing
        assert writing is not None
        try:
            await self._client.send(request)
            hidden = writing.keys[-1]
            found = await self._status(request.key, hidden)
            if not isinstance(found, HdfsStatus):
                raise self._client.error(request, found)
            sent = writing.size if data is None else len(data)
            if found.size != sent or not found.is_file:
                raise StorageError(
                    f"{self._uri}/{path}: the cluster has {found.size:,} bytes of the {sent:,} "
                    "that were sent: write it again"
                )
            repeated = await self._rename(path, hidden, found, data, if_absent=if_absent)
            writing.keys.pop()
        except Exception:
            self._look_later(await self._forget(writing))
            raise
        except BaseException:  # what is under way goes on without us, and is deleted then
            forget = partial(self._forget_to_the_end, writing)
            self._client.abandoned.delete_after([request.key], forget)
            raise
        self._look_later(await self._forget(writing))
        return ObjectMeta(path, found.size, found.modified_ms, found.tag, repeated)

    async def _forget(self, writing: Writing) -> list[str]:
        """Delete what has no name, of attempts before the last or of all: what may still come.

        That is what a datanode has not told of, and has not begun either.
        """
        try:
            gone = await map_concurrent(self._removed, writing.keys, limit=self.concurrency)
        except StorageError as error:
            _log.warning("%s: hidden files were left behind: %s", self._uri, error)
            return []
        found = dict(zip(writing.keys, gone, strict=True))
        return [key for key in writing.untold if found.get(key) is False]

    async def _forget_to_the_end(self, writing: Writing) -> None:
        await self._forget_late(await self._forget(writing))

    def _look_later(self, late: list[str]) -> None:
        if late:
            self._client.abandoned.delete_after((), partial(self._forget_late, late))

    async def _forget_late(self, late: list[str]) -> None:
        for pause in _PAUSES:
            if late:
                await anyio.sleep(pause)
                late = [key for key in late if not await self._removed(key)]

    async def _rename(
        self, path: str, hidden: str, found: HdfsStatus, data: bytes | None, *, if_absent: bool
    ) -> bool:
        """Give a hidden file its name: whether an earlier request may have done it.

        Raises: as `put_if_absent` does.
        """
        key = self._root + path
        options = {
            "destination": f"/{key}",
            "renameoptions": "NONE" if if_absent else "OVERWRITE",
        }
        request = HdfsRequest(
            "PUT", key, encode_query(options), kind="put", operation="RENAME", at=hidden
        )
        outcome = await self._client.try_send(request)
        what = f"RENAME to {self._client.name}/{key}"
        error: StorageError
        if isinstance(outcome, Answer):
            try:
                said = boolean_of(outcome.body, what)
            except StorageError as unclear:
                error = unclear
            else:
                if said is None:  # it knows the option, or would have said more
                    return outcome.repeated
                return await self._renamed_by_gateway(path, found, said, if_absent=if_absent)
        else:
            error = self._client.error(request, outcome)
            if outcome.kind is Kind.EXISTS and not outcome.repeated and if_absent:
                raise ObjectExistsError(f"{error}: there is another object {self._uri}/{path}")
            if not outcome.maybe_applied and outcome.kind is not Kind.NOT_FOUND:
                raise error  # the file was there: where it is not, something has renamed it
        # In doubt: what is there now decides, and whether the hidden file still is.
        there: HdfsStatus | Failure
        try:
            there = await self._status(key)
        except StorageError as lack:
            there = Failure(Kind.REFUSED, "", str(lack), {})
        if isinstance(there, HdfsStatus):
            if await self._is_ours(path, there, found, data):
                return True
            if if_absent:
                raise ObjectExistsError(f"there is another object {self._uri}/{path}") from error
            raise error
        if there.kind is Kind.NOT_FOUND and await self._taken_back(key, hidden):
            raise error
        why = there.reason
        if not if_absent:
            raise error
        raise CommitOutcomeUnknownError(
            f"{self._uri}/{path} may or may not have been created: {error}; looking for it failed "
            f"too ({why}). Look whether it is there before trying again"
        ) from error

    async def _renamed_by_gateway(
        self, path: str, found: HdfsStatus, said: bool, *, if_absent: bool
    ) -> bool:
        """What a gateway's rename came to, which overwrites nothing and knows no options."""
        there = await self._status(self._root + path)
        is_there = isinstance(there, HdfsStatus)
        if said and isinstance(there, HdfsStatus) and there.is_file and there.tag == found.tag:
            return False
        if not said and if_absent and is_there:
            raise ObjectExistsError(f"there is another object {self._uri}/{path}")
        if not said and is_there:
            raise StorageError(
                f"{self._uri}/{path} is there, and this gateway (HttpFS) cannot replace a file "
                "at once: give the namenode's own address as dfs.namenode.http-address"
            )
        raise StorageError(f"{self._uri}/{path}: the rename that puts it there was not carried out")

    async def _is_ours(
        self, path: str, there: HdfsStatus, found: HdfsStatus, data: bytes | None
    ) -> bool:
        if there.tag != found.tag or not there.is_file:
            return False
        if found.number or data is None:
            return True
        return await self.get(path) == data

    async def _taken_back(self, key: str, hidden: str) -> bool:
        """Delete a hidden file: whether it was there, and so no rename has moved or can move it."""
        request = HdfsRequest("DELETE", key, operation="DELETE", at=hidden, kind="delete")
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer) or outcome.repeated:
            return False
        return boolean_of(outcome.body, f"DELETE of {hidden}") is True

    async def _removed(self, hidden: str) -> bool:
        """Delete a hidden file, if it is there: whether it was. Raises: StorageError."""
        request = HdfsRequest("DELETE", hidden, operation="DELETE", kind="delete")
        outcome = await self._client.try_send(request)
        if isinstance(outcome, Answer):
            return boolean_of(outcome.body, f"DELETE of {hidden}") is not False
        if outcome.kind is Kind.NOT_FOUND:
            return False
        raise self._client.error(request, outcome)

    async def _delete_one(self, key: str) -> None:
        query = encode_query({"recursive": "false"})
        request = HdfsRequest("DELETE", key, query, kind="delete", operation="DELETE")
        outcome = await self._client.try_send(request)
        if isinstance(outcome, Answer) or outcome.kind is Kind.NOT_FOUND:
            return
        if "NotEmptyDirectory" in outcome.code or "is non empty" in outcome.reason:
            return  # a directory is no object
        raise self._client.error(request, outcome)

    # ------------------------------------------------------------------------------------- list

    async def _pages(
        self, prefix: str, start_after: str | None, *, recursive: bool
    ) -> AsyncGenerator[Page, None]:
        """Pages that are not empty. Raises: StorageError."""
        check_prefix(prefix)
        after = (start_after or "").encode()
        if not recursive:
            whole = await self._page(prefix, start_after, None, recursive)
            for at in range(0, max(1, len(whole.objects)), _PAGE):
                page = Page(whole.objects[at : at + _PAGE], None, [] if at else whole.folders)
                if page.objects or page.folders:
                    yield page
            return
        entries = await self._begins(prefix)
        held: list[ObjectMeta] = []
        async with aclosing(self._below_all(entries, after)) as found:
            async for meta in found:
                held.append(meta)
                if len(held) == _PAGE:
                    yield Page(held, None)
                    held = []
        if held:
            yield Page(held, None)

    async def _below_all(
        self, entries: list[tuple[str, ObjectMeta | None]], after: bytes
    ) -> AsyncGenerator[ObjectMeta, None]:
        """The files among the entries and in their directories, in order, from after `after` on."""
        open_ones = [iter(entries)]
        rest = [entries]
        at = [0]
        listed_ahead: dict[str, list[tuple[str, ObjectMeta | None]]] = {}
        while open_ones:
            entry = next(open_ones[-1], None)
            if entry is None:
                for each in (open_ones, rest, at):
                    each.pop()
                continue
            path, meta = entry
            at[-1] += 1
            if meta is not None:
                if path.encode() > after:
                    yield meta
                continue
            if not _may_follow(path, after):
                continue
            if path not in listed_ahead:
                siblings = [
                    each
                    for each, file in rest[-1][at[-1] - 1 : at[-1] - 1 + 4 * _AHEAD]
                    if file is None and _may_follow(each, after)
                ][:_AHEAD]
                found = await map_concurrent(self._entries, siblings, limit=self.concurrency)
                listed_ahead.update(zip(siblings, found, strict=True))
            inner = listed_ahead.pop(path)
            open_ones.append(iter(inner))
            rest.append(inner)
            at.append(0)

    async def _begins(self, prefix: str) -> list[tuple[str, ObjectMeta | None]]:
        """The entries of a directory whose paths begin with `prefix`."""
        entries = await self._entries(prefix[: prefix.rfind("/") + 1])
        return [each for each in entries if each[0].startswith(prefix)]

    async def _entries(self, folder: str) -> list[tuple[str, ObjectMeta | None]]:
        """The files of a directory, and the directories in it without a status, in order.

        The paths of directories end in ``/``. A directory that is not there has nothing in it.
        """
        found: dict[str, HdfsStatus] = {}
        last: str | None = None
        while True:
            page = await self._page_of(folder, last)
            if page is None:
                return []
            entries, more = page
            for each in entries:
                if each.name in found:
                    raise self._endless(folder)
                found[each.name] = each
            if not more:
                break
            if not entries or len(found) > _MOST_ENTRIES:
                raise self._endless(folder)
            last = entries[-1].name
        if len(found) < _PAGE:
            return _in_order(folder, found)
        return await in_thread(_in_order, folder, found)

    def _endless(self, folder: str) -> StorageError:
        return StorageError(
            f"the listing of {self._uri}/{folder} does not go on: the namenode answers with what "
            "it has listed before, or without an end. Find out what is wrong with it"
        )

    async def _page_of(self, folder: str, last: str | None) -> tuple[list[HdfsStatus], bool] | None:
        """The entries of a directory after the name `last`, and whether there are more."""
        key = (self._root + folder).rstrip("/")
        what = f"the listing of {self._uri}/{folder}"
        while True:
            batch = self._lists_in_batches
            request = HdfsRequest(
                "GET",
                key,
                "" if last is None or not batch else encode_query({"startAfter": last}),
                most=_LONGEST_LISTING,
                kind="list",
                operation="LISTSTATUS_BATCH" if batch else "LISTSTATUS",
            )
            outcome = await self._client.try_send(request)
            if isinstance(outcome, Answer):
                if len(outcome.body) < LARGE:
                    return listed(outcome.body, what)
                return await in_thread(listed, outcome.body, what)
            if outcome.kind is Kind.NOT_FOUND:
                return None
            if outcome.kind is Kind.UNSUPPORTED and batch and last is None:
                self._lists_in_batches = False  # Hadoop before 2.9
                continue
            raise self._client.error(request, outcome)

    async def _page(
        self, prefix: str, start_after: str | None, token: str | None, recursive: bool
    ) -> Page:
        """All that lies directly below `prefix`, whose objects sort after `start_after`."""
        after = (start_after or "").encode()
        entries = await self._begins(prefix)
        objects = [m for path, m in entries if m is not None and path.encode() > after]
        return Page(objects, None, [path for path, meta in entries if meta is None])


def _in_order(folder: str, found: Mapping[str, HdfsStatus]) -> list[tuple[str, ObjectMeta | None]]:
    entries: list[tuple[str, ObjectMeta | None]] = []
    for name, status in found.items():
        path = folder + name
        if status.is_directory:
            entries.append((f"{path}/", None))
        elif status.is_file and not is_hidden(name):
            entries.append((path, _meta(path, status)))
    entries.sort(key=lambda entry: entry[0].encode())
    return entries


def _may_follow(folder: str, after: bytes) -> bool:
    """Whether a path in the folder may come after `after`."""
    beginning = folder.encode()
    return beginning > after or after.startswith(beginning)


def _meta(path: str, status: HdfsStatus) -> ObjectMeta:
    return ObjectMeta(path, status.size, status.modified_ms, status.tag)
