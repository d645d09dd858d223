"""The pooled HTTP connections that the cloud adapters share.

One `HttpPool` belongs to one store: it holds the store's aiohttp session and its concurrency
budget, both bound to the event loop that first uses them. When that loop has ended, the next one
gets new ones; a second loop beside a running one is refused, for the connections cannot serve two.
A forked child begins anew and leaves its parent's connections alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import urllib.request
from dataclasses import field
from functools import lru_cache, partial
from ipaddress import ip_address, ip_network
from pathlib import Path

import aiohttp
from yarl import URL

from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta._locks import ForkSafeLock
from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.storage._aiohttp import connect_by, repeat_nothing
from adelta.storage.long_body import BodyConnection, LoopTurn
from adelta.storage.slots import Slots

__all__ = [
    "BoundPool",
    "HttpOptions",
    "HttpPool",
    "check_proxy",
    "proxy_for",
    "trusted_by",
    "unknown_host",
]

_SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_READ_BUFFER = 256 << 10
_NO_SUCH_NAME = {getattr(socket, name, None) for name in ("EAI_NONAME", "EAI_NODATA")}
_reading = ForkSafeLock()  # a bundle is read once, which takes long
_kept: list[BoundPool] = []  # connections that collecting would close at the wrong place


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How to connect, and how long to wait, in seconds. `timeout` bounds one whole request.

    `read_timeout` limits how long a server may send nothing. Within it, the head of a response, and
    the body of a response to a read, also has to end or to bring `LEAST_BYTES` more. Of servers
    those are trusted whose certificates are vouched for by one in `ca_bundle`, a file or a folder,
    or by the system's where that is None.
    """

    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    timeout: float = 3600.0
    pool_idle_timeout: float = 30.0
    allow_invalid_certificates: bool = False
    ca_bundle: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    user_agent: str | None = None


@dataclass(frozen=True, slots=True)
class BoundPool:
    """A session and its budget, on the loop that they belong to."""

    loop: asyncio.AbstractEventLoop
    process: int
    session: aiohttp.ClientSession
    slots: Slots


class HttpPool:
    """Connections of one store, made when first asked for."""

    def __init__(self, options: HttpOptions, concurrency: int) -> None:
        self._options = options
        self._bound: BoundPool | None = None
        self._trust: ssl.SSLContext | bool = not options.allow_invalid_certificates
        self._knows_trust = options.allow_invalid_certificates
        self.concurrency = concurrency

    async def open(self, origin: str, ca_bundle: str | None = None) -> BoundPool:
        """The connections for the running loop, as `bind` has them, for requests to `origin`.

        Certificates are read in a thread before the first one, those of `ca_bundle` where the
        options name none.

        Raises:
            InvalidOptionError: there are no certificates where they should be.
            InvalidUseError: another loop, still running, uses this store.
        """
        if not self._knows_trust and origin.startswith("https:"):
            if (where := self._options.ca_bundle or ca_bundle) is not None:
                self._trust = await in_io_thread(trusted_by, where)
            self._knows_trust = True
        return self.bind()

    def bind(self) -> BoundPool:
        """The connections for the running loop.

        Raises:
            InvalidUseError: another loop, still running, uses this store.
        """
        bound, loop = self._bound, asyncio.get_running_loop()
        if bound is not None and bound.loop is loop and not bound.session.closed:
            return bound
        if bound is not None:
            self._leave(bound, loop)
        self._bound = bound = BoundPool(loop, os.getpid(), self._session(), Slots(self.concurrency))
        return bound

    def _leave(self, bound: BoundPool, loop: asyncio.AbstractEventLoop) -> None:
        if bound.process != os.getpid():
            _kept.append(bound)  # closing here would end the parent's TLS sessions
        elif bound.loop is not loop and bound.loop.is_running():
            raise InvalidUseError(
                "the store is in use on another event loop: open the table again on this one"
            )
        else:
            _abandon(bound)
        self._bound = None

    def _session(self) -> aiohttp.ClientSession:
        options = self._options
        connector = aiohttp.TCPConnector(
            limit=0,  # the budget limits
            keepalive_timeout=options.pool_idle_timeout,
            ttl_dns_cache=30,
            ssl=self._trust,
        )
        loop = asyncio.get_running_loop()
        make = partial(BodyConnection, loop, LoopTurn(loop), options.timeout, options.read_timeout)
        connect_by(connector, make)
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=options.timeout,
                sock_connect=options.connect_timeout,
                sock_read=options.read_timeout,
            ),
            headers={"User-Agent": options.user_agent} if options.user_agent else None,
            skip_auto_headers=_SKIPPED_HEADERS,
            auto_decompress=False,
            read_bufsize=_READ_BUFFER,
        )
        repeat_nothing(session)
        return session

    async def aclose(self) -> None:
        """Close the connections of this loop. Calling it again does nothing."""
        bound, self._bound = self._bound, None
        if bound is None:
            return
        if bound.process != os.getpid():
            _kept.append(bound)
        elif bound.loop is asyncio.get_running_loop():
            await bound.session.close()
        else:
            _abandon(bound)


