"""Requests to one S3 bucket: signed, sent through the pool, and tried again where that may help.

The hot path is this: the budget is entered, the headers are signed, aiohttp sends them, the body
is read to its stated end. Everything else happens only after a failure.
"""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
from yarl import URL

from adelta._clock import SYSTEM_CLOCK, monotonic
from adelta._concurrency import in_thread
from adelta._memory import check_memory
from adelta.errors import InvalidOptionError
from adelta.storage.abandoned_writes import AbandonedWrites
from adelta.storage.bucket_names import check_bucket, fits_certificates
from adelta.storage.credentials import Access, AccessProvider
from adelta.storage.http import HttpPool, proxy_for
from adelta.storage.long_body import place_body, receive_body, unclaim, waiting_body
from adelta.storage.request_log import logged
from adelta.storage.request_runner import run_request
from adelta.storage.retry import Outcome
from adelta.storage.s3_checksums import body_fault, range_fault, refuses_checksums
from adelta.storage.s3_errors import (
    Answer,
    Failure,
    Kind,
    connection_failure,
    failure_of,
    is_error,
    is_region,
    outcome_of,
)
from adelta.storage.sigv4 import EMPTY_SHA256, UNSIGNED, Signer, encode_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.errors import StorageError
    from adelta.storage.s3_checksums import Fault
    from adelta.storage.s3_options import S3Options

__all__ = ["LONGEST_ERROR", "Into", "S3Client", "S3Request", "http_time_ms"]

_CANNOT_BE_SENT = (
    "a storage option makes a header or an address that cannot be sent: look for line ends and "
    "other odd characters in keys, tokens, region and user agent"
)
_LARGE = 1 << 20
LONGEST_ERROR = 4096
"""Bytes that are kept of what a store says of an error."""
_HASHED_INLINE = 128 << 10  # bytes that take less than a hop to a thread
_WRITES = ("PUT", "POST")


Into: TypeAlias = "Callable[[], Awaitable[memoryview]]"
"""Memory for an answer, which may still be on its way."""


@dataclass(frozen=True, slots=True)
class S3Request:
    """One request to the bucket. `key` is not encoded yet, `query` is; header names are lower.

    `headers` are those beside the ones that the options want in every request.

    The bytes that come of a range are put at the beginning of the memory that `into` is called for
    once they come. `most` is how many bytes the answer may have, unless the store looks past the
    range that was asked for; `memory` is how many bytes a whole object may have. Headers that are
    `optional` are those of checksums: a store that refuses them gets the request again without, and
    later ones too. With `verify` the body of an object is held to what the store says of it.
    """

    method: str
    key: str = ""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    into: Into | None = None
    most: int | None = None
    memory: int | None = None
    optional: Mapping[str, str] = field(default_factory=dict)
    verify: bool = False


class _TooLongError(Exception):
    """The store sends more than was asked for."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where requests go: made of an access, and good as long as that is the current one."""

    access: Access
    region: str
    origin: str
    prefix: str
    signer: Signer | None
    proxy: str | None = field(repr=False)  # which may hold a password


