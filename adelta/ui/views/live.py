"""The live tail: each commit as it comes, as a server-sent event, whose id is its version."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import orjson

from adelta._concurrency import in_thread
from adelta._secrets import without_secrets
from adelta.changes.tail import tail
from adelta.errors import AdeltaError
from adelta.operations.inspect.commit_summary import summary_of
from adelta.ui.views.history import commit_json

if TYPE_CHECKING:
    from aiohttp import web

    from adelta.table import Table

__all__ = ["follow"]

_BEAT = 15.0  # seconds between two signs of life, without which proxies hang up


async def follow(table: Table, request: web.Request, response: web.StreamResponse) -> None:
    """Tell of commits for as long as the client listens; it goes on after the last it has had."""
    response.content_type = "text/event-stream"
    await response.prepare(request)
    last = request.headers.get("Last-Event-ID", "")
    known = last.isascii() and last.isdecimal() and len(last) < 19
    if known:
        since = int(last) + 1
    else:
        since = (await table.snapshot()).version + 1
        await response.write(b"event: ready\ndata: " + str(since - 1).encode() + b"\n\n")
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_beat, response)
            async with aclosing(tail(table, since)) as commits:
                async for commit in commits:
                    told = commit_json(await in_thread(summary_of, commit))
                    await response.write(_event("commit", commit.version, orjson.dumps(told)))
    except* AdeltaError as errors:
        message = without_secrets(str(errors.exceptions[0]))[:4000]
        await response.write(_event("failure", None, orjson.dumps({"message": message})))
    except* ConnectionError:
        pass  # the client has gone


def _event(name: str, number: int | None, data: bytes) -> bytes:
    at = b"" if number is None else f"id: {number}\n".encode()
    return b"event: " + name.encode() + b"\n" + at + b"data: " + data + b"\n\n"


async def _beat(response: web.StreamResponse) -> None:
    while True:
        await anyio.sleep(_BEAT)
        await response.write(b": still here\n\n")
