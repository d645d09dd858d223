"""The commit owner as a server: sockets, TLS, what runs beside the requests, and its end.

It stops gracefully: it takes no new connections, lets long polls go and requests end, and leaves
what is still to be backfilled to the ledger, from which the next start goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from aiohttp import web

from adelta._concurrency import in_io_thread
from adelta.errors import AdeltaError, InvalidOptionError
from adelta.owner.access import Right
from adelta.owner.parts import Parts
from adelta.owner.service import OwnerService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.owner.parts import Settings

__all__ = ["RunningOwner", "running_owner"]

_log = logging.getLogger("adelta.owner.server")

_SETTLE = 30.0  # seconds between two looks for promises that nobody has settled
_LOOK = 10.0  # seconds between two looks for a renewed certificate
_HANDSHAKE = 10.0
_LINGER = 2.0  # for which the rest of a refused body is read, so that the refusal arrives


@dataclass(frozen=True, slots=True)
class RunningOwner:
    """A service that runs.

    Attributes:
        endpoint: where it answers, as tables and clients name it.
        first_token: a token that may do everything, where the ledger had none before.
        parts: what it consists of.
    """

    endpoint: str
    first_token: str | None
    parts: Parts


@contextlib.asynccontextmanager
async def running_owner(settings: Settings) -> AsyncIterator[RunningOwner]:
    """A service that runs until the block is left.

    Raises:
        InvalidOptionError: the settings are none that it could run with.
        StorageError: the database cannot be reached.
    """
    context = await in_io_thread(_tls, settings)
    parts = await Parts.open(settings)
    failure: Exception | None = None
    try:
        first_token = None
        if not await parts.tokens.list():
            first_token, _ = await parts.tokens.create(Right.OWN, "*", label="made at first start")
        async with anyio.create_task_group() as group:
            group.start_soon(parts.announcements.run)
            group.start_soon(_settle, parts)
            if context is not None:
                group.start_soon(_renew, settings, context)
            group.start_soon(partial(parts.backfiller.run, sweep=settings.sweep_seconds))
            try:
                async with _listening(parts, context) as port:
                    scheme = "http" if context is None else "https"
                    host = f"[{settings.host}]" if ":" in settings.host else settings.host
                    yield RunningOwner(f"{scheme}://{host}:{port}", first_token, parts)
            except Exception as error:  # raised below as itself, not in a group
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
    finally:
        with anyio.CancelScope(shield=True):
            await parts.aclose()


async def _settle(parts: Parts) -> None:
    while True:
        try:
            await parts.ownership.settle_all()
        except AdeltaError as error:
            _log.warning("promises cannot be settled: %s", error)
        await anyio.sleep(_SETTLE)


async def _renew(settings: Settings, context: ssl.SSLContext) -> None:
    """Take up a certificate that is put in the place of the first, for later connections."""
    taken = await in_io_thread(_written_at, settings)
    while True:
        await anyio.sleep(_LOOK)
        try:
            found = await in_io_thread(_written_at, settings)
            if found == taken:
                continue
            await in_io_thread(_tls, settings)  # refuses what would break the one that is in use
            context.load_cert_chain(settings.certificate or "", settings.key)
        except (OSError, InvalidOptionError) as error:
            _log.warning("the certificate is not renewed: %s", error)
        else:
            taken = found
            _log.info("the certificate has been renewed")


def _written_at(settings: Settings) -> list[int]:
    """When the files of the certificate were written, in nanoseconds. Raises: OSError."""
    files = [file for file in (settings.certificate, settings.key) if file is not None]
    return [Path(file).stat().st_mtime_ns for file in files]


@contextlib.asynccontextmanager
async def _listening(parts: Parts, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """The port on which requests are answered."""
    settings, limits = parts.settings, parts.limits
    runner = web.AppRunner(
        OwnerService(parts).application(),
        access_log=None,
        keepalive_timeout=limits.idle_seconds,
        lingering_time=_LINGER,
        auto_decompress=False,
        handle_signals=False,
        shutdown_timeout=limits.stop_seconds,
    )
    await runner.setup()
    inner = runner.server
    assert inner is not None
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: parts.guards.protocol(inner),
            settings.host,
            settings.port,
            ssl=context,
            backlog=1024,
            ssl_handshake_timeout=_HANDSHAKE if context else None,
        )
    except OSError as error:
        await runner.cleanup()
        raise InvalidOptionError(
            f"nothing can listen on {settings.host}, port {settings.port}: {error}"
        ) from error
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        parts.is_stopping = True
        parts.announcements.stop()
        parts.turns.stop()
        server.close()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """How connections are encrypted. Raises: InvalidOptionError."""
    if settings.certificate is None:
        if not settings.without_tls and not _is_loopback(settings.host):
            raise InvalidOptionError(
                f"{settings.host} can be reached by other machines, and tokens would be sent there "
                "unencrypted: give a certificate, or say that something before this service "
                "encrypts"
            )
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidOptionError(
            f"{settings.certificate!r} is no certificate with its key, in PEM: {error}"
        ) from error
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
