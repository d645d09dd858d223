"""The commit owner as a server: what runs beside the requests, and its end.

It stops gracefully: it takes no new connections, lets long polls go and requests end, and leaves
what is still to be backfilled to the ledger, from which the next start goes on.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.errors import AdeltaError
from adelta.owner.access import Right
from adelta.owner.parts import Parts
from adelta.owner.service import OwnerService
from adelta.serving.listening import Address, listening, renew_certificate, tls_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.owner.parts import Settings

__all__ = ["RunningOwner", "running_owner"]

_log = logging.getLogger("adelta.owner.server")

_SETTLE = 30.0  # seconds between two looks for promises that nobody has settled


@dataclass(frozen=True, slots=True)
class RunningOwner:
    """A service that runs.

    Attributes:
        endpoint: where it answers, as tables and clients name it.
        first_token: a token that may do everything, where the ledger had none before.
        parts: what it consists of.
    """

    endpoint: str
    first_token: str | None = field(repr=False)
    parts: Parts


@contextlib.asynccontextmanager
async def running_owner(settings: Settings) -> AsyncIterator[RunningOwner]:
    """A service that runs until the block is left.

    Raises:
        InvalidOptionError: the settings are none that it could run with.
        StorageError: the database cannot be reached.
    """
    address = Address(
        settings.host, settings.port, settings.certificate, settings.key, settings.without_tls
    )
    context = await in_io_thread(tls_of, address)
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
                group.start_soon(renew_certificate, address, context)
            group.start_soon(partial(parts.backfiller.run, sweep=settings.sweep_seconds))
            try:
                async with listening(
                    OwnerService(parts).application(),
                    address,
                    context,
                    parts.guards,
                    idle_seconds=parts.limits.idle_seconds,
                    stop_seconds=parts.limits.stop_seconds,
                    on_stop=parts.stop,
                ) as port:
                    yield RunningOwner(address.url(port), first_token, parts)
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
