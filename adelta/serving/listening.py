"""The socket of a service, and TLS on it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from adelta.serving.connections import Guards

__all__ = ["Address", "is_loopback", "listening", "renew_certificate", "tls_of"]

_log = logging.getLogger("adelta.serving.listening")
_requests = logging.getLogger("adelta.serving.requests")

_LOOK = 10.0  # seconds between two looks for a renewed certificate
_HANDSHAKE = 10.0
_LINGER = 2.0  # for which the rest of a refused body is read, so that the refusal arrives


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens, and how its connections are encrypted.

    Attributes:
        host: the address of this machine on which it listens.
        port: 0 for any that is free.
        certificate: a file with its certificate, and those that vouch for it, in PEM.
        key: a file with the certificate's key, where that is in another file.
        without_tls: whether it may listen to other machines without a certificate.
    """

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None
    without_tls: bool = False

    def url(self, port: int) -> str:
        """Where it answers, when it listens on `port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{port}"


@contextlib.asynccontextmanager
async def listening(
    app: web.Application,
    address: Address,
    context: ssl.SSLContext | None,
    guards: Guards,
    *,
    idle_seconds: float,
    stop_seconds: float,
    on_stop: Callable[[], None],
    cancels: bool = False,
) -> AsyncIterator[int]:
    """The port on which `app` answers requests, until the block is left.

    A connection may be without a request for `idle_seconds`. In the end `on_stop` is called, and
    requests have `stop_seconds` to end. With `cancels` a request ends when its client has gone.

    Raises:
        InvalidOptionError: nothing can listen there.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_requests,
        keepalive_timeout=idle_seconds,
        lingering_time=_LINGER,
        auto_decompress=False,
        handle_signals=False,
        handler_cancellation=cancels,
        shutdown_timeout=stop_seconds,
    )
    await runner.setup()
    inner = runner.server
    assert inner is not None
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: guards.protocol(inner),
            address.host,
            address.port,
            ssl=context,
            backlog=1024,
            ssl_handshake_timeout=_HANDSHAKE if context else None,
        )
    except OSError as error:
        await runner.cleanup()
        raise InvalidOptionError(
            f"nothing can listen on {address.host}, port {address.port}: {error}"
        ) from error
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        on_stop()
        server.close()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _without_heads(record: logging.LogRecord) -> bool:
    """Say of what is no HTTP that it came, and nothing of what stands in it: it may be a token."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    record.levelno, record.levelname = logging.INFO, "INFO"
    record.msg, record.args = "a request was no HTTP: %s", (type(error).__name__,)
    record.exc_info = record.exc_text = None
    return _requests.isEnabledFor(logging.INFO)


_requests.addFilter(_without_heads)


def tls_of(address: Address) -> ssl.SSLContext | None:
    """How connections are encrypted. Raises: InvalidOptionError."""
    if address.certificate is None:
        if not address.without_tls and not is_loopback(address.host):
            raise InvalidOptionError(
                f"{address.host} can be reached by other machines, and tokens would be sent there "
                "unencrypted: give a certificate, or say that something before this service "
                "encrypts"
            )
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(address.certificate, address.key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidOptionError(
            f"{address.certificate!r} is no certificate with its key, in PEM: {error}"
        ) from error
    return context


async def renew_certificate(address: Address, context: ssl.SSLContext) -> None:
    """Take up a certificate that is put in the place of the first, for later connections."""
    taken = await in_io_thread(_written_at, address)
    while True:
        await anyio.sleep(_LOOK)
        try:
            found = await in_io_thread(_written_at, address)
            if found == taken:
                continue
            await in_io_thread(tls_of, address)  # refuses what would break the one that is in use
            context.load_cert_chain(address.certificate or "", address.key)
        except (OSError, InvalidOptionError) as error:
            _log.warning("the certificate is not renewed: %s", error)
        else:
            taken = found
            _log.info("the certificate has been renewed")


def _written_at(address: Address) -> list[int]:
    """When the files of the certificate were written, in nanoseconds. Raises: OSError."""
    files = [file for file in (address.certificate, address.key) if file is not None]
    return [Path(file).stat().st_mtime_ns for file in files]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