class S3Client:
    """Sends requests to one bucket.

    Attributes:
        request_count: requests sent so far, every attempt counted.
        abandoned: requests that write an object, and whose callers were cancelled.
        knows_checksums: whether the store takes checksums, as far as it has been asked.
        tags_are_digests: whether entity tags have been seen to be MD5s.
        on_request: called with the method, the key and the query of every attempt.
    """

    def __init__(self, bucket: str, options: S3Options) -> None:
        """A client of `bucket`.

        Raises:
            InvalidOptionError: no bucket can have that name, by the rules of the store.
        """
        self._bucket = check_bucket(bucket, in_host=bool(options.virtual_hosted))
        self._options = options
        self._provider = AccessProvider(options)
        self._pool = HttpPool(options.http, options.concurrency)
        self.abandoned = AbandonedWrites()
        self._target: _Target | None = None
        self._region: str | None = None
        self._server_time: tuple[str, float] | None = None  # a time, and when it was told
        self.knows_checksums = True
        self.tags_are_digests = False
        self.request_count = 0
        self.on_request: Callable[[str, str, str], None] | None = None

    @property
    def concurrency(self) -> int:
        """How many requests are under way at most."""
        return self._options.concurrency

    def now_ms(self) -> int | None:
        """The time by the server's clock, from its last answer on; None where that told none."""
        if self._server_time is None:
            return None
        date, told_at = self._server_time
        try:
            return http_time_ms(date) + round((monotonic() - told_at) * 1000)
        except ValueError:
            return None

    async def send(self, request: S3Request) -> Answer:
        """The answer to the request. Raises: StorageError."""
        outcome = await self.try_send(request)
        if isinstance(outcome, Answer):
            return outcome
        raise self.error(request, outcome)

    async def try_send(self, request: S3Request) -> Answer | Failure:
        """The answer, or the failure that is left when trying again no longer helps."""
        sending = _Sending(self, request, await self._payload_hash(request.body))
        ended = await run_request(
            sending.attempt,
            self._options.retry,
            name=f"{request.method} s3://{self._bucket}/{request.key}",
            renew=sending.renew,
            move=self._move,
        )
        result = ended.result
        if isinstance(result, Failure):
            return replace(result, repeated=ended.repeated, attempts=ended.attempts)
        return replace(result, repeated=True) if ended.repeated else result

    def error(self, request: S3Request, failure: Failure) -> StorageError:
        """The error that `failure` of `request` is raised as."""
        target = self._target
        keys = target.access.credentials if target is not None else None
        what = f"S3 {request.method} s3://{self._bucket}/{request.key}"
        source = "none, requests are not signed" if keys is None else keys.source
        return failure.error(what, credentials=source)

    async def aclose(self) -> None:
        """Close the connections, when requests that were given up are over."""
        try:
            await self.abandoned.aclose()
        finally:
            await self._pool.aclose()

    # ------------------------------------------------------------------------------ one request

    async def attempt(self, target: _Target, request: S3Request, payload: str) -> Answer | Failure:
        """The answer to one request, or why there is none."""
        path = target.prefix + encode_path(request.key)
        pool = await self._pool.open(target.origin, target.access.ca_bundle)
        async with pool.slots:
            self.request_count += 1
            if self.on_request is not None:
                self.on_request(request.method, request.key, request.query)
            headers = request.headers
            if self._options.request_headers:
                headers = {**self._options.request_headers, **headers}
            if target.signer is not None:
                headers = target.signer.sign(
                    request.method,
                    path,
                    request.query,
                    payload_sha256=payload,
                    now=SYSTEM_CLOCK.now_ms() / 1000,
                    headers=headers,
                )
            address = f"{target.origin}{path}"
            if request.query:
                address += f"?{request.query}"
            exchange = self._exchange(target, request, URL(address, encoded=True), headers)
            if request.key and request.method in _WRITES:
                exchange = self.abandoned.run(request.key, exchange)
            try:
                answer = await exchange
            except aiohttp.ClientConnectorCertificateError as error:
                return Failure(Kind.REFUSED, "", f"the certificate is not trusted: {error}", {})
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                return connection_failure(error, sent=False)
            except aiohttp.InvalidURL as error:
                return Failure(Kind.REFUSED, "", f"the address is not valid: {error}", {})
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                return connection_failure(error, sent=True)
            except _TooLongError as error:
                return Failure(Kind.REFUSED, "", str(error), {})
            except ValueError:  # of aiohttp, whose text may hold a header's secret
                return Failure(Kind.REFUSED, "", _CANNOT_BE_SENT, {})
        if date := answer.headers.get("date"):
            self._server_time = date, monotonic()
        fine = 200 <= answer.status < 300
        if fine and not (_fails_late(request) and is_error(answer.body)):
            return answer
        return failure_of(answer.status, answer.headers, answer.body)

    async def _exchange(
        self, target: _Target, request: S3Request, url: URL, headers: Mapping[str, str]
    ) -> Answer:
        session = self._pool.bind().session  # which may be another one than when it queued
        with logged(request.method, url) as exchange:
            response = await session.request(
                request.method,
                url,
                headers=headers,
                data=_body(request.body),
                allow_redirects=False,
                proxy=target.proxy,
            )
            exchange.status = response.status
            return await _answer(request, response)

    async def _payload_hash(self, body: bytes) -> str:
        if not body:
            return EMPTY_SHA256
        if self._options.unsigned_payload:
            return UNSIGNED
        if len(body) < _LARGE:
            return _sha256(body)
        return await in_thread(_sha256, body)

    # ------------------------------------------------------------------------------- the target

    async def aim(self) -> _Target:
        """Where a request goes now. Raises: PermissionDeniedError."""
        access = self._provider.peek() or await self._provider.current()
        target = self._target
        if target is None or target.access is not access:
            target = self._target = self._aim(access)
        return target

    async def renew(self, used: _Target) -> bool:
        """Whether there are newer credentials than those of `used`, which the store calls expired.

        Raises:
            PermissionDeniedError: they cannot be renewed.
        """
        return await self._provider.after_expiry(used.access) is not None

    def _aim(self, access: Access) -> _Target:
        region = self._region or access.region
        endpoint = access.endpoint
        bucket, virtual = self._bucket, self._options.virtual_hosted
        if endpoint is None:
            if not is_region(region):
                raise InvalidOptionError(
                    f"storage option aws_region is a name such as eu-north-1, not {region!r:.100}"
                )
            suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            endpoint = f"https://s3.{region}.{suffix}"
            if virtual is None:
                virtual = fits_certificates(bucket)
        scheme, _, rest = endpoint.partition("://")
        host, slash, base = rest.partition("/")
        prefix = f"{slash}{base}/"
        if not virtual:
            prefix += f"{encode_path(bucket)}/"
        elif not host.startswith(f"{bucket}."):
            host = f"{bucket}.{host}"
        signer = None
        if access.credentials is not None:
            signer = Signer(access.credentials, host=_host_header(scheme, host), region=region)
        origin = f"{scheme}://{host}"
        proxy = proxy_for(origin, self._options.http)
        return _Target(access, region, origin, prefix, signer, proxy)

    def _move(self, region: str) -> None:
        """Follow the bucket to the region that the store named."""
        if region != self._region:
            self._region, self._target = region, None


