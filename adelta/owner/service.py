"""The service over HTTP: requests in, what ledger, backfiller and ownership say out.

A commit is one request, and one transaction of the ledger; no store is asked on its way, unless it
is too long for the ledger, or staged, or the first one of its table for this process.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from aiohttp import web

from adelta._chance import new_uuid
from adelta._clock import monotonic
from adelta.commit.owner_wire import API, ERRORS, ratified_json
from adelta.errors import AdeltaError
from adelta.owner.access import Grant, NotAuthenticatedError, Right
from adelta.owner.ledger import UnsettledError
from adelta.owner.limits import Answers, Bodies, RefusedError
from adelta.owner.metrics import CONTENT_TYPE
from adelta.owner.requests import (
    asked_number,
    asked_table,
    objects_of,
    parsed,
    proposed_of,
    table_of,
    version_of,
)
from adelta.owner.table_key import lies_below
from adelta.owner.unity import UNITY_NAMES, UnityPaths
from adelta.serving.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.commit.owner import CommitResponse
    from adelta.owner.parts import Parts

    Answer = Callable[[web.Request, Grant, bytes], Awaitable[Mapping[str, Any] | web.Response]]

__all__ = ["OwnerService"]

_log = logging.getLogger("adelta.owner.requests")

_FRESH = 1.0  # seconds for which the ledger is taken to be as it was
_JSON = "application/json"
_PROMISED = "it does not own the table, but would if the commit that says so were in its log"


class OwnerService:
    """Answers the requests of one instance, with its `parts`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        limits = parts.limits
        self._bodies, self._answers = Bodies(limits), Answers(limits)
        self._rates = Rates(limits.requests_per_second, 2 * limits.requests_per_second)
        failures = limits.failures_per_minute
        self._failures = Rates(failures / 60, failures)
        self._looking = anyio.Lock()
        self._looked_at = -math.inf  # when the ledger was looked at, and whether it answered
        self._is_well = False

    def routes(self) -> list[tuple[str, str, Answer]]:
        """Method, path and answer of each request that needs a token."""
        return [
            ("POST", f"{API}/commit", self._commit),
            ("POST", f"{API}/commit-together", self._commit_together),
            ("GET", f"{API}/commits", self._get_commits),
            ("POST", f"{API}/commits-together", self._get_commits_together),
            ("GET", f"{API}/wait", self._wait),
            ("POST", f"{API}/backfill", self._backfill),
            ("POST", f"{API}/propose", self._propose),
            ("POST", f"{API}/accept", self._accept),
            ("POST", f"{API}/release", self._release),
            ("GET", f"{API}/tables", self._tables),
            ("GET", "/metrics", self._metrics),
        ]

    def application(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=self._parts.limits.body_bytes)
        for method, path, answer in self.routes():
            app.router.add_route(method, path, partial(self._handle, answer, path, {}))
        for method, path, answer in UnityPaths(self._parts).routes():
            route = "other" if method == "*" else path
            app.router.add_route(method, path, partial(self._handle, answer, route, UNITY_NAMES))
        app.router.add_route("GET", "/health", self._health)
        app.router.add_route("GET", "/openapi.json", self._openapi)
        app.router.add_route("*", "/{rest:.*}", partial(self._handle, self._nothing, "other", {}))
        return app

    # ----------------------------------------------------------------------------- each request

    async def _handle(
        self, answer: Answer, route: str, names: Mapping[str, str], request: web.Request
    ) -> web.Response:
        """Answer a request, whatever it is: who sent it, what it says, and what to say of it.

        Errors bear the `names` that their API has for them.
        """
        parts, began = self._parts, monotonic()
        parts.guards.begun(request)
        said: dict[str, Any] = {}
        try:
            grant = await self._grant(request)
            said["token"] = grant.token_id
            async with self._bodies.body_of(request) as body:
                told = await answer(request, grant, body)
            response = told if isinstance(told, web.Response) else _json(told)
            await self._answers.send(request, response)
        except RefusedError as error:
            parts.metrics.refused.labels(f"{error.status}").inc()
            kind = names.get(error.kind, error.kind)
            response = _failure(error.status, kind, error.message, wait=error.wait)
            if request.can_read_body and not request.content.is_eof():
                response.force_close()  # the rest of the body would be read for the next request
        except AdeltaError as error:
            response = _refusal(error, names)
            said["error"] = str(error)[:500]
        except UnsettledError:
            response = _failure(404, names.get("TableNotFound", "TableNotFound"), _PROMISED)
        except Exception as error:
            _log.exception("a request failed")
            said["error"] = repr(error)[:500]
            kind = names.get("CommitOutcomeUnknown", "CommitOutcomeUnknown")
            response = _failure(500, kind, "the commit owner failed; see its log")
        finally:
            parts.guards.ended(request)
        seconds = monotonic() - began
        parts.metrics.requests.labels(route, f"{response.status}").inc()
        parts.metrics.seconds.labels(route).observe(seconds)
        level = logging.DEBUG if response.status < 400 else logging.INFO
        if _log.isEnabledFor(level):
            said |= {"request": new_uuid().hex[:12], "method": request.method, "route": route}
            said |= {"status": response.status, "ms": round(1000 * seconds, 2)}
            _log.log(level, "request", extra={"fields": {**said, "from": request.remote}})
        return response

    async def _grant(self, request: web.Request) -> Grant:
        """Who sends a request. Raises: RefusedError."""
        who, header = request.remote or "", request.headers.get("Authorization")
        slowed = self._failures.left(who) < 1  # others may come from there, through a gateway
        try:
            grant = await self._parts.tokens.authenticate(header, known=slowed)
        except NotAuthenticatedError:
            if not self._failures.take(who):
                raise RefusedError(
                    429, "TooManyRequests", "too many requests without a token", wait=10
                ) from None
            raise RefusedError(
                401, "NotAuthenticated", "no token that counts was sent; check it"
            ) from None
        if not self._rates.take(grant.token_id):
            raise RefusedError(429, "TooManyRequests", "the token sends too many requests", wait=1)
        return grant

    # ----------------------------------------------------------------------------------- commits

    async def _commit(self, _: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body = parsed(data)
        table, proposed = table_of(body), proposed_of(body)
        grant.check(table.uri, Right.WRITE)
        return _said(await self._parts.commits.commit(table, proposed))

    async def _commit_together(self, _: web.Request, grant: Grant, data: bytes) -> Any:
        proposals = []
        for each in objects_of(parsed(data), "commits"):
            table, proposed = table_of(each), proposed_of(each)
            grant.check(table.uri, Right.WRITE)
            proposals.append((table, proposed))
        answers = await self._parts.commits.commit_together(proposals)
        return {"answers": [_said(answer) for answer in answers]}

    async def _get_commits(self, request: web.Request, grant: Grant, _: bytes) -> Mapping[str, Any]:
        query = request.query
        table = asked_table(query)
        grant.check(table.uri, Right.READ)
        start, end = asked_number(query, "start"), asked_number(query, "end")
        read = partial(self._parts.ledger.get_commits, table, start, end)
        return ratified_json(await self._parts.ownership.settled([table], read))

    async def _get_commits_together(self, _: web.Request, grant: Grant, data: bytes) -> Any:
        asked = []
        for each in objects_of(parsed(data), "tables"):
            table = table_of(each)
            grant.check(table.uri, Right.READ)
            asked.append((table, version_of(each, "start")))
        read = partial(self._parts.ledger.get_commits_together, asked)
        told = await self._parts.ownership.settled([table for table, _ in asked], read)
        return {"tables": [ratified_json(one) for one in told]}

    async def _wait(self, request: web.Request, grant: Grant, _: bytes) -> Mapping[str, Any]:
        table = asked_table(request.query)
        grant.check(table.uri, Right.READ)
        after = asked_number(request.query, "after") or 0
        seconds = min(asked_number(request.query, "seconds") or 0, self._parts.limits.wait_seconds)
        wait = partial(self._parts.announcements.wait, table, after, seconds)
        return {"latest_version": await self._parts.ownership.settled([table], wait)}

    async def _backfill(self, _: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body = parsed(data)
        table, version = table_of(body), version_of(body)
        grant.check(table.uri, Right.READ)  # it changes nothing that counts
        seconds = self._parts.limits.wait_seconds
        read = partial(self._parts.ledger.get_commits, table, version or 0, version or 0)
        await self._parts.ownership.settled([table], read)
        await self._parts.backfiller.backfill(table, version, seconds)
        return {}

    # --------------------------------------------------------------------------------- ownership

    async def _propose(self, _: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body = parsed(data)
        table, proposed = table_of(body), proposed_of(body, with_content=False)
        grant.check(table.uri, Right.OWN)
        await self._parts.ownership.propose(table, proposed)
        return {}

    async def _accept(self, _: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body = parsed(data)
        table, version = table_of(body), version_of(body)
        grant.check(table.uri, Right.WRITE)  # tidying up, which any later client can do
        await self._parts.ownership.accept(table, version or 0)
        return {}

    async def _release(self, _: web.Request, grant: Grant, data: bytes) -> Mapping[str, Any]:
        body = parsed(data)
        table, proposed = table_of(body), proposed_of(body)
        grant.check(table.uri, Right.OWN)
        seconds = self._parts.limits.wait_seconds / 2
        return _said(await self._parts.commits.release(table, proposed, seconds))

    async def _tables(self, request: web.Request, grant: Grant, _: bytes) -> Mapping[str, Any]:
        after = asked_number(request.query, "after")
        found = await self._parts.ledger.tables(-1 if after is None else after)
        told = [
            {
                "uri": table.uri,
                "table_id": table.table_id,
                "name": table.name,
                "state": table.state,
                "latest_version": table.latest,
                "backfilled_version": table.backfilled,
            }
            for table in found
            if lies_below(table.uri, grant.prefix)
        ]
        return {"tables": told, "next": found[-1].table_key if found else None}

    # ------------------------------------------------------------------------------- the service

    async def _nothing(self, request: web.Request, *_: object) -> web.Response:
        raise RefusedError(404, "InvalidRequest", f"there is no {request.method} of that path")

    async def _metrics(self, *_: object) -> web.Response:
        return web.Response(body=self._parts.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, request: web.Request) -> web.Response:
        """Whether the service and its ledger answer; nothing else is told without a token.

        However often that is asked, the ledger is asked once a second at most.
        """
        self._parts.guards.begun(request)
        try:
            async with self._looking:
                if monotonic() - self._looked_at > _FRESH:
                    self._is_well = await self._ledger_answers()
                    self._looked_at = monotonic()
        finally:
            self._parts.guards.ended(request)
        if not self._is_well:
            return _failure(503, "Unavailable", "the ledger does not answer")
        return _json({"status": "stopping" if self._parts.is_stopping else "ok"})

    async def _ledger_answers(self) -> bool:
        try:
            await self._parts.ledger.tables(limit=0)
        except AdeltaError as error:
            _log.warning("the ledger does not answer: %s", error)
            return False
        return True

    async def _openapi(self, request: web.Request) -> web.Response:
        from adelta.owner.openapi import document

        self._parts.guards.begun(request)
        self._parts.guards.ended(request)
        return _json(document())


def _said(response: CommitResponse) -> dict[str, Any]:
    body: dict[str, Any] = {"ratified": response.ratified}
    if response.latest is not None:
        body["latest"] = ratified_json(response.latest)
    return body


def _json(body: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type=_JSON)


def _failure(status: int, kind: str, message: str, *, wait: int = 0) -> web.Response:
    response = _json({"error": {"type": kind, "message": message, "code": status}}, status)
    if wait:
        response.headers["Retry-After"] = str(wait)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _refusal(error: AdeltaError, names: Mapping[str, str]) -> web.Response:
    """The answer that an error is, by the name that its API has for it."""
    found = [each for each in ERRORS if isinstance(error, each[0])]
    _, name, status = found[0] if found else ERRORS[-1]
    wait = 1 if status in (429, 503) else 0
    return _failure(status, names.get(name, name), str(error), wait=wait)
