"""Requests to one bucket or container: sent through the pool, and tried again where that may help.

What is particular to a store, such as where requests go and how they are signed, is a subclass of
`ObjectClient`. The hot path is this: the budget is entered, the headers are signed, aiohttp sends
them, the body is read to its stated end. Everything else happens only after a failure.
"""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from dataclasses import field, replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import aiohttp
from yarl import URL

from adelta._clock import monotonic
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta._memory import check_memory
from adelta.storage.abandoned_writes import AbandonedWrites
from adelta.storage.body_checks import object_fault, range_fault
from adelta.storage.http import HttpPool, proxy_for, unknown_host
from adelta.storage.http_time import http_time_ms
from adelta.storage.long_body import hold_to_rate, place_body, receive_body, unclaim, waiting_body
from adelta.storage.object_answers import Answer, Failure, Kind, connection_failure, outcome_of
from adelta.storage.request_log import logged
from adelta.storage.request_runner import run_request
from adelta.storage.retry import Outcome
from adelta.storage.stats import RequestCounter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.errors import StorageError
    from adelta.storage.body_checks import Fault
    from adelta.storage.http import HttpOptions
    from adelta.storage.retry import RetryPolicy
    from adelta.storage.stats import RequestKind

__all__ = [
    "LARGE",
    "LONGEST_ERROR",
    "ExchangeError",
    "Into",
    "ObjectClient",
    "ObjectRequest",
    "Sending",
    "Signed",
    "Target",
    "receive",
    "sent_body",
]

_CANNOT_BE_SENT = (
    "a storage option makes a header or an address that cannot be sent: look for line ends and "
    "other odd characters in keys, tokens, region and user agent"
)
_MAKES_NOTHING = (
    "the answer tells of no object that was made: it is not the store's, but perhaps a proxy's"
)
LARGE = 1 << 20
"""Bytes from which on a body is handled in a thread."""
LONGEST_ERROR = 4096
"""Bytes that are kept of what most stores say of an error."""
_READS = ("GET", "HEAD")
_WRITES = ("PUT", "POST")


Into: TypeAlias = "Callable[[], Awaitable[memoryview]]"
"""Memory for an answer, which may still be on its way."""


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """One request to the bucket. `key` is not encoded yet, `query` is; header names are lower.

    It goes to the object of that key, or to `path` where that is given, which is encoded. `headers`
    are those beside the ones that the options want in every request.

    The bytes that come of a range are put at the beginning of the memory that `into` is called for
    once they come. `most` is how many bytes the answer may have, unless the store looks past the
    range that was asked for; `memory` is how many bytes a whole object may have. Headers that are
    `optional` are those of checksums: a store that refuses them gets the request again without, and
    later ones too. With `verify` the body of an object is held to what the store says of it. Where
    the query asks for a part of an object, `partial`, an answer that has it says so as one of a
    range does. The answer to one that `makes` an object tells of it, or else it is not the store's.
    It counts as a `kind` where its method does not tell which.
    """

    method: str
    key: str = ""
    # Queries, headers and bodies may hold tokens and encryption keys: no repr shows them.
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    into: Into | None = None
    most: int | None = None
    memory: int | None = None
    optional: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool = False
    path: str | None = None
    partial: bool = False
    makes: bool = False
    kind: RequestKind | None = None


class ExchangeError(Exception):
    """An exchange has failed, though an answer may have come: `failure` says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure

    @classmethod
    def refused(cls, reason: str) -> ExchangeError:
        """An answer that is not taken, and would not be at another time."""
        return cls(Failure(Kind.REFUSED, "", reason, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go now: scheme and host, and the proxy before them, if any."""

    origin: str
    proxy: str | None = field(repr=False)  # which may hold a password
    ca_bundle: str | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    """A request as it is sent: path and query, encoded, and all headers."""

    path: str
    query: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


T = TypeVar("T", bound=Target)