class _Sending:
    """One request on its way: what its attempts have shown, by which the next one goes."""

    __slots__ = ("_client", "_doubted", "_knows_checksums", "_payload", "_request", "_target")

    def __init__(self, client: S3Client, request: S3Request, payload: str) -> None:
        self._client = client
        self._request = request
        self._payload = payload
        self._knows_checksums = client.knows_checksums
        self._doubted: list[str] = []  # digests of bodies that came before
        self._target: _Target | None = None

    async def attempt(self) -> tuple[Outcome | None, Answer | Failure]:
        """Make the request, by what is known of the store now."""
        client, request = self._client, self._request
        target = self._target = await client.aim()
        sent = request
        if request.optional:
            knows = self._knows_checksums
            vouching = request.optional if knows else _instead(request, self._payload)
            sent = replace(request, headers={**request.headers, **vouching})
        result = await client.attempt(target, sent, self._payload)
        if isinstance(result, Answer):
            client.knows_checksums = client.knows_checksums and self._knows_checksums
            return await self._verified(result)
        if request.optional and self._knows_checksums and refuses_checksums(result):
            self._knows_checksums = False
            return Outcome("the store refuses checksums", otherwise=True), result
        return self._failed(result)

    async def renew(self) -> bool:
        """Whether there are newer credentials than those of the last attempt."""
        return self._target is not None and await self._client.renew(self._target)

    def _failed(self, failure: Failure) -> tuple[Outcome, Failure]:
        region = "" if self._target is None else self._target.region
        return outcome_of(failure, method=self._request.method, region=region), failure

    async def _verified(self, answer: Answer) -> tuple[Outcome | None, Answer | Failure]:
        """The answer, if its body is what was asked for.

        Bytes that come twice are those that are stored.
        """
        client, request = self._client, self._request
        fault: Fault | None = None
        if asked := request.headers.get("range"):
            fault = range_fault(asked, answer)
        if fault is None and request.verify:
            look = partial(body_fault, answer, tags_are_digests=client.tags_are_digests)
            found = look() if len(answer.body) < _HASHED_INLINE else await in_thread(look)
            fault, client.tags_are_digests = found
        if fault is None:
            return None, answer
        digest = await in_thread(_sha256, answer.body)
        again = digest in self._doubted
        if again and not fault.certain:
            return None, answer
        if again:
            reason = f"{fault.reason}: it is damaged"
            return self._failed(Failure(Kind.REFUSED, "", reason, answer.headers))
        self._doubted.append(digest)
        if len(self._doubted) == 1 and not fault.certain:
            return Outcome("its bytes differ from the store's checksum", otherwise=True), answer
        return self._failed(Failure(Kind.DAMAGED, "", fault.reason, answer.headers))


