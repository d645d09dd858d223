"""What the stores behind HTTP have in common: reading objects, and settling what is in doubt.

A conditional put can end in doubt: its answer is lost, or is an error from inside the store. Then
the put is made again; if that finds an object, the object is read back and compared. The same
bytes are this put's own, provided that no two writers put the same bytes, which is for the caller
to see to.
"""

from __future__ import annotations

import asyncio
import copy
from abc import abstractmethod
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread, map_concurrent
from adelta._memory import memory_limit_of
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    ObjectExistsError,
    OutOfMemoryError,
    StorageError,
)
from adelta.storage.coalesce import GAP, LARGEST_FETCH, plan_fetches
from adelta.storage.http_time import http_time_ms
from adelta.storage.listing_progress import ListingProgress
from adelta.storage.long_body import memory_for
from adelta.storage.object_answers import Answer, Failure, Kind, Page
from adelta.storage.object_client import Into, ObjectRequest
from adelta.storage.object_path import check_path, check_prefix, check_range
from adelta.storage.object_store import FolderPage, ObjectMeta, ObjectStore, SuffixRead
from adelta.storage.pin import Pin, current_pin, pinned

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )
    from typing import Self

    from adelta.storage.object_client import ObjectClient
    from adelta.storage.stats import RequestCounter

__all__ = ["LARGEST_PUT", "HttpObjectStore"]

LARGEST_PUT = 64 << 20
"""Bytes beyond which an object is put as a stream."""

_LONGEST_SIZE = 18  # digits
_SORTED = 1000  # objects of a page that has been put in order
_MUCH_MEMORY = 4 << 20  # bytes that take a while to be had


