"""Requests to a cluster of HDFS by WebHDFS: to a namenode, and on to the datanode that it names.

The namenode answers itself, or names a datanode to send or get the bytes, by a redirect. That is
followed once, to a host that may be asked, and with nothing but what the namenode has written into
it: no token and no name of ours goes to a host that an answer names. A gateway (HttpFS) answers
reads itself, and redirects writes to itself.

Of several namenodes one is active. Where one says that it stands by, or gives no answer, the next
one is asked.
"""

from __future__ import annotations

import fnmatch
from dataclasses import field, replace
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from adelta._clock import monotonic
from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.storage.bearer import BearerTokens, Token
from adelta.storage.body_checks import Fault
from adelta.storage.hdfs_answers import failure_of_hdfs
from adelta.storage.hdfs_auth import KerberosTokens
from adelta.storage.hdfs_options import HdfsOptions, cluster_of, own_user
from adelta.storage.http import unknown_host
from adelta.storage.object_answers import (
    Answer,
    Failure,
    Kind,
    connection_failure,
    outcome_of,
)
from adelta.storage.object_client import (
    ExchangeError,
    ObjectRequest,
    Signed,
    receive,
    sent_body,
)
from adelta.storage.request_log import logged
from adelta.storage.sigv4 import encode_path, encode_query
from adelta.storage.token_client import TokenClient, TokenTarget

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from adelta.storage.hdfs_options import Cluster
    from adelta.storage.retry import Outcome

__all__ = ["HdfsClient", "HdfsRequest", "Writing"]

_API = "/webhdfs/v1/"
_REDIRECT = 307
_AVOIDED = 60.0  # seconds that a datanode is not asked for which gave no answer
_MOST_AVOIDED = 16
_BYTES = "application/octet-stream"
_NEVER = float("inf")
_OF_DATANODE: Mapping[str, str] = {}
"""The headers of a failure that is no namenode's."""
_UNANSWERED = frozenset({Kind.UNSENT, Kind.LOST, Kind.BROKEN})


@dataclass(slots=True)
class Writing:
    """What the attempts to write one file have come to.

    Each attempt writes a file of its own, which `name` gives the key of: an earlier one may still
    be under way in a datanode. `key` is that of the last one, `keys` are those that a datanode may
    have begun, of which the `untold` got no answer. `chunks` are its bytes where they come one by
    one, and then there is one attempt alone from when the first has been taken; `broke` is the
    error of their source.
    """

    name: Callable[[], str]
    chunks: AsyncIterator[bytes] | None = None
    key: str = ""
    keys: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    begun: bool = False
    size: int = 0
    broke: BaseException | None = None


@dataclass(frozen=True, slots=True)
class HdfsRequest(ObjectRequest):
    """A request of one `operation`, to the file at `at`, or at its key where that is empty."""

    operation: str = ""
    at: str = ""
    writing: Writing | None = None


