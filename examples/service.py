"""A service over one table with FastAPI: append, query, time travel, and a tail of commits.

pip install adelta fastapi uvicorn
TABLE=s3://lake/trips uvicorn --factory examples.service:create_app

POST /rows?id=...      a JSON list of rows; of one `id`, which is client:number, only once
GET  /rows?where=...&columns=...&version=...&timestamp=...&limit=...
GET  /history?limit=...
GET  /commits          server-sent events; `Last-Event-ID`, which browsers send, goes on behind it
"""

from __future__ import annotations

import gc
import json
import os
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
from fastapi import FastAPI, Header, HTTPException, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse

from adelta import Position, history, open_table, tail, write_table
from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    InvalidExpressionError,
    InvalidOptionError,
    InvariantViolationError,
    SchemaMismatchError,
    TableNotFoundError,
    ThrottledError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_STATUS: dict[type[AdeltaError], int] = {
    TableNotFoundError: 404,
    VersionNotFoundError: 404,
    SchemaMismatchError: 400,
    InvariantViolationError: 400,
    InvalidExpressionError: 400,
    InvalidOptionError: 400,
    CommitConflictError: 409,
    ThrottledError: 503,
}


def create_app(uri: str | None = None) -> FastAPI:
    """The application over the table at `uri`, or the one that the variable ``TABLE`` names."""
    address = os.environ["TABLE"] if uri is None else uri

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        async with open_table(address) as table:  # one handle, shared by all requests
            app.state.table = table
            gc.freeze()  # collections need not look at what was loaded until here
            yield

    app = FastAPI(title="A Delta table", lifespan=life)

    @app.exception_handler(AdeltaError)
    async def failed(_: Request, error: AdeltaError) -> JSONResponse:
        kinds = (status for kind, status in _STATUS.items() if isinstance(error, kind))
        return JSONResponse({"error": str(error)}, next(kinds, 500))

    @app.post("/rows")
    async def append(
        request: Request, rows: list[dict[str, Any]], id: str | None = None
    ) -> dict[str, Any]:
        table = request.app.state.table
        txn = None
        if id is not None:
            client, _, number = id.rpartition(":")
            if not client or not number.isdecimal():
                raise HTTPException(400, "id is client:number, such as till-7:42")
            txn = (client, int(number))
        try:
            schema = (await table.snapshot()).schema
            data = pa.Table.from_pylist(rows, schema=schema)
        except TableNotFoundError:
            data = pa.Table.from_pylist(rows)  # the first rows make the table
        except pa.ArrowException as error:
            raise HTTPException(400, str(error)) from error
        done = await write_table(table, data, txn=txn, group_commit=True)
        return {"version": done.version, "rows": done.num_output_rows, "skipped": done.skipped}

    @app.get("/rows")
    async def query(
        request: Request,
        where: str | None = None,
        columns: Annotated[list[str] | None, Query()] = None,
        version: int | None = None,
        timestamp: str | None = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> JSONResponse:
        table = request.app.state.table
        snapshot = await table.snapshot(version=version, timestamp=timestamp)
        found: list[dict[str, Any]] = []
        async with aclosing(snapshot.scan(columns=columns, where=where).batches()) as batches:
            async for batch in batches:
                found += batch.slice(0, limit - len(found)).to_pylist()
                if len(found) == limit:
                    break
        body = {"version": snapshot.version, "rows": found}
        return JSONResponse(json.loads(json.dumps(body, default=str)))

    @app.get("/history")
    async def commits_so_far(request: Request, limit: int = 20) -> list[dict[str, Any]]:
        entries = await history(request.app.state.table, limit)
        return [
            {"version": entry.version, "operation": entry.operation, "at": entry.timestamp}
            for entry in entries
        ]

    @app.get("/commits")
    async def commits(
        request: Request, last_event_id: Annotated[str | None, Header()] = None
    ) -> StreamingResponse:
        since = "latest" if last_event_id is None else Position.parse(last_event_id)
        table = request.app.state.table

        async def events() -> AsyncIterator[str]:
            yield ": following\n\n"
            async with aclosing(tail(table, since, poll=0.5)) as following:
                async for commit in following:
                    data = {"version": commit.version, "operation": commit.info.operation}
                    yield f"id: {commit.position}\ndata: {json.dumps(data)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return app