class HttpObjectStore(ObjectStore):
    """An `ObjectStore` over the keys of a bucket below `root`, which `client` sends requests to.

    A store says by the hooks below how its requests are made and what its answers say. All of them
    are read by their status: 206 is a part of an object, 416 a range behind its end.
    """

    _has_suffixes = True
    """Whether the last bytes of an object can be asked for without its size."""
    _in_order = True
    """Whether listings come in the order of paths."""
    _most_deletes = 1
    """How many objects one request deletes."""
    _verifies = True
    """Whether whole objects are held to the checksums that the store has of them."""

    def __init__(self, client: ObjectClient[Any], uri: str, root: str) -> None:
        root = root.strip("/")
        self._root = f"{check_path(root)}/" if root else ""
        self._uri = f"{uri}/{root}".rstrip("/")
        self._client = client
        self._read_headers: Mapping[str, str] = {}
        self._borrows = False  # the client, of a store that is closed by itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root's address."""
        return self._uri

    @property
    def lists_in_order(self) -> bool:
        """Whether the store lists in the order of paths, as far as it has been seen to."""
        return self._in_order

    @property
    def concurrency(self) -> int:
        """How many requests are under way at most."""
        return self._client.concurrency

    @property
    def counter(self) -> RequestCounter:
        """Counts the client's requests."""
        return self._client.counter

    @property
    def request_count(self) -> int:
        """HTTP requests sent so far, with those that were tried again."""
        return self.counter.num_requests

    def observe_requests(self, observer: Callable[[str, str, str], None] | None) -> None:
        """Call `observer` with method, key and query of every HTTP request from now on."""
        self._client.on_request = observer

    def below(self, path: str) -> Self:
        """A folder of the bucket, by the same client. Raises: InvalidOptionError."""
        made = copy.copy(self)
        made._root, made._uri = f"{self._root}{check_path(path)}/", f"{self._uri}/{path}"
        made._borrows = True
        return made

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells this root from those of the same address on other servers; no secret."""

    def pin_address(self, path: str) -> str:
        """What pins call the object."""
        return self._address(self._root + path)

    # ------------------------------------------------------------------------------------ hooks

    @abstractmethod
    def _tag(self, headers: Mapping[str, str]) -> str | None:
        """The tag of the version that the headers are of."""

    @abstractmethod
    def _only_if(self, tag: str) -> Mapping[str, str]:
        """The headers that ask for the version of a tag alone; none where that cannot be asked."""

    @abstractmethod
    async def _put_request(self, path: str, data: bytes, *, if_absent: bool) -> ObjectRequest:
        """What puts the object by one request."""

    @abstractmethod
    async def _delete_one(self, key: str) -> None:
        """Delete the object of this key, where it is there."""

    async def _delete_many(self, keys: Sequence[str]) -> None:
        """Delete so many objects as go together, where they are there."""
        await map_concurrent(self._delete_one, keys, limit=self.concurrency)

    def _goes_together(self, key: str) -> bool:
        """Whether the object may be deleted together with others."""
        return self._most_deletes > 1

    @abstractmethod
    async def _page(
        self, prefix: str, start_after: str | None, token: str | None, recursive: bool
    ) -> Page:
        """A page of a listing: the first one after `start_after`, or that of a `token`."""

    _without_conditions = ""
    """What to do where the store knows no conditional puts."""

    def _made(self, path: str, size: int, answer: Answer) -> ObjectMeta:
        """What the answer says of an object that was put."""
        headers = answer.headers
        try:
            moment = http_time_ms(headers.get("last-modified") or headers.get("date", ""))
        except ValueError:  # by RFC 9110, 6.6.1, the time of an answer without one is that of now
            moment = self._client.now_ms() or SYSTEM_CLOCK.now_ms()
        return ObjectMeta(path, size, moment, self._tag(headers))

    def _meta(self, path: str, size: int, headers: Mapping[str, str]) -> ObjectMeta:
        """What the headers of an answer that was read say."""
        moment = headers.get("last-modified") or headers.get("date", "")
        return ObjectMeta(path, size, self._milliseconds(moment), self._tag(headers))

    def _milliseconds(self, moment: str) -> int:
        try:
            return http_time_ms(moment)
        except ValueError as error:
            raise StorageError(
                f"the store gave {moment!r} as the time of an object, which is no date of HTTP; "
                f"check that the endpoint speaks {self._client.service}, and that no proxy changes "
                "its answers"
            ) from error

    def _size(self, key: str, stated: str) -> int:
        if not stated.isdecimal() or len(stated) > _LONGEST_SIZE:
            raise StorageError(
                f"the store did not say the size of {key!r}; check that the endpoint speaks "
                f"{self._client.service}, and that no proxy changes its answers"
            )
        return int(stated)

    # ------------------------------------------------------------------------------------- read

    def _get(
        self,
        path: str,
        span: str | None = None,
        most: int | None = None,
        into: Into | None = None,
        pin: Pin | None = None,
    ) -> ObjectRequest:
        headers: Mapping[str, str] = self._read_headers
        if span is not None:
            headers = {**headers, "range": f"bytes={span}"}
        key = self._root + check_path(path)
        tag = None if pin is None else pin.etag(self._address(key))
        if tag is not None:
            headers = {**headers, **self._only_if(tag)}
        return ObjectRequest(
            "GET",
            key,
            headers=headers,
            into=into,
            most=most,
            verify=self._verifies,
            memory=memory_limit_of(self) if span is None else None,
        )

    async def now_ms(self) -> int | None:
        """The time by the server's clock, as its last answer told it."""
        return self._client.now_ms()

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        return (await self._client.send(self._get(path))).body

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object, and what its headers say of it. Raises: ObjectNotFoundError."""
        answer = await self._client.send(self._get(path))
        return answer.body, self._meta(path, len(answer.body), answer.headers)

    def _address(self, key: str) -> str:
        return f"{self._client.name}/{key}"

    async def _try_get(self, request: ObjectRequest, pin: Pin | None) -> Answer | Failure:
        """The answer, if it is of the version that `pin` holds to, or a failure of another kind."""
        outcome = await self._client.try_send(request)
        if pin is not None:
            address = self._address(request.key)
            if isinstance(outcome, Answer):
                pin.saw(address, self._tag(outcome.headers))
            elif outcome.kind is Kind.EXISTS:  # under another tag than the one asked for
                raise pin.broken(address)
        return outcome

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError, ObjectChangedError."""
        check_range(path, start, end)
        if start == end:
            return b""
        pin = current_pin()
        request = self._get(path, f"{start}-{end - 1}", end - start, pin=pin)
        outcome = await self._try_get(request, pin)
        if isinstance(outcome, Answer):
            return outcome.body if outcome.status == 206 else outcome.body[start:end]
        if outcome.kind is Kind.OUT_OF_RANGE:  # it begins at the object's end or after
            return b""
        raise self._client.error(request, outcome)

    async def get_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every range: near ones in one request, large ones in several."""
        pin = current_pin() or Pin()
        for start, end in ranges:
            check_range(path, start, end)
        plan = plan_fetches(ranges, gap=GAP, largest=LARGEST_FETCH)
        fetches = [(index, piece) for index, pieces in enumerate(plan.fetches) for piece in pieces]
        lengths = [end - start for start, end in plan.spans]
        memory: asyncio.Future[list[memoryview]] = asyncio.get_running_loop().create_future()

        async def provide() -> int:
            memory.set_result(await memory_for(lengths))
            return 0

        async def fetch(index: int, start: int, end: int) -> int:
            async def into() -> memoryview:
                origin = plan.spans[index][0]
                return (await asyncio.shield(memory))[index][start - origin : end - origin]

            return await self._fetch(path, start, end, into, pin)

        work: list[Callable[[], Awaitable[int]]] = []
        if sum(lengths) >= _MUCH_MEMORY:  # it is made while the requests are on their way
            work.append(provide)
        else:
            await provide()
        beside = len(work)
        work += [partial(fetch, index, *piece) for index, piece in fetches]
        counts = await map_concurrent(lambda one: one(), work, limit=self.concurrency + beside)
        counts = counts[beside:]
        spans = memory.result()
        for (index, (start, end)), count in zip(fetches, counts, strict=True):
            if count < end - start:  # the object ends here
                spans[index] = spans[index][: start - plan.spans[index][0] + count]
        return plan.cut(spans)

    async def _fetch(self, path: str, start: int, end: int, into: Into, pin: Pin) -> int:
        """Put the bytes ``[start, end)`` to `into`: how many there are."""
        request = self._get(path, f"{start}-{end - 1}", end - start, into, pin)
        outcome = await self._try_get(request, pin)
        if isinstance(outcome, Answer):
            if outcome.placed is not None:
                return outcome.placed
            body = outcome.body[start:end]  # the store looked past the range
            (await into())[: len(body)] = body
            return len(body)
        if outcome.kind is Kind.OUT_OF_RANGE:  # it begins at the object's end or after
            return 0
        raise self._client.error(request, outcome)

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError, ObjectChangedError."""
        if length < 1:
            raise InvalidOptionError(
                f"ask for one byte of {path!r} or more, not for its last {length}"
            )
        pin = current_pin() or Pin()
        if not self._has_suffixes:
            return await self._suffix_by_size(path, length, pin)
        request = self._get(path, f"-{length}", length, pin=pin)
        outcome = await self._try_get(request, pin)
        if isinstance(outcome, Answer):
            if outcome.status != 206:  # the store looked past the range
                return SuffixRead(outcome.body[-length:], len(outcome.body))
            return SuffixRead(outcome.body, self._size_of_whole(request, outcome.headers))
        if outcome.kind is not Kind.OUT_OF_RANGE and outcome.kind is not Kind.UNSUPPORTED:
            raise self._client.error(request, outcome)
        if outcome.headers.get("content-range", "").endswith("*/0"):
            return SuffixRead(b"", 0)
        return await self._suffix_by_size(path, length, pin)  # an empty object, or a lack of them

    async def _suffix_by_size(self, path: str, length: int, pin: Pin) -> SuffixRead:
        """The last `length` bytes, by two requests."""
        meta = await self.head(path)
        pin.saw(self._address(self._root + path), meta.etag)
        start = max(0, meta.size - length)
        with pinned(pin):
            return SuffixRead(await self.get_range(path, start, meta.size), meta.size)

    def _size_of_whole(self, request: ObjectRequest, headers: Mapping[str, str]) -> int:
        return self._size(request.key, headers.get("content-range", "").rpartition("/")[2])

    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""
        key = self._root + check_path(path)
        answer = await self._client.send(ObjectRequest("HEAD", key, headers=self._read_headers))
        size = self._size(key, answer.headers.get("content-length", ""))
        return self._meta(path, size, answer.headers)

    # ------------------------------------------------------------------------------------ write

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        if len(data) > LARGEST_PUT:
            return await self.put_stream(path, _one(data))
        request = await self._put_request(path, data, if_absent=False)
        return self._made(path, len(data), await self._client.send(request))

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another object is there.
            CommitOutcomeUnknownError: it may have been created, and the store cannot be asked.
        """
        request = await self._put_request(path, data, if_absent=True)
        outcome = await self._client.try_send(request)
        if isinstance(outcome, Answer):
            return replace(self._made(path, len(data), outcome), repeated=outcome.repeated)
        error = self._client.error(request, outcome)
        if outcome.kind is Kind.UNSUPPORTED:
            raise StorageError(f"{error}{self._without_conditions}") from error
        if not outcome.maybe_applied:
            raise error
        # In doubt: what is there now decides.
        try:
            found = await self._client.try_send(self._get(path))
        except (OutOfMemoryError, StorageError) as lack:
            raise self._in_doubt(path, error, str(lack)) from error
        if isinstance(found, Answer):
            if found.body == data:
                meta = self._meta(path, len(data), found.headers)
                return replace(meta, repeated=True)
            if self._tag(found.headers) is None:
                raise self._in_doubt(path, error, "what comes is no object") from error
            raise ObjectExistsError(f"there is another object {self._uri}/{path}") from error
        raise self._in_doubt(path, error, found.reason) from error

    def _in_doubt(self, path: str, error: StorageError, why: str) -> CommitOutcomeUnknownError:
        return CommitOutcomeUnknownError(
            f"{self._uri}/{path} may or may not have been created: {error}; reading it back"
            f" failed too ({why}). Look whether it is there before trying again"
        )

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object, as many a request as the store takes.

        What is still to come of puts that were cancelled is deleted too, when it has come.
        """
        keys = [self._root + check_path(path) for path in paths]
        late = await self._client.abandoned.over(keys)
        if late:
            self._client.abandoned.delete_after(late, partial(self._delete, late))
        await self._delete(keys)

    async def _delete(self, keys: Sequence[str]) -> None:
        """Delete the objects of these keys, where they are there."""
        together: list[str] = []
        alone: list[str] = []
        for key in keys:
            (together if self._goes_together(key) else alone).append(key)
        most = self._most_deletes
        await map_concurrent(
            self._delete_many,
            [together[at : at + most] for at in range(0, len(together), most)],
            limit=self.concurrency,
        )
        await map_concurrent(self._delete_one, alone, limit=self.concurrency)

    # ------------------------------------------------------------------------------------- list

    async def list_unordered(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, as the store gives them."""
        async with aclosing(self._pages(prefix, start_after, recursive=recursive)) as pages:
            async for page in pages:
                if page.objects:
                    yield page.objects

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order.

        Of a store that lists in no order all are held before the first page is given.
        """
        held: list[ObjectMeta] = []
        pages = self.list_unordered(prefix, start_after=start_after, recursive=recursive)
        async with aclosing(pages):
            async for page in pages:
                if self._in_order:
                    yield page
                else:
                    held += page
        if held:
            held = await in_thread(sorted, held, key=_utf8)
        for at in range(0, len(held), _SORTED):
            yield held[at : at + _SORTED]

    async def list_folder(
        self, prefix: str = "", *, start_after: str | None = None
    ) -> AsyncGenerator[FolderPage, None]:
        """Pages of what lies directly below `prefix`."""
        named: set[str] = set()
        async with aclosing(self._pages(prefix, start_after, recursive=False)) as pages:
            async for page in pages:
                folders = page.folders
                if not self._in_order:  # a folder may be named again
                    folders = [folder for folder in folders if folder not in named]
                    named.update(folders)
                yield FolderPage(page.objects, folders)

    def _pages(
        self, prefix: str, start_after: str | None, *, recursive: bool
    ) -> AsyncGenerator[Page, None]:
        """Pages that are not empty. Raises: StorageError."""
        check_prefix(prefix)
        if self.lists_prefixes:
            return self._listed(prefix, start_after, recursive=recursive)
        return self._listed_in_folder(prefix, start_after or "", recursive=recursive)

    async def _listed_in_folder(
        self, prefix: str, start_after: str, *, recursive: bool
    ) -> AsyncGenerator[Page, None]:
        """What is asked for, out of a listing of the folder that it is in."""
        folder = prefix[: prefix.rfind("/") + 1]
        async with aclosing(self._listed(folder, None, recursive=recursive)) as pages:
            async for page in pages:
                objects = [
                    meta
                    for meta in page.objects
                    if meta.path > start_after and meta.path.startswith(prefix)
                ]
                folders = [folder for folder in page.folders if folder.startswith(prefix)]
                if objects or folders:
                    yield Page(objects, None, folders)

    async def _listed(
        self, prefix: str, start_after: str | None, *, recursive: bool
    ) -> AsyncGenerator[Page, None]:
        what = f"the listing of {self._uri}/{prefix}"
        token: str | None = None
        progress = ListingProgress()
        while True:
            page = await self._page(prefix, start_after, token, recursive)
            if not progress.goes_on(page, in_order=self._in_order):
                raise StorageError(
                    f"{what} does not go on: the store answers with what it has listed before, or "
                    "with no object time and again. Find out what is wrong with the store"
                )
            token = page.token
            if page.objects or page.folders:
                yield page
            if token is None:
                return

    async def aclose(self) -> None:
        """Give back the connections, unless they are another store's."""
        if not self._borrows:
            await self._client.aclose()


def _utf8(meta: ObjectMeta) -> bytes:
    return meta.path.encode()


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data