def _abandon(bound: BoundPool) -> None:
    """Let go of connections whose loop no longer runs, so that collecting them makes no noise."""
    connector = bound.session.connector
    bound.session.detach()
    if connector is None:
        return
    if bound.loop.is_closed():
        with contextlib.suppress(StopIteration):  # nothing to wait for without a loop
            connector.close().__await__().send(None)
    else:
        _kept.append(bound)


def trusted_by(ca_bundle: str) -> ssl.SSLContext:
    """What trusts the certificates of a bundle alone."""
    with _reading:
        return _read_trust(ca_bundle)


@lru_cache(maxsize=16)
def _read_trust(ca_bundle: str) -> ssl.SSLContext:
    folder = Path(ca_bundle).is_dir()
    try:
        return ssl.create_default_context(
            cafile=None if folder else ca_bundle, capath=ca_bundle if folder else None
        )
    except (OSError, ValueError) as error:  # of files, of their content and of odd names
        raise InvalidOptionError(
            f"storage option aws_ca_bundle, or the variable AWS_CA_BUNDLE: {ca_bundle!r} is no "
            f"file of certificates in PEM: {error}"
        ) from error


def unknown_host(error: Exception) -> str | None:
    """The host that could not be reached for there is none of that name; None for other errors."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return None
    reason = error.os_error
    names_none = isinstance(reason, socket.gaierror) and reason.errno in _NO_SUCH_NAME
    return error.host if names_none else None


def check_proxy(address: str, name: str) -> str:
    """The address of a proxy, which `name` gives.

    Raises:
        InvalidOptionError: it is none.
    """
    try:
        url = URL(address)
        fine = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
    except ValueError:
        fine = False
    if not fine or not address.isprintable():
        raise InvalidOptionError(  # without the address: it may hold a password
            f"{name} is no address of a proxy such as http://user:password@host:3128; what is no "
            "letter or digit in its password has to be percent-encoded"
        )
    return address


def proxy_for(origin: str, options: HttpOptions) -> str | None:
    """The proxy through which `origin` (scheme and host) is reached, None for none.

    That of the options, or that of the environment: the one of the origin's scheme, or else the one
    of all schemes (`ALL_PROXY`), unless `NO_PROXY` names the host, its domain or its network.

    Raises:
        InvalidOptionError: the environment's is no address of a proxy.
    """
    if options.proxy_url is not None:
        return options.proxy_url
    scheme, _, host = origin.partition("://")
    proxies = urllib.request.getproxies()
    if urllib.request.proxy_bypass(host) or _in_networks(origin, proxies.get("no", "")):
        return None
    name = scheme if scheme in proxies else "all"
    proxy = proxies.get(name)
    return None if proxy is None else check_proxy(proxy, f"the variable {name}_proxy")


def _in_networks(origin: str, networks: str) -> bool:
    """Whether the host is an address in one of the networks, such as ``10.0.0.0/8``."""
    try:
        address = ip_address(URL(origin).host or "")
    except ValueError:  # a name
        return False
    for network in networks.split(","):
        with contextlib.suppress(ValueError):
            if address in ip_network(network.strip(), strict=False):
                return True
    return False
