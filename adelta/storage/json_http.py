"""A server that is asked and answers in JSON over HTTP, with a bearer token."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import orjson
from yarl import URL

from adelta._dataclasses import dataclass
from adelta._secrets import without_secrets
from adelta.errors import CommitOutcomeUnknownError, InvalidOptionError, StorageError
from adelta.storage.http import HttpOptions, HttpPool, proxy_for
from adelta.storage.http_time import retry_after
from adelta.storage.object_answers import exchange_fault
from adelta.storage.request_log import logged
from adelta.storage.request_runner import run_request
from adelta.storage.retry import Outcome, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["JsonAnswer", "JsonServer"]

_RETRY = RetryPolicy(max_retries=6, retry_timeout=60.0, max_backoff=5.0)
_UNREACHED = RetryPolicy(max_retries=9, retry_timeout=60.0, max_backoff=5.0)
_THROTTLED = 429
_NO_ANSWER = "it got no answer"
_LONGEST = 64 << 20  # bytes of an answer
_PIECES = 512 << 10  # bytes of a body from which on it is sent in pieces


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """What a server said: the status of HTTP, and an object, empty where there is no body."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @property
    def is_fine(self) -> bool:
        """Whether the request was granted."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    """A request that got no answer, why, and whether it may have taken effect."""

    reason: str
    maybe_applied: bool


class JsonServer:
    """The server whose addresses begin with `base`, such as ``https://host/api``."""

    def __init__(
        self,
        base: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        user_agent: str = "adelta",
        concurrency: int = 16,
        ca_bundle: str | None = None,
        longest: int | None = None,
    ) -> None:
        """`timeout` bounds each request, in seconds; `ca_bundle` is as of `HttpOptions`. No I/O.

        An answer has `longest` bytes at most, by default what no server's answer should have.

        Raises:
            InvalidOptionError: `base` is no address of HTTP.
        """
        try:
            url = URL(base.rstrip("/"))
            bare = not (url.user or url.password or url.raw_query_string or url.raw_fragment)
            fine = url.scheme in ("http", "https") and url.host and bare
        except ValueError:
            fine = False
        if not fine:
            raise InvalidOptionError(
                f"{without_secrets(base)!r} is no address of a server: https://host/path, without "
                "user and query, and a token beside it"
            )
        self._base = url
        self._origin = str(url.origin())
        self._proxy: str | None = None
        self._knows_proxy = False
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._http = HttpOptions(
            read_timeout=timeout, timeout=timeout, user_agent=user_agent, ca_bundle=ca_bundle
        )
        self._pool = HttpPool(self._http, concurrency)
        self._longest = _LONGEST if longest is None else longest
        self._under_way = 0
        self._to_close = False

    def __repr__(self) -> str:
        return f"JsonServer({without_secrets(str(self._base))!r})"

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> JsonAnswer:
        """The answer to a question, which is asked again while the server fails.

        Raises:
            StorageError: the server cannot be reached, or does not answer in JSON.
        """
        attempt = partial(self._attempt, "GET", path, query=query)
        async with self._in_use():
            result = (await run_request(attempt, _RETRY, name=self._name("GET", path))).result
        if isinstance(result, JsonAnswer):
            return result
        raise StorageError(result.reason)

    async def post(self, path: str, body: Mapping[str, Any]) -> JsonAnswer:
        """The answer to a request that changes something; the server gets it once.

        While there is no connection, as when the server is started anew, it is waited for.

        Raises:
            StorageError: the server cannot be reached; certainly it got nothing.
            CommitOutcomeUnknownError: it may have got the request, and did not answer.
        """

        async def attempt() -> tuple[Outcome | None, JsonAnswer | _NoAnswer]:
            outcome, result = await self._attempt("POST", path, body=body)
            unsent = isinstance(result, _NoAnswer) and not result.maybe_applied
            return outcome if unsent else None, result

        async with self._in_use():
            result = (await run_request(attempt, _UNREACHED, name=self._name("POST", path))).result
        if isinstance(result, JsonAnswer):
            return result
        error = CommitOutcomeUnknownError if result.maybe_applied else StorageError
        raise error(result.reason)

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator[None]:
        """A request with all its attempts, until the end of which the connections are there."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if self._to_close and not self._under_way:
                with anyio.CancelScope(shield=True):
                    await self.aclose()

    def _name(self, method: str, path: str) -> str:
        return f"{method} {self._base}/{path}"

    async def _attempt(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> tuple[Outcome | None, JsonAnswer | _NoAnswer]:
        """One request: its answer, and what may help after it."""
        url = URL(f"{self._base}/{path}", encoded=True).with_query(query)
        headers: dict[str, str] = self._headers
        data: bytes | BytesIO | None = None
        if body is not None:
            headers = {**headers, "Content-Type": "application/json"}
            data = orjson.dumps(body)
            if len(data) > _PIECES:
                data = BytesIO(data)
        bound = await self._pool.open(self._origin)
        if not self._knows_proxy:  # looking through the environment takes as long as a request
            self._proxy, self._knows_proxy = proxy_for(self._origin, self._http), True
        status: int | None = None
        wait, content = 0.0, bytearray()
        try:
            with logged(method, url) as exchange:
                async with (
                    bound.slots,
                    bound.session.request(
                        method,
                        url,
                        data=data,
                        headers=headers,
                        allow_redirects=False,
                        proxy=self._proxy,
                    ) as response,
                ):
                    exchange.status = response.status
                    async for chunk in response.content.iter_any():
                        content += chunk
                        if len(content) > self._longest:
                            response.close()
                            reason = (
                                f"{self._base} answers {method} {path} with more than "
                                f"{self._longest:,} bytes, which no answer should have"
                            )
                            return Outcome(maybe_applied=True), _NoAnswer(reason, True)
                    status, wait = response.status, retry_after(response.headers)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            reason = f"{self._base} cannot be reached: {exchange_fault(error)}"
            transient = not isinstance(error, aiohttp.ClientConnectorCertificateError)
            return Outcome(_NO_ANSWER, transient=transient), _NoAnswer(reason, False)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = f"{self._base} gave no answer to {method} {path}: {exchange_fault(error)}"
            lost = Outcome(_NO_ANSWER, transient=True, maybe_applied=True)
            return lost, _NoAnswer(reason, True)
        except ValueError:  # of aiohttp, whose text may hold the token
            pass
        if status is None:  # raised here, so that no other error is its context
            raise InvalidOptionError(
                f"the token for {self._base}, or its address, has characters that cannot be sent"
            )
        answer = JsonAnswer(status, _decoded(bytes(content)))
        if status != _THROTTLED and status < 500:
            return None, answer
        return Outcome(
            f"its status is {status}",
            transient=True,
            maybe_applied=status >= 500,
            wait=wait,
        ), answer

    async def aclose(self) -> None:
        """Close the connections, when the last request has ended; later ones make new ones."""
        self._to_close = self._under_way > 0
        if not self._to_close:
            await self._pool.aclose()


def _decoded(content: bytes) -> Mapping[str, Any]:
    try:
        body = orjson.loads(content) if content else {}
    except orjson.JSONDecodeError:
        body = None
    return body if isinstance(body, dict) else {"text": content[:300].decode(errors="replace")}