def _fails_late(request: S3Request) -> bool:
    """Whether the store answers before it is done, and may say of an error in the body."""
    return request.method == "POST" or "x-amz-copy-source" in request.headers


async def _answer(request: S3Request, response: aiohttp.ClientResponse) -> Answer:
    try:
        if response.status >= 300 and request.method != "HEAD":
            return Answer(response.status, response.headers, await _beginning(response))
        length = waiting_body(response)
        is_partial = response.status == 206
        most = request.most if is_partial or "range" not in request.headers else None
        _check_length(request, response.content_length or 0, most)
        into = await request.into() if request.into and is_partial else None
        if length is None:
            received = await _read(response, request, most)
        elif into is not None:
            await place_body(response, into[:length])
            return Answer(response.status, response.headers, b"", placed=length)
        else:
            pieces = await receive_body(response, length)
            join = b"".join
            received = await in_thread(join, pieces) if length > _LARGE else join(pieces)
    except BaseException:
        response.close()
        raise
    if into is None:
        return Answer(response.status, response.headers, received)
    into[: len(received)] = received
    return Answer(response.status, response.headers, b"", placed=len(received))


def _check_length(request: S3Request, length: int, most: int | None) -> None:
    if request.memory is not None:
        check_memory(length, request.memory, f"the object {request.key!r}")
    if most is not None and length > most:
        raise _TooLongError(f"the answer has {length:,} bytes, of {most:,} that it may have")


async def _read(response: aiohttp.ClientResponse, request: S3Request, most: int | None) -> bytes:
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


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The first bytes of what is said of an error; of a longer body the connection is given up."""
    unclaim(response)
    body = bytearray()
    while len(body) < LONGEST_ERROR and not response.content.at_eof():
        body += await response.content.read(LONGEST_ERROR - len(body))
    if not response.content.at_eof():
        response.close()
    return bytes(body)


def _body(body: bytes) -> bytes | io.BytesIO | None:
    """What aiohttp sends without holding up the loop; it copies nothing."""
    return io.BytesIO(body) if len(body) > _LARGE else body or None


def _instead(request: S3Request, payload: str) -> dict[str, str]:
    """What vouches for a body whose checksum the store refuses, where the signature does not."""
    if payload != UNSIGNED:
        return {}
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    return {"content-md5": base64.b64encode(digest).decode()}


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@lru_cache(maxsize=256)
def http_time_ms(date: str) -> int:
    """A time as HTTP tells it, in milliseconds since the Unix epoch.

    Raises:
        ValueError: it is none.
    """
    try:
        return round(parsedate_to_datetime(date).timestamp() * 1000)
    except OverflowError as error:  # of a year that the system does not count
        raise ValueError(str(error)) from error


def _host_header(scheme: str, host: str) -> str:
    return host.removesuffix(":443" if scheme == "https" else ":80").lower()
