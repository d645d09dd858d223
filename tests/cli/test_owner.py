"""`adelta serve` and `adelta owner` as commands: processes, signals, and what they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
from openapi_spec_validator import validate

import adelta
from adelta.cli.main import main
from adelta.commit.owner import ManagedTable
from adelta.commit.owner_client import AdeltaOwnerClient
from adelta.errors import CommitOutcomeUnknownError, StorageError
from adelta.owner.openapi import document
from adelta.owner.parts import Parts, Settings
from adelta.owner.service import OwnerService
from tests.support.owners import Owner, proposal, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A process of the service, and what it says first."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    command = [sys.executable, "-m", "adelta", "serve", "--port", "0", "--json", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    with process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, process.stderr and process.stderr.read()
        try:
            yield process, json.loads(said)
        finally:
            process.kill()


def client_for(folder: Path, said: dict[str, str]) -> AdeltaOwnerClient:
    table = ManagedTable((folder / "orders").as_uri(), "id-of-orders")
    return AdeltaOwnerClient(table, said["endpoint"], said["token"])


async def test_alone_it_works_and_ends_when_told_to_without_a_secret_in_its_logs(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--log-level", "debug") as (process, said):
        owner = Owner(None, tmp_path)  # type: ignore[arg-type]  # only its folder is of use
        client = client_for(tmp_path, said)
        await client.propose(proposal(0, "first"))
        log = owner.folder / "orders" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").write_bytes(proposal(0, "first").content)
        assert (await client.commit(proposal(1, "x"))).ratified
        waits: list[int | None] = []

        async def wait() -> None:
            waits.append(await client.wait_for_commit(1, 0.5))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await client.backfill_to_version()
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert waits == [None]
        assert process.stderr is not None
        logged = [json.loads(line) for line in process.stderr]
        await client.aclose()
    routes = [line.get("route") for line in logged if line["event"] == "request"]
    assert "/api/v1/commit" in routes
    assert said["token"] not in json.dumps(logged)
    assert said["token"].split("_")[2] not in json.dumps(logged)
    assert [*owner.log()] == [0, 1]
    with serving(tmp_path) as (_, again):
        assert again["token"] is None


async def test_a_service_that_is_killed_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, said):
        client = client_for(tmp_path, said)
        await client.propose(proposal(0, "first"))
        log = tmp_path / "orders" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").write_bytes(proposal(0, "first").content)
        done = 0
        async with anyio.create_task_group() as group:

            async def kill() -> None:
                await anyio.sleep(0.1)
                process.kill()

            group.start_soon(kill)
            with suppress(StorageError, CommitOutcomeUnknownError):
                while (await client.commit(proposal(done + 1, f"{done + 1}"))).ratified:
                    done += 1
        await client.aclose()
    with serving(tmp_path) as (_, again):
        client = client_for(tmp_path, {**said, "endpoint": again["endpoint"]})
        told = await client.get_commits()
        assert told.latest_version in (done, done + 1)
        await client.backfill_to_version()
        found = sorted(int(file.stem) for file in log.glob("*.json"))
        assert found == [*range(told.latest_version + 1)]
        for version in range(1, done + 1):
            content = (log / f"{version:020d}.json").read_bytes()
            assert content == proposal(version, f"{version}").content
        await client.aclose()


async def test_it_looks_after_tables_and_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = ("--database", str(tmp_path / "owner.db"))

    async def run(*arguments: str, status: int = 0) -> list[Any]:
        given = ["owner", *arguments, "--json"]
        assert await anyio.to_thread.run_sync(main, given) == status
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    async with running(tmp_path) as owner:
        prefix = ("--prefix", str(tmp_path))
        (made,) = await run("tokens", "create", "--right", "own", *prefix, *database)
        client = await owner.adopted("orders", made["token"])
        await owner.adopted("stock", made["token"])
        await client.commit(proposal(1, "x"))
        monkeypatch.setenv("ADELTA_OWNER_ENDPOINT", owner.endpoint)
        monkeypatch.setenv("ADELTA_OWNER_TOKEN", made["token"])
        (table,) = await run("backfill", str(tmp_path / "orders"))
        assert (table["latest_version"], [*owner.log()]) == (1, [0, 1])
        assert len(await run("backfill")) == 2
        await run("backfill", str(tmp_path / "nothing"), status=1)
        capsys.readouterr()
        told = await run("status")
        assert {t["uri"].rpartition("/")[2]: t["latest_version"] for t in told} == {
            "orders": 1,
            "stock": 0,
        }
        (other,) = await run("tokens", "rotate", made["id"], "--keep", "1 hour", *database)
        await run("tokens", "revoke", other["id"], *database)
        tokens = await run("tokens", "list", *database)
        assert [token["revokedMs"] is None for token in tokens] == [True, False, False]
        assert made["token"] not in str(tokens)
        monkeypatch.delenv("ADELTA_OWNER_ENDPOINT")
        assert await anyio.to_thread.run_sync(main, ["owner", "status"]) == 2
        assert "which commit owner?" in capsys.readouterr().err


async def test_tables_are_taken_over_and_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*arguments: str) -> str:
        assert await anyio.to_thread.run_sync(main, ["owner", *arguments]) == 0
        return capsys.readouterr().out

    uri = str(tmp_path / "orders")
    await adelta.write_table(uri, pa.table({"id": [1]}))
    async with running(tmp_path) as owner:
        monkeypatch.setenv("ADELTA_OWNER_ENDPOINT", owner.endpoint)
        monkeypatch.setenv("ADELTA_OWNER_TOKEN", await owner.token())
        assert "From version 1 on" in await run("adopt", uri)
        assert "Nothing to change" in await run("adopt", uri)
        assert (await adelta.write_table(uri, pa.table({"id": [2]}), mode="append")).version == 2
        assert owner.asked()["/api/v1/commit"] == 1
        assert "owned" in await run("status")
        assert "up to version 2." in await run("recover", uri)
        assert "From version 3 on" in await run("release", uri)
        assert [*owner.log()] == [0, 1, 2, 3]


async def test_the_document_of_the_api_says_every_route_and_none_else(tmp_path: Path) -> None:
    validate(document())
    parts = await Parts.open(Settings(str(tmp_path / "owner.db")))
    app = OwnerService(parts).application()
    served = {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "*"
    }
    paths = document()["paths"].items()
    told = {(method, path) for path, item in paths for method in item if method != "parameters"}
    assert told == served
    await parts.aclose()


def test_there_are_no_more_connections_than_the_system_lets_a_process_have_files() -> None:
    """Its limit is raised where it may be: mostly it is lower than what a service needs."""
    code = (
        "from resource import RLIMIT_NOFILE as files, getrlimit, setrlimit\n"
        "from adelta.serving.open_files import room_for_connections\n"
        "for limits in ((900, 1000), (100, 1000), (100, 600)):\n"
        "    setrlimit(files, limits)\n"
        "    print(room_for_connections(400), getrlimit(files)[0])\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.split("\n")[:-1] == ["400 900", "400 656", "344 600"]


async def test_what_it_counts_is_told_to_whoever_has_a_token(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        client = await owner.adopted()
        await client.commit(proposal(1, "x"))
        await client.commit(proposal(1, "y"))
        await client.backfill_to_version()
        text = owner.service.parts.metrics.text().decode()
    assert 'adelta_owner_commits_total{outcome="ratified"} 1.0' in text
    assert 'adelta_owner_commits_total{outcome="lost"} 1.0' in text
    assert "adelta_owner_backfilled_commits_total 1.0" in text
    assert "\nprocess_cpu_seconds_total " in text
    assert 'adelta_owner_requests_total{route="/api/v1/commit",status="200"} 2.0' in text
