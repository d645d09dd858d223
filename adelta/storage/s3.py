"""Objects in a bucket of S3 or of a server that speaks its API.

Relies on what S3 promises since 2024: conditional writes (``If-None-Match: *``), strong
consistency, and listings in the order of the keys' UTF-8 bytes. Of a store that has no conditional
writes, which the option ``aws_conditional_put=disabled`` says, `put_if_absent` is refused.

A conditional put can end in doubt: its answer is lost, or is an error from inside the store. Then
the put is made again; if that finds an object, the object is read back and compared. The same
bytes are this put's own, provided that no two writers put the same bytes, which is for the caller
to see to.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import map_concurrent
from adelta._memory import memory_limit_of
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    ObjectExistsError,
    OutOfMemoryError,
    StorageError,
)
from adelta.storage.coalesce import GAP, LARGEST_FETCH, plan_fetches
from adelta.storage.forwarding_store import innermost
from adelta.storage.long_body import memory_for
from adelta.storage.object_path import check_path, check_prefix, check_range
from adelta.storage.object_store import ObjectMeta, ObjectStore, SuffixRead
from adelta.storage.pin import Pin, current_pin, pinned
from adelta.storage.s3_checksums import MODE, checksums_of
from adelta.storage.s3_client import Into, S3Client, S3Request, http_time_ms
from adelta.storage.s3_errors import Answer, Failure, Kind
from adelta.storage.s3_multipart import CannotCopyError, copy, upload
from adelta.storage.s3_options import S3Options, parse_options
from adelta.storage.s3_xml import (
    LONGEST_DOCUMENT,
    delete_document,
    delete_errors,
    fits_xml,
    list_page,
)
from adelta.storage.sigv4 import encode_query

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

__all__ = ["S3Store"]

_log = logging.getLogger("adelta.storage")

_LARGEST_PUT = 64 << 20
_DELETES_A_REQUEST = 1000
_WEAK = "W/"  # such a tag matches none that is asked for
_LONGEST_SIZE = 18  # digits
_EMPTY_PAGES = 10_000  # of a listing, one after the other: far more than a store has to pass over
_MUCH_MEMORY = 4 << 20  # bytes that take a while to be had


class S3Store(ObjectStore):
    """An `ObjectStore` over the keys of `bucket` below `root`."""

    def __init__(self, bucket: str, root: str, options: S3Options, *, scheme: str = "s3") -> None:
        root = root.strip("/")
        self._bucket = bucket
        self._root = f"{check_path(root)}/" if root else ""
        self._uri = f"{scheme}://{bucket}/{root}".rstrip("/")
        self._options = options
        self._client = S3Client(bucket, options)
        self._deletes_many = self._copies = True
        self._read_headers = options.read_headers
        self._put_headers = {**options.read_headers, **options.write_headers}

    @classmethod
    def from_options(
        cls, bucket: str, root: str, storage_options: Mapping[str, str], *, scheme: str = "s3"
    ) -> S3Store:
        """A store by delta-rs's option keys. Raises: InvalidOptionError."""
        return cls(bucket, root, parse_options(storage_options), scheme=scheme)

    def __repr__(self) -> str:
        return f"S3Store({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root's address."""
        return self._uri

    @property
    def concurrency(self) -> int:
        """How many requests are under way at most."""
        return self._client.concurrency

    @property
    def request_count(self) -> int:
        """HTTP requests sent so far, with those that were tried again."""
        return self._client.request_count

    def observe_requests(self, observer: Callable[[str, str, str], None] | None) -> None:
        """Call `observer` with method, key and query of every HTTP request from now on."""
        self._client.on_request = observer

    # ------------------------------------------------------------------------------------- read

    def _get(
        self,
        path: str,
        span: str | None = None,
        most: int | None = None,
        into: Into | None = None,
        pin: Pin | None = None,
    ) -> S3Request:
        headers: Mapping[str, str] = self._read_headers
        if span is not None:
            headers = {**headers, "range": f"bytes={span}"}
        key = self._root + check_path(path)
        etag = None if pin is None else pin.etag(self._address(key))
        if etag is not None and not etag.startswith(_WEAK):
            headers = {**headers, "if-match": etag}
        verify = self._options.response_checksums
        return S3Request(
            "GET",
            key,
            headers=headers,
            into=into,
            most=most,
            optional=MODE if verify and span is None else {},
            verify=verify,
            memory=memory_limit_of(self) if span is None else None,
        )

    async def _put(self, path: str, data: bytes, headers: Mapping[str, str]) -> S3Request:
        key = self._root + check_path(path)
        sums = await checksums_of(data) if self._options.request_checksums else {}
        return S3Request("PUT", key, headers=headers, body=data, optional=sums)

    async def now_ms(self) -> int | None:
        """The time by the server's clock, as its last answer told it."""
        return self._client.now_ms()

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        return (await self._client.send(self._get(path))).body

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object, and what its headers say of it. Raises: ObjectNotFoundError."""
        answer = await self._client.send(self._get(path))
        return answer.body, _meta(path, len(answer.body), answer.headers)

    def _address(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    async def _try_get(self, request: S3Request, pin: Pin | None) -> Answer | Failure:
        """The answer, if it is of the version that `pin` holds to, or a failure of another kind."""
        outcome = await self._client.try_send(request)
        if pin is not None:
            address = self._address(request.key)
            if isinstance(outcome, Answer):
                pin.saw(address, outcome.headers.get("etag"))
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
        request = self._get(path, f"-{length}", length, pin=pin)
        outcome = await self._try_get(request, pin)
        if isinstance(outcome, Answer):
            if outcome.status != 206:  # the store looked past the range
                return SuffixRead(outcome.body[-length:], len(outcome.body))
            return SuffixRead(outcome.body, _size_of_whole(request, outcome.headers))
        if outcome.kind is not Kind.OUT_OF_RANGE and outcome.kind is not Kind.UNSUPPORTED:
            raise self._client.error(request, outcome)
        if outcome.headers.get("content-range", "").endswith("*/0"):
            return SuffixRead(b"", 0)
        meta = await self.head(path)  # an empty object, or a store without suffix ranges
        pin.saw(self._address(request.key), meta.etag)
        start = max(0, meta.size - length)
        with pinned(pin):
            return SuffixRead(await self.get_range(path, start, meta.size), meta.size)

    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""
        key = self._root + check_path(path)
        answer = await self._client.send(S3Request("HEAD", key, headers=self._read_headers))
        return _meta(path, _size(key, answer.headers.get("content-length", "")), answer.headers)

    # ------------------------------------------------------------------------------------ write

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        """Create or replace the object."""
        if len(data) > _LARGEST_PUT:
            return await self.put_stream(path, _one(data))
        request = await self._put(path, data, self._put_headers)
        return self._made(path, len(data), (await self._client.send(request)).headers)

    def _made(self, path: str, size: int, headers: Mapping[str, str]) -> ObjectMeta:
        """What is known of an object that was put: it is there, whatever the answer leaves out."""
        try:
            moment = http_time_ms(headers.get("last-modified") or headers.get("date", ""))
        except ValueError:  # by RFC 9110, 6.6.1, the time of an answer without one is that of now
            moment = self._client.now_ms() or SYSTEM_CLOCK.now_ms()
        return ObjectMeta(path, size, moment, headers.get("etag"))

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another object is there.
            CommitOutcomeUnknownError: it may have been created, and the store cannot be asked.
            InvalidOptionError: by the options, the store has no conditional puts.
        """
        if not self._options.conditional_put:
            raise InvalidOptionError(f"{self._uri}: aws_conditional_put=disabled rules this out")
        request = await self._put(path, data, {**self._put_headers, "if-none-match": "*"})
        outcome = await self._client.try_send(request)
        if isinstance(outcome, Answer):
            return replace(self._made(path, len(data), outcome.headers), repeated=outcome.repeated)
        error = self._client.error(request, outcome)
        if outcome.kind is Kind.UNSUPPORTED:
            raise StorageError(
                f"{error}; if the store has no conditional puts, set aws_conditional_put=disabled"
            ) from error
        if not outcome.maybe_applied:
            raise error
        # In doubt: what is there now decides.
        try:
            found = await self._client.try_send(self._get(path))
        except OutOfMemoryError as lack:
            raise self._in_doubt(path, error, str(lack)) from error
        if isinstance(found, Answer):
            if found.body == data:
                return replace(self._made(path, len(data), found.headers), repeated=True)
            raise ObjectExistsError(f"there is another object {self._uri}/{path}") from error
        raise self._in_doubt(path, error, found.reason) from error

    def _in_doubt(self, path: str, error: StorageError, why: str) -> CommitOutcomeUnknownError:
        return CommitOutcomeUnknownError(
            f"{self._uri}/{path} may or may not have been created: {error}; reading it back"
            f" failed too ({why}). Look whether it is there before trying again"
        )

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        """Create or replace an object of any size, by a multi-part upload if it is large."""
        size, headers = await upload(
            self._client,
            self._root + check_path(path),
            chunks,
            write_headers=self._options.write_headers,
            part_headers=self._read_headers,
            checksums=self._options.request_checksums,
        )
        return self._made(path, size, headers)

    async def copy_from(self, path: str, source: ObjectStore, there: str) -> ObjectMeta | None:
        """Have S3 copy an object of a store with the same options; None where it does not.

        Raises:
            ObjectNotFoundError: there is no such object in `source`.
            StorageError: the store failed.
        """
        theirs = innermost(source)
        if not isinstance(theirs, S3Store) or theirs._options != self._options or not self._copies:
            return None
        found = await theirs.head(there)
        try:
            headers = await copy(
                self._client,
                self._root + check_path(path),
                f"{theirs._bucket}/{theirs._root}{there}",
                found.size,
                found.etag,
                write_headers=self._options.write_headers,
                part_headers=self._read_headers,
            )
        except CannotCopyError as error:
            what = there if error.others else "objects"
            _log.info("%s: %s comes by way of this machine: %s", self._uri, what, error)
            self._copies = error.others
            return None
        return self._made(path, found.size, headers)

    async def delete(self, paths: Iterable[str]) -> None:
        """Delete every object, up to a thousand a request.

        What is still to come of puts that were cancelled is deleted too, when it has come.
        """
        keys = [self._root + check_path(path) for path in paths]
        late = await self._client.abandoned.over(keys)
        if late:
            self._client.abandoned.delete_after(late, partial(self._delete, late))
        await self._delete(keys)

    async def _delete(self, keys: Sequence[str]) -> None:
        plain = [key for key in keys if fits_xml(key)]
        await map_concurrent(
            self._delete_many,
            [
                plain[at : at + _DELETES_A_REQUEST]
                for at in range(0, len(plain), _DELETES_A_REQUEST)
            ],
            limit=self.concurrency,
        )
        odd = [key for key in keys if not fits_xml(key)]
        await map_concurrent(self._delete_one, odd, limit=self.concurrency)

    async def _delete_many(self, keys: Sequence[str]) -> None:
        if len(keys) > 1 and self._deletes_many:
            body = delete_document(keys)
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            headers = {"content-md5": base64.b64encode(digest).decode()}
            query = encode_query({"delete": ""})
            request = S3Request("POST", "", query, headers, body, most=LONGEST_DOCUMENT)
            outcome = await self._client.try_send(request)
            if isinstance(outcome, Answer):
                keys = list(delete_errors(outcome.body, what=f"deletes in {self._uri}"))
            elif outcome.kind is Kind.UNSUPPORTED:
                self._deletes_many = False
            else:
                raise self._client.error(request, outcome)
        await map_concurrent(self._delete_one, keys, limit=self.concurrency)

    async def _delete_one(self, key: str) -> None:
        request = S3Request("DELETE", key)
        outcome = await self._client.try_send(request)
        if not isinstance(outcome, Answer) and outcome.code != "NoSuchKey":
            raise self._client.error(request, outcome)

    # ------------------------------------------------------------------------------------- list

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        asked = {
            "list-type": "2",
            "encoding-type": "url",
            "prefix": self._root + check_prefix(prefix),
        }
        if not recursive:
            asked["delimiter"] = "/"
        first = dict(asked)
        if start_after:
            first["start-after"] = self._root + start_after
        query: dict[str, str] | None = first
        what = f"the listing of {self._uri}/{prefix}"
        after, empty = "", 0
        while query is not None:
            request = S3Request("GET", "", encode_query(query), most=LONGEST_DOCUMENT)
            answer = await self._client.send(request)
            page = list_page(answer.body, what=what, root=self._root, prefix=prefix)
            token, before = page.token, query.get("continuation-token")
            query = None if token is None else {**asked, "continuation-token": token}
            last = page.objects[-1].path if page.objects else after
            empty = 0 if page.objects else empty + 1
            again = (token is not None and token == before) or last < after
            if again or (last == after and page.objects) or empty > _EMPTY_PAGES:
                raise StorageError(
                    f"{what} does not go on: the store answers with what it has listed before, or "
                    "with no object time and again. Find out what is wrong with the store"
                )
            after = last
            if page.objects:
                yield page.objects

    async def aclose(self) -> None:
        """Give back the connections. Calling it again does nothing."""
        await self._client.aclose()


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _meta(path: str, size: int, headers: Mapping[str, str]) -> ObjectMeta:
    """What the headers of an answer that was read say."""
    moment = headers.get("last-modified") or headers.get("date", "")
    return ObjectMeta(path, size, _milliseconds(moment), headers.get("etag"))


def _milliseconds(moment: str) -> int:
    try:
        return http_time_ms(moment)
    except ValueError as error:
        raise StorageError(
            f"the store gave {moment!r} as the time of an object, which is no date of HTTP; check"
            " that the endpoint speaks S3, and that no proxy changes its answers"
        ) from error


def _size_of_whole(request: S3Request, headers: Mapping[str, str]) -> int:
    return _size(request.key, headers.get("content-range", "").rpartition("/")[2])


def _size(key: str, stated: str) -> int:
    if not stated.isdecimal() or len(stated) > _LONGEST_SIZE:
        raise StorageError(
            f"the store did not say the size of {key!r}; check that the endpoint speaks S3, and"
            " that no proxy changes its answers"
        )
    return int(stated)
