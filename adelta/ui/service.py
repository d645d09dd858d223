"""The page over HTTP: files that adelta brings, and answers in JSON about the tables.

Nothing here changes a table: all but signing in are requests to read. Every answer is of bounded
length, and given up where it takes too long, or where its client has gone.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from aiohttp import web

from adelta._async_handle import AsyncHandle
from adelta._secrets import without_secrets
from adelta.errors import (
    AdeltaError,
    InvalidExpressionError,
    InvalidOptionError,
    SchemaMismatchError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.table import open_table
from adelta.ui.access import Access, DeniedError
from adelta.ui.answers import Asked
from adelta.ui.kept import Kept
from adelta.ui.views import VIEWS
from adelta.ui.views.live import follow

if TYPE_CHECKING:
    from adelta.serving.connections import Guards
    from adelta.table import Table
    from adelta.ui.settings import UiSettings
    from adelta.ui.views import View

__all__ = ["UiService"]

_log = logging.getLogger("adelta.ui")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
_STATUS: tuple[tuple[type[AdeltaError], int], ...] = (
    (TableNotFoundError, 404),
    (VersionNotFoundError, 404),
    (InvalidOptionError, 400),
    (InvalidExpressionError, 400),
    (SchemaMismatchError, 400),
)


class UiService(AsyncHandle):
    """Answers requests about some tables, which it opens, inside its block."""

    def __init__(self, settings: UiSettings, guards: Guards) -> None:
        self._settings = settings
        self._guards = guards
        self._access = Access(settings)
        self._opened = AsyncExitStack()
        self._tables: list[Table] = []
        self._kept = Kept()
        self._turns = anyio.CapacityLimiter(settings.limits.at_once)
        self._followers: set[anyio.CancelScope] = set()

    async def __aenter__(self) -> UiService:
        """Open the tables; none is read yet. Raises: InvalidOptionError."""
        for uri in self._settings.uris:
            table = open_table(uri, self._settings.storage_options)
            self._tables.append(await self._opened.enter_async_context(table))
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Close them."""
        await self._opened.aclose()

    def stop(self) -> None:
        """Let those go who follow a table."""
        for scope in list(self._followers):
            scope.cancel()

    def application(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=4096, middlewares=[self._answered])
        app.on_response_prepare.append(_with_headers)
        for file in files("adelta.ui").joinpath("page").iterdir():
            ending = file.name.rpartition(".")[2]
            if ending in _TYPES:
                path = "/" if file.name == "index.html" else f"/page/{file.name}"
                app.router.add_get(path, partial(_file, file.read_bytes(), _TYPES[ending]))
        app.router.add_post("/api/session", self._session)
        app.router.add_get("/api/tables", self._list)
        for name, view in VIEWS.items():
            app.router.add_get(f"/api/tables/{{table}}/{name}", partial(self._view, view))
        app.router.add_get("/api/tables/{table}/tail", self._tail)
        return app

    # ------------------------------------------------------------------------------ each request

    @web.middleware
    async def _answered(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """The answer to a request, or why there is none."""
        self._guards.begun(request)
        try:
            self._access.check_origin(request)
            if request.path.startswith("/api/") and request.path != "/api/session":
                self._access.check_token(request)
            response: web.StreamResponse = await handler(request)
            return response
        except DeniedError as error:
            return _failure(error.status, "Denied", error.message)
        except web.HTTPException as error:
            return _failure(error.status, "Denied", f"{request.method}: {error.reason}")
        except TimeoutError:
            seconds = self._settings.limits.answer_seconds
            return _failure(
                504,
                "Timeout",
                f"this took longer than {seconds:g} s, and was given up; ask for less",
            )
        except AdeltaError as error:
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 502)
            return _failure(status, type(error).__name__, without_secrets(str(error)))
        except Exception:
            _log.exception("a request failed")
            return _failure(500, "Failure", "the service failed; see what it has logged")
        finally:
            self._guards.ended(request)

    async def _session(self, request: web.Request) -> web.Response:
        self._access.check_bearer(request)
        response = web.Response(status=204)
        self._access.give_session(request, response)
        return response

    async def _list(self, _: web.Request) -> web.Response:
        return _json({"tables": [without_secrets(table.uri) for table in self._tables]})

    async def _view(self, view: View, request: web.Request) -> web.Response:
        table = self._table(request)
        with anyio.fail_after(self._settings.limits.answer_seconds):
            async with self._turns:
                return _json(await view(table, Asked(request), self._kept))

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        table = self._table(request)
        if len(self._followers) >= self._settings.limits.followers:
            raise DeniedError(503, "too many follow tables already; try again")
        response = web.StreamResponse()
        with anyio.CancelScope() as scope:
            self._followers.add(scope)
            try:
                await follow(table, request, response)
            finally:
                self._followers.discard(scope)
        return response

    def _table(self, request: web.Request) -> Table:
        text = request.match_info["table"]
        if not (text.isascii() and text.isdecimal() and int(text[:9]) < len(self._tables)):
            raise DeniedError(404, "there is no such table on this page")
        return self._tables[int(text[:9])]


async def _file(content: bytes, kind: str, _: web.Request) -> web.Response:
    return web.Response(body=content, content_type=kind, charset="utf-8")


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


def _failure(status: int, kind: str, message: str) -> web.Response:
    return _json({"error": {"type": kind, "message": message[:4000]}}, status)