class HdfsClient(TokenClient):
    """Sends requests to one cluster."""

    service = "HDFS"
    named_by = "the address, or dfs.namenode.http-address"
    longest_error = 64 << 10  # an exception comes with its trace

    def __init__(self, options: HdfsOptions) -> None:
        """A client of the cluster that the options name."""
        name = f"{options.scheme}://{options.authority}"
        super().__init__(name, options.http, options.retry, options.concurrency)
        self._options = options
        self._cluster: Cluster | None = None
        self._identity: dict[str, str] = {}
        self._active = 0
        self._proxies: dict[str, str | None] = {}
        self._avoided: dict[str, float] = {}  # hosts of datanodes, and until when

    # --------------------------------------------------------------------------------- namenodes

    async def aim(self) -> TokenTarget:
        """Where a request goes now. Raises: InvalidOptionError, PermissionDeniedError."""
        cluster = self._cluster or await self._find()
        return await self._aim_at(cluster.origins[self._active % len(cluster.origins)])

    async def _find(self) -> Cluster:
        """Find the namenodes, and in whose name to ask."""
        options = self._options
        cluster, user = await in_io_thread(lambda: (cluster_of(options), own_user()))
        if self._cluster is None:
            by_ticket = options.principal is not None or options.keytab is not None
            if options.token is not None:
                source = "the storage option hdfs_delegation_token"
                self._tokens = BearerTokens(fixed=Token(options.token, _NEVER, source))
            elif cluster.by_kerberos or by_ticket:
                self._tokens = BearerTokens(KerberosTokens(options, cluster.origins))
            else:
                if named := options.user or user:
                    self._identity["user.name"] = named
                if options.proxied is not None:
                    self._identity["doas"] = options.proxied
            self._cluster = cluster
        return self._cluster

    def credentials_source(self) -> str:
        """In words, who asks."""
        if self._tokens is not None:
            return self._tokens.source
        user = self._identity.get("user.name")
        return "none, no user is named" if user is None else f"the user {user}, by name alone"

    def failed(
        self, request: ObjectRequest, failure: Failure, target: TokenTarget | None
    ) -> Outcome:
        """What may help after a failure: another namenode, or another datanode."""
        outcome = outcome_of(failure)
        standby = failure.code in ("StandbyException", "ObserverRetryOnActiveException")
        if standby or (failure.kind in _UNANSWERED and failure.headers is not _OF_DATANODE):
            origins = () if self._cluster is None else self._cluster.origins
            if len(origins) > 1 and target is not None:
                if target.origin == origins[self._active % len(origins)]:
                    self._active += 1  # once, however many requests fail there at one moment
                outcome = replace(outcome, otherwise=standby)
        elif "Failed to find datanode" in failure.reason:
            self._avoided.clear()
        writing = request.writing if isinstance(request, HdfsRequest) else None
        if writing is not None and writing.chunks is not None and writing.begun:
            return replace(outcome, transient=False, otherwise=False, expired=False)
        return outcome

    def unknown(self, host: str, target: TokenTarget) -> Failure:
        """What it means that no host has that name: another namenode may have one."""
        failure = super().unknown(host, target)
        several = self._cluster is not None and len(self._cluster.origins) > 1
        return replace(failure, kind=Kind.UNSENT) if several else failure

    # ---------------------------------------------------------------------------------- requests

    def signed(self, target: TokenTarget, request: ObjectRequest, payload: str) -> Signed:
        """The request as it is sent to `target`, a namenode."""
        assert isinstance(request, HdfsRequest)
        key = request.at or request.key
        if request.writing is not None:
            key = request.writing.key = request.writing.name()
        more = self._identity if target.token is None else {"delegation": target.token.text}
        if request.operation in ("OPEN", "CREATE") and (avoided := self._still_avoided()):
            more = {**more, "excludedatanodes": avoided}
        query = f"op={request.operation}"
        for part in (request.query, encode_query(more)):
            query += f"&{part}" if part else ""
        return Signed(_API + encode_path(key), query, request.headers)

    def _still_avoided(self) -> str:
        if not self._avoided:
            return ""
        now = monotonic()
        self._avoided = {host: until for host, until in self._avoided.items() if until > now}
        return ",".join(self._avoided)

    def goes_on(self, request: ObjectRequest) -> bool:
        """Whether it goes on without its caller: not where that gives it its bytes."""
        writing = request.writing if isinstance(request, HdfsRequest) else None
        return super().goes_on(request) and (writing is None or writing.chunks is None)

    def failure_of(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer that is no success means."""
        failure = failure_of_hdfs(status, headers, body)
        token = None if self._target is None else self._target.token
        if token is not None and token.text in failure.reason:
            return replace(failure, reason=failure.reason.replace(token.text, "***"))
        return failure

    def object_fault(self, request: ObjectRequest, answer: Answer) -> Fault | None:
        """What is wrong with an answer: a file comes as bytes, all else as JSON."""
        assert isinstance(request, HdfsRequest)
        said = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if (request.operation == "OPEN") == (said == _BYTES):
            return None
        return Fault(f"the answer is of the type {said[:100]!r}: it is not the cluster's", True)

    async def attempt(
        self, target: TokenTarget, request: ObjectRequest, payload: str
    ) -> Answer | Failure:
        """The answer to one request, or why there is none."""
        result = await super().attempt(target, request, payload)
        writing = request.writing if isinstance(request, HdfsRequest) else None
        if writing is not None and writing.broke is not None:
            raise writing.broke
        return result

    async def _exchange(
        self, target: TokenTarget, request: ObjectRequest, url: URL, headers: Mapping[str, str]
    ) -> Answer:
        assert isinstance(request, HdfsRequest)
        if request.operation not in ("OPEN", "CREATE"):
            return await super()._exchange(target, request, url, headers)
        writes = request.operation == "CREATE"
        first = replace(request, body=b"") if writes else request
        answer = await super()._exchange(target, first, url, headers)
        if answer.status == _REDIRECT:
            where = self._datanode(target, request, answer.headers.get("location", ""))
            return await self._at_datanode(target, request, where)
        if writes and 200 <= answer.status < 300:
            raise ExchangeError.refused("the namenode names no datanode to send the bytes to")
        return answer

    # --------------------------------------------------------------------------------- datanodes

    def _datanode(self, target: TokenTarget, request: HdfsRequest, location: str) -> URL:
        """Where the redirect leads, if it may. Raises: ExchangeError."""
        scheme = target.origin.partition(":")[0]
        try:
            where = URL(location, encoded=True)
            host, query = (where.host or "").lower(), where.query
            fine = where.port is not None and bool(host and where.scheme)
        except ValueError:
            fine = False
        if not fine or not location.isascii() or not location.isprintable() or where.user:
            raise ExchangeError.refused("the namenode's redirect is no address of a datanode")
        if where.scheme not in (scheme, "https"):
            raise ExchangeError.refused(
                f"the namenode redirects to the datanode {host!r:.100} by {where.scheme!r:.20}, "
                f"and was asked by {scheme}: that would not be encrypted, or is no HTTP"
            )
        if not where.raw_path.startswith(_API) or query.get("op", "").upper() != request.operation:
            raise ExchangeError.refused(
                f"the namenode's redirect to {host!r:.100} is not for {request.operation}"
            )
        own = str(where.origin()) == target.origin
        if not own and not self._may_be_asked(host):
            raise ExchangeError.refused(
                f"the namenode redirects to {host!r:.100}, which the storage option "
                "hdfs_datanode_hosts does not name"
            )
        return where

    def _may_be_asked(self, host: str) -> bool:
        allowed = self._options.datanodes
        return allowed is None or any(fnmatch.fnmatchcase(host, each) for each in allowed)

    async def _at_datanode(self, target: TokenTarget, request: HdfsRequest, where: URL) -> Answer:
        """The answer of a datanode, which gets nothing but the bytes and the namenode's words."""
        assert request.kind is not None
        writing = request.writing
        data = None if writing is None or writing.chunks is None else self._sent(writing)
        headers = dict(request.headers)
        if writing is not None:
            headers["content-type"] = _BYTES
            writing.keys.append(writing.key)
            writing.untold.append(writing.key)
        origin = str(where.origin())
        session = (await self._pool.open(origin)).session
        self.counter.asked(request.kind)
        try:
            with logged(request.method, where) as exchange:
                response = await session.request(
                    request.method,
                    where,
                    headers=headers,
                    data=sent_body(request.body) if data is None else data,
                    allow_redirects=False,
                    proxy=self.proxy_before(origin),
                )
                exchange.status = response.status
                answer = await receive(request, response, self.longest_error)
        except aiohttp.ClientConnectorCertificateError:
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if writing is not None and writing.broke is not None:
                raise
            self._avoid(where)
            unsent = isinstance(
                error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
            )
            if unsent and writing is not None:
                writing.keys.pop()
                writing.untold.pop()
            failure = connection_failure(error, sent=not unsent)
            if unknown_host(error) is not None:
                failure = replace(failure, advice="let this machine know the datanodes' names")
            raise ExchangeError(replace(failure, headers=_OF_DATANODE)) from error
        if writing is not None:
            writing.untold.pop()
        if answer.status == _REDIRECT:
            raise ExchangeError.refused("the datanode redirects in its turn, which none does")
        if answer.status >= 500:
            self._avoid(where)
            failure = self.failure_of(answer.status, answer.headers, answer.body)
            raise ExchangeError(replace(failure, headers=_OF_DATANODE))
        return answer

    async def _sent(self, writing: Writing) -> AsyncIterator[bytes]:
        """The chunks of a file, counted as they are taken."""
        assert writing.chunks is not None
        writing.begun = True
        try:
            async for chunk in writing.chunks:
                writing.size += len(chunk)
                self.counter.wrote(len(chunk))
                yield chunk
        except Exception as error:
            writing.broke = error
            raise

    def _avoid(self, where: URL) -> None:
        if len(self._avoided) < _MOST_AVOIDED and where.host:
            self._avoided[where.host] = monotonic() + _AVOIDED

    def proxy_before(self, origin: str) -> str | None:
        """The proxy through which requests go to `origin`. Raises: InvalidOptionError."""
        if origin not in self._proxies:  # looking through the environment takes its time
            if len(self._proxies) >= 4096:
                self._proxies.clear()
            self._proxies[origin] = super().proxy_before(origin)
        return self._proxies[origin]
