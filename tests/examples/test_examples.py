"""The programs in `examples` do what they say, against real servers and as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pyarrow as pa
import pytest

import adelta
from tests.support.depth import DEEP
from tests.support.local_servers import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.anyio


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}


# ---------------------------------------------------------------------------------------- service


@asynccontextmanager
async def service(uri: str) -> AsyncIterator[aiohttp.ClientSession]:
    """`examples/service.py` under uvicorn, and a client of it."""
    pytest.importorskip("fastapi")
    uvicorn = pytest.importorskip("uvicorn")
    from examples.service import create_app

    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(create_app(uri), port=port, log_level="error", timeout_graceful_shutdown=1)
    )
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110  (it tells in no other way)
            await asyncio.sleep(0.01)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield session
    finally:
        server.should_exit = True
        await running


async def answer(response: Any) -> tuple[int, Any]:
    async with response as got:
        return got.status, await got.json()


async def test_a_service_appends_once_reads_any_version_and_tells_of_commits(
    tmp_path: Path,
) -> None:
    async with service(str(tmp_path / "t")) as http:
        assert (await answer(http.get("/rows")))[0] == 404
        rows = [{"city": "Bern", "km": 3.5}, {"city": "Oslo", "km": 7.0}]
        assert (await answer(http.post("/rows", json=rows)))[1]["version"] == 0
        async with http.get("/commits") as events:
            assert (await events.content.readuntil(b"\n\n")).startswith(b":")
            more = [{"city": "Rome", "km": 1.0}]
            for skipped in (False, True):  # the client did not hear the answer, and asks again
                status, said = await answer(http.post("/rows?id=till:1", json=more))
                assert (status, said["skipped"]) == (200, skipped)
            event = (await events.content.readuntil(b"\n\n")).decode()
        fields = dict(line.split(": ", 1) for line in event.splitlines() if line)
        assert json.loads(fields["data"]) == {"version": 1, "operation": "WRITE"}
        assert (await answer(http.post("/rows", json=more)))[1]["version"] == 2
        async with http.get("/commits", headers={"Last-Event-ID": fields["id"]}) as events:
            await events.content.readuntil(b"\n\n")
            assert b'"version": 2' in await events.content.readuntil(b"\n\n")
        where = {"where": "km > 2", "columns": "city"}
        assert (await answer(http.get("/rows", params=where)))[1]["rows"] == [
            {"city": "Bern"},
            {"city": "Oslo"},
        ]
        assert len((await answer(http.get("/rows?version=0")))[1]["rows"]) == 2
        assert (await answer(http.get("/rows?version=9")))[0] == 404
        assert (await answer(http.get("/rows", params={"where": "nope = 1"})))[0] == 400
        assert (await answer(http.post("/rows", json=[{"km": "far"}])))[0] == 400
        assert [each["version"] for each in (await answer(http.get("/history")))[1]] == [2, 1, 0]


# ------------------------------------------------------------------------------------- PostgreSQL


async def test_changes_are_in_postgresql_once_whenever_the_copy_is_killed(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    uri, name = str(tmp_path / "customers"), f"customers_{os.getpid()}"
    rows = pa.table({"id": range(300), "name": [f"n{n}" for n in range(300)]})
    await adelta.write_table(uri, rows, properties={"delta.enableChangeDataFeed": "true"})
    program = [sys.executable, "examples/to_postgresql.py", uri, postgres_server.address, name]
    connection = await postgres_server.connect()

    async def copied() -> list[tuple[int, str]]:
        if await connection.fetchval("SELECT to_regclass($1)", name) is None:
            return []
        return [tuple(row) for row in await connection.fetch(f"SELECT id, name FROM {name}")]

    try:
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            *program, "id", "--port", str(port), cwd=ROOT, env=environment()
        )
        try:
            async with asyncio.timeout(60):
                while len(await copied()) < 300:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
                async with aiohttp.ClientSession() as http:
                    _, behind = await answer(http.get(f"http://127.0.0.1:{port}/lag"))
            assert behind["versions"] == 0
        finally:
            process.kill()
            await process.wait()
        await adelta.update(uri, {"name": "'new'"}, "id = 7")
        await adelta.delete(uri, "id >= 10")
        await adelta.write_table(uri, pa.table({"id": [999], "name": ["late"]}))
        from examples.to_postgresql import copy

        for _ in range(2):  # the second finds nothing to do
            await copy(uri, postgres_server.address, name, "id", follow=False)
            assert dict(await copied()) == {
                **{n: f"n{n}" for n in range(10)},
                7: "new",
                999: "late",
            }
    finally:
        await connection.close()


# -------------------------------------------------------------------------------------- daily job


async def test_a_day_is_loaded_once_however_often_the_job_runs(tmp_path: Path) -> None:
    from examples.daily_job import run

    source, uri = tmp_path / "sales.csv", str(tmp_path / "sales")
    header = "day,shop,amount\n"
    source.write_text(header + "2026-11-23,a,1.50\n2026-11-24,a,2.00\n2026-11-24,b,3.00\n")
    first, second = date(2026, 11, 23), date(2026, 11, 24)

    async def total() -> dict[date, int]:
        async with adelta.open_table(uri) as table:
            found = (await (await table.snapshot()).scan().to_arrow()).to_pylist()
        cents = {first: 0, second: 0}
        for row in found:
            cents[row["day"]] += int(row["amount"] * 100)
        return cents

    assert (await run(source, uri, second)).num_output_rows == 2
    assert (await run(source, uri, first)).num_output_rows == 1
    assert (await run(source, uri, second)).skipped
    assert await total() == {first: 150, second: 500}
    source.write_text(header + "2026-11-23,a,1.50\n2026-11-24,b,4.00\n")
    done = await asyncio.gather(*(run(source, uri, second) for _ in range(3)))  # retried by three
    assert sum(not each.skipped for each in done) == 1
    assert await total() == {first: 150, second: 400}


# ------------------------------------------------------------------------------------------ Spark


@pytest.mark.skipif(not DEEP, reason="a Spark of its own; the pages of the docs run the same calls")
def test_a_job_of_spark_submit_may_be_run_again(tmp_path: Path) -> None:
    from adelta.spark.session.java import ensure_java

    ensure_java()
    source, target, python = tmp_path / "raw", str(tmp_path / "orders"), sys.executable
    source.mkdir()
    for lines in (
        '{"id": 1, "state": "new"}\n{"id": 2, "state": "new"}\n',
        '{"id": 2, "state": "sent"}\n',
    ):
        (source / "rows.json").write_text(lines)
        for _ in range(2):
            submit = [str(Path(python).parent / "spark-submit"), "--master", "local[1]"]
            subprocess.run(
                [*submit, "examples/spark_job.py", str(source), target, "id"],
                cwd=ROOT,
                env=environment(
                    PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable
                ),
                check=True,
                timeout=550,
            )
    found = adelta.sync.open_table(target).snapshot().scan().to_arrow()
    assert sorted((row["id"], row["state"]) for row in found.to_pylist()) == [
        (1, "new"),
        (2, "sent"),
    ]
