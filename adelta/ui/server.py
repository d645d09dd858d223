"""The page as a server, which runs until its block is left."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.serving.connections import Guards
from adelta.serving.listening import listening, renew_certificate, tls_of
from adelta.ui.service import UiService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.ui.settings import UiSettings

__all__ = ["RunningUi", "new_token", "running_ui"]


@dataclass(frozen=True, slots=True)
class RunningUi:
    """A page that is served.

    Attributes:
        endpoint: where it is.
        address: what to open in a browser: with the token, which stays in the browser.
    """

    endpoint: str
    address: str


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


@contextlib.asynccontextmanager
async def running_ui(settings: UiSettings) -> AsyncIterator[RunningUi]:
    """The page, served until the block is left.

    Raises:
        InvalidOptionError: it cannot be served so, or a table's address or option is none.
    """
    context = await in_io_thread(tls_of, settings.address)
    limits = settings.limits
    guards = Guards(limits)
    failure: Exception | None = None
    async with UiService(settings, guards) as service, anyio.create_task_group() as group:
        if context is not None:
            group.start_soon(renew_certificate, settings.address, context)
        try:
            async with listening(
                service.application(),
                settings.address,
                context,
                guards,
                idle_seconds=limits.idle_seconds,
                stop_seconds=limits.stop_seconds,
                on_stop=service.stop,
                cancels=True,
            ) as port:
                endpoint = settings.address.url(port)
                token = "" if settings.token is None else f"#token={settings.token}"
                yield RunningUi(endpoint, f"{endpoint}/{token}")
        except Exception as error:  # raised below as itself, not in a group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