class ObjectClient(ABC, Generic[T]):
    """Sends requests to one bucket.

    Attributes:
        name: the bucket's address, for texts.
        retry: how often and for how long a request is tried.
        counter: counts requests, every attempt counted, bytes and retries.
        abandoned: requests that write an object, and whose callers were cancelled.
        on_request: called with the method, the key and the query of every attempt.
    """

    service: str
    """What the store is called in errors."""
    named_by: str
    """In words, what says to which host requests go."""
    longest_error = LONGEST_ERROR
    """Bytes that are kept of what the store says of an error."""

    def __init__(self, name: str, http: HttpOptions, retry: RetryPolicy, concurrency: int) -> None:
        self.name = name
        self.retry = retry
        self._http = http
        self._pool = HttpPool(http, concurrency)
        self._server_time: tuple[str, float] | None = None  # a time, and when it was told
        self.abandoned = AbandonedWrites()
        self.counter = RequestCounter()
        self.on_request: Callable[[str, str, str], None] | None = None

    @property
    def concurrency(self) -> int:
        """How many requests are under way at most."""
        return self._pool.concurrency

    def now_ms(self) -> int | None:
        """The time by the server's clock, from its last answer on; None where that told none."""
        if self._server_time is None:
            return None
        date, told_at = self._server_time
        try:
            return http_time_ms(date) + round((monotonic() - told_at) * 1000)
        except ValueError:
            return None

    # ------------------------------------------------------------- what is particular to a store

    @abstractmethod
    async def aim(self) -> T:
        """Where a request goes now. Raises: PermissionDeniedError."""

    @abstractmethod
    async def renew(self, used: T) -> bool:
        """Whether there are newer credentials than those of `used`, which the store calls expired.

        Raises:
            PermissionDeniedError: they cannot be renewed.
        """

    @abstractmethod
    def signed(self, target: T, request: ObjectRequest, payload: str) -> Signed:
        """The request as it is sent to `target`; `payload` is the digest that it was given."""

    @abstractmethod
    def failure_of(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer that is no success means."""

    @abstractmethod
    def credentials_source(self) -> str:
        """In words, where the credentials come from that were used last."""

    def object_fault(self, request: ObjectRequest, answer: Answer) -> Fault | None:
        """What is wrong with an answer about an object, by its headers."""
        return object_fault(answer)

    async def body_fault(self, request: ObjectRequest, answer: Answer) -> Fault | None:
        """What is wrong with the body of a request that is to be verified."""
        return None

    def tells_of_object(self, answer: Answer) -> bool:
        """Whether an answer to what makes an object tells of the object."""
        return "etag" in answer.headers

    def goes_on(self, request: ObjectRequest) -> bool:
        """Whether the request goes on to its end where its caller is cancelled."""
        return bool(request.key) and request.method in _WRITES

    def failed(self, request: ObjectRequest, failure: Failure, target: T | None) -> Outcome:
        """What may help after a failure of a request to `target`."""
        return outcome_of(failure)

    def succeeded(self, request: ObjectRequest, answer: Answer) -> bool:
        """Whether the answer is one of success."""
        return 200 <= answer.status < 300

    async def sending(self, request: ObjectRequest) -> Sending[T]:
        """The request on its way."""
        return Sending(self, request)

    def move(self, region: str) -> None:
        """Follow the bucket to the region that an outcome of `failed` has named."""

    # -------------------------------------------------------------------------------- requests

    async def send(self, request: ObjectRequest) -> Answer:
        """The answer to the request. Raises: StorageError."""
        outcome = await self.try_send(request)
        if isinstance(outcome, Answer):
            return outcome
        raise self.error(request, outcome)

    async def try_send(self, request: ObjectRequest) -> Answer | Failure:
        """The answer, or the failure that is left when trying again no longer helps."""
        sending = await self.sending(request)
        ended = await run_request(
            sending.attempt,
            self.retry,
            name=f"{request.method} {self.name}/{request.key}",
            renew=sending.renew,
            move=self.move,
            counter=self.counter,
        )
        result = ended.result
        if isinstance(result, Failure):
            reason = result.reason
            if ended.stopped is not None:
                reason += f", and it could not be tried again: {ended.stopped}"
            return replace(result, reason=reason, repeated=ended.repeated, attempts=ended.attempts)
        return replace(result, repeated=True) if ended.repeated else result

    def error(self, request: ObjectRequest, failure: Failure) -> StorageError:
        """The error that `failure` of `request` is raised as."""
        what = f"{self.service} {request.method} {self.name}/{request.key}"
        return failure.error(what, credentials=self.credentials_source())

    async def aclose(self) -> None:
        """Close the connections, when requests that were given up are over."""
        try:
            await self.abandoned.aclose()
        finally:
            await self._pool.aclose()

    async def attempt(self, target: T, request: ObjectRequest, payload: str) -> Answer | Failure:
        """The answer to one request, or why there is none."""
        pool = await self._pool.open(target.origin, target.ca_bundle)
        async with pool.slots:
            self.counter.asked(_kind_of(request), written=len(request.body))
            if self.on_request is not None:
                self.on_request(request.method, request.key, request.query)
            signed = self.signed(target, request, payload)
            address = f"{target.origin}{signed.path}"
            if signed.query:
                address += f"?{signed.query}"
            url = URL(address, encoded=True)
            exchange = self._exchange(target, request, url, signed.headers)
            if self.goes_on(request):
                exchange = self.abandoned.run(request.key, exchange)
            try:
                answer = await exchange
            except aiohttp.ClientConnectorCertificateError as error:
                return Failure(Kind.REFUSED, "", f"the certificate is not trusted: {error}", {})
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                if (host := unknown_host(error)) is not None and self._server_time is None:
                    return self.unknown(host, target)
                return connection_failure(error, sent=False)
            except aiohttp.InvalidURL as error:
                return Failure(Kind.REFUSED, "", f"the address is not valid: {error}", {})
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                return connection_failure(error, sent=True)
            except ExchangeError as error:
                return error.failure
            except ValueError:  # of aiohttp, whose text may hold a header's secret
                return Failure(Kind.REFUSED, "", _CANNOT_BE_SENT, {})
        self.counter.received(len(answer.body) + (answer.placed or 0))
        if date := answer.headers.get("date"):
            self._server_time = date, monotonic()
        if self.succeeded(request, answer):
            return answer
        return self.failure_of(answer.status, answer.headers, answer.body)

    async def _exchange(
        self, target: T, request: ObjectRequest, url: URL, headers: Mapping[str, str]
    ) -> Answer:
        session = self._pool.bind().session  # which may be another one than when it queued
        with logged(request.method, url) as exchange:
            response = await session.request(
                request.method,
                url,
                headers=headers,
                data=sent_body(request.body),
                allow_redirects=False,
                proxy=target.proxy,
            )
            exchange.status = response.status
            return await receive(request, response, self.longest_error)

    def unknown(self, host: str, target: T) -> Failure:
        """What it means that no host has that name, of a store that has never answered."""
        is_proxy = target.proxy is not None and URL(target.proxy).host == host
        named = "proxy_url, or the variable that names the proxy" if is_proxy else self.named_by
        return Failure(Kind.REFUSED, "", f"there is no host {host!r}", {}, advice=f"check {named}")

    def proxy_before(self, origin: str) -> str | None:
        """The proxy through which requests go to `origin`. Raises: InvalidOptionError."""
        return proxy_for(origin, self._http)


class Sending(Generic[T]):
    """One request on its way: what its attempts have shown, by which the next one goes."""

    def __init__(self, client: ObjectClient[T], request: ObjectRequest, payload: str = "") -> None:
        self.client = client
        self.request = request
        self.payload = payload
        self.target: T | None = None
        self._doubted: list[str] = []  # digests of bodies that came before

    async def attempt(self) -> tuple[Outcome | None, Answer | Failure]:
        """Make the request, by what is known of the store now."""
        target = self.target = await self.client.aim()
        result = await self.client.attempt(target, self.request, self.payload)
        return await self.judged(result)

    async def renew(self) -> bool:
        """Whether there are newer credentials than those of the last attempt."""
        return self.target is not None and await self.client.renew(self.target)

    async def judged(self, result: Answer | Failure) -> tuple[Outcome | None, Answer | Failure]:
        """What may help after an attempt, and its result, if its body is what was asked for.

        Bytes that come twice are those that are stored.
        """
        if isinstance(result, Failure):
            return self._failed(result)
        request, fault = self.request, None
        if request.makes and not self.client.tells_of_object(result):
            return self._failed(Failure(Kind.LOST, "", _MAKES_NOTHING, result.headers))
        if request.key and request.method in _READS:
            fault = self.client.object_fault(request, result)
        if fault is None and (asked := request.headers.get("range")):
            fault = range_fault(asked, result)
        if fault is None and request.verify:
            fault = await self.client.body_fault(request, result)
        if fault is None:
            return None, result
        digest = await in_thread(_sha256, result.body)
        again = digest in self._doubted
        if again and not fault.certain:
            return None, result
        if again:
            reason = f"{fault.reason}: it is damaged"
            return self._failed(Failure(Kind.REFUSED, "", reason, result.headers))
        self._doubted.append(digest)
        if len(self._doubted) == 1 and not fault.certain:
            return Outcome("its bytes differ from the store's checksum", otherwise=True), result
        return self._failed(Failure(Kind.DAMAGED, "", fault.reason, result.headers))

    def _failed(self, failure: Failure) -> tuple[Outcome, Failure]:
        return self.client.failed(self.request, failure, self.target), failure


async def receive(
    request: ObjectRequest, response: aiohttp.ClientResponse, longest_error: int
) -> Answer:
    """The answer with its body, of an error as many bytes as are kept.

    Raises:
        ExchangeError: it has more bytes than it may have.
    """
    status = response.status
    if request.method in _READS:
        # S3 sends blanks for minutes while it completes an upload or a copy.
        hold_to_rate(response)
    try:
        if status >= 300 and request.method != "HEAD":
            return Answer(status, response.headers, await _beginning(response, longest_error))
        length = waiting_body(response)
        is_partial = status == 206 or request.partial
        status = 206 if is_partial else status
        most = request.most if is_partial or "range" not in request.headers else None
        _check_length(request, response.content_length or 0, most)
        into = await request.into() if request.into and is_partial else None
        if length is None:
            body = await _read(response, request, most)
        elif into is not None:
            await place_body(response, into[:length])
            return Answer(status, response.headers, b"", placed=length)
        else:
            pieces = await receive_body(response, length)
            join = b"".join
            body = await in_thread(join, pieces) if length > LARGE else join(pieces)
    except BaseException:
        response.close()
        raise
    if into is None:
        return Answer(status, response.headers, body)
    into[: len(body)] = body
    return Answer(status, response.headers, b"", placed=len(body))


def _check_length(request: ObjectRequest, length: int, most: int | None) -> None:
    if request.memory is not None:
        check_memory(length, request.memory, f"the object {request.key!r}")
    if most is not None and length > most:
        reason = f"the answer has {length:,} bytes, of {most:,} that it may have"
        raise ExchangeError(Failure(Kind.DAMAGED, "", reason, {}))  # or its head errs


async def _read(
    response: aiohttp.ClientResponse, request: ObjectRequest, most: int | None
) -> bytes:
    """The body aiohttp's way: a short one, or one whose length nobody told."""
    if response.content_length is not None:
        return await response.read()
    is_object = response.method == "GET" and response.status < 300
    if is_object and "transfer-encoding" not in response.headers:
        raise aiohttp.ClientPayloadError("the answer does not say how long its body is")
    chunks, received = [], 0
    async for chunk in response.content.iter_any():
        received += len(chunk)
        _check_length(request, received, most)
        chunks.append(chunk)
    return await in_thread(b"".join, chunks)


async def _beginning(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """The first bytes of what is said of an error; of a longer body the connection is given up."""
    unclaim(response)
    body = bytearray()
    while len(body) < longest and not response.content.at_eof():
        body += await response.content.read(longest - len(body))
    if not response.content.at_eof():
        response.close()
    return bytes(body)


def sent_body(body: bytes) -> bytes | io.BytesIO | None:
    """What aiohttp sends without holding up the loop; it copies nothing."""
    return io.BytesIO(body) if len(body) > LARGE else body or None


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _kind_of(request: ObjectRequest) -> RequestKind:
    """What a request does, as `StoreStats` tells of it."""
    if request.kind is not None:
        return request.kind
    if request.method == "GET":
        return "get" if request.key else "list"
    if request.method == "HEAD":
        return "head"
    if request.method == "DELETE" or request.query.startswith("delete"):
        return "delete"
    named = request.headers.keys() & {"x-amz-copy-source", "x-ms-copy-source"}
    return "copy" if named or "/rewriteTo/" in (request.path or "") else "put"
