"""Unity Catalog's REST API for Delta clients: tables created, read and written through it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import adelta
import adelta.sync
from adelta import UnityCatalogClient
from adelta._concurrency import map_concurrent
from adelta.errors import (
    AdeltaError,
    InvalidOptionError,
    PermissionDeniedError,
    StorageError,
    TableNotFoundError,
)
from adelta.storage.resolve import open_store
from tests.support.managed_tables import SCHEMA, NeverPublishing, handle, ids, rows
from tests.support.unity_catalog import TOKEN

if TYPE_CHECKING:
    from tests.support.unity_catalog import UnityServer

NAME = "main.default.trips"
ROOT = Path(__file__).resolve().parents[2]


def client(server: UnityServer, name: str = NAME, token: str = TOKEN) -> UnityCatalogClient:
    return UnityCatalogClient(server.endpoint, name, token=token, timeout=10)


async def created(server: UnityServer) -> UnityCatalogClient:
    """B13-11: the place, the table, the name."""
    catalog = client(server)
    staged = await catalog.stage_table()
    table = await adelta.create_table(
        staged.location,
        SCHEMA,
        properties=staged.properties,
        storage_options=staged.storage_options,
        catalog=catalog,
    )
    async with table:
        await catalog.register_table(staged, await table.snapshot(version=0))
    server.requests()
    return catalog


async def test_a_table_is_staged_created_registered_written_and_read(
    unity_server: UnityServer,
) -> None:
    """B13-11, B13-12, with what the catalog asks for; a commit is one request to it."""
    catalog = await created(unity_server)
    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        snapshot = await table.snapshot()
        assert snapshot.version == 0
        assert snapshot.properties["io.unitycatalog.tableId"] in table.uri
        assert snapshot.properties["delta.checkpointPolicy"] == "v2"
        unity_server.requests()
        for version in (1, 2, 3):
            assert (await adelta.write_table(table, rows(version))).version == version
            assert unity_server.requests() == [("POST", "trips")]
        assert await ids(table) == [1, 2, 3]
        assert unity_server.requests() == [("GET", "trips")]
        kept = await catalog.get_ratified_commits()
        assert kept.latest_version == 3
        assert [c.version for c in kept.commits] == [3], "it knows that 2 is published"
        assert (await catalog.get_ratified_commits(1, 2)).commits == ()
        await adelta.delete(table, "id = 2")
        await adelta.checkpoint(table)
    async with adelta.open_table(table.uri, catalog=client(unity_server)) as other:
        assert await ids(other) == [1, 3]
        assert await ids(other, version=2) == [1, 2]


async def test_its_protocols_names_are_on_the_wire(unity_server: UnityServer) -> None:
    """The body of a commit, name by name, as the API has it."""
    catalog = await created(unity_server)
    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        for number in (1, 2):
            await adelta.write_table(table, rows(number))
        stamp = (await table.snapshot()).timestamp
    with unity_server.state() as base:
        (text,) = base.execute(
            "select body from requests where body like '%add-commit%'"
        ).fetchall()[1]
    body = json.loads(text)
    (requirement,), (added, told) = body["requirements"], body["updates"]
    assert requirement == {"type": "assert-table-uuid", "uuid": table.uri.rpartition("/")[2]}
    assert told == {"action": "set-latest-backfilled-version", "latest-published-version": 1}
    commit = added["commit"]
    staged = folder(table.uri) / "_delta_log" / "_staged_commits" / commit.pop("file-name")
    assert added["action"] == "add-commit"
    assert abs(commit.pop("file-modification-timestamp") - staged.stat().st_mtime * 1000) < 2
    assert commit == {
        "version": 2,
        "timestamp": round(stamp.timestamp() * 1000),
        "file-size": staged.stat().st_size,
    }


def folder(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


@pytest.mark.parametrize("fault", ["unheard", "lost", "broken", "busy"])
async def test_a_commit_whose_answer_is_lost_is_there_once(
    unity_server: UnityServer, fault: str
) -> None:
    catalog = await created(unity_server)
    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        await adelta.write_table(table, rows(1))
        unity_server.fail(fault)
        assert (await adelta.write_table(table, rows(2))).version == 2
        unity_server.fail(fault, fault)
        assert (await adelta.write_table(table, rows(3))).version == 3
        assert await ids(table) == [1, 2, 3]
    async with adelta.open_table(table.uri, catalog=client(unity_server)) as other:
        assert (await other.snapshot()).version == 3
        assert await ids(other) == [1, 2, 3]


async def test_unpublished_commits_are_published_when_the_catalog_keeps_no_more(
    unity_server: UnityServer,
) -> None:
    """It keeps ten; the writer that meets the limit publishes what others have left."""
    catalog = await created(unity_server)
    uri = await catalog.location()
    store = open_store(uri)
    lazy = handle(NeverPublishing(store), catalog)
    for number in range(1, 11):
        await adelta.write_table(lazy, rows(number))
    async with adelta.open_table(uri) as plain:
        assert (await plain.snapshot()).version == 0
    with pytest.raises(StorageError, match="cannot be published"):
        await adelta.write_table(lazy, rows(11))
    async with adelta.open_table(uri, catalog=catalog) as table:
        assert (await adelta.write_table(table, rows(11))).version == 11
        assert await ids(table) == list(range(1, 12))
    async with adelta.open_table(uri) as plain:
        assert (await plain.snapshot()).version == 11
    await store.aclose()


async def test_a_lost_race_is_rebased(unity_server: UnityServer) -> None:
    catalog = await created(unity_server)
    uri = await catalog.location()
    async with (
        adelta.open_table(uri, catalog=catalog) as mine,
        adelta.open_table(uri, catalog=client(unity_server)) as other,
    ):
        await mine.snapshot()
        await adelta.write_table(other, rows(1))
        unity_server.requests()
        assert (await adelta.write_table(mine, rows(2))).version == 2
        asked = [method for method, _ in unity_server.requests()]
        assert asked == ["POST", "GET", "POST"]


_WRITER = """
import asyncio, sys, pyarrow as pa, adelta

async def main(endpoint, name, token, number):
    catalog = adelta.UnityCatalogClient(endpoint, name, token=token)
    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        for at in range(4):
            await adelta.write_table(table, pa.table({"id": [int(number) * 100 + at]}))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_race_on_one_table(unity_server: UnityServer) -> None:
    catalog = await created(unity_server)

    async def write(number: int) -> None:
        arguments = [unity_server.endpoint, NAME, TOKEN, str(number)]
        done = await anyio.run_process(
            [sys.executable, "-c", _WRITER, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    await map_concurrent(write, range(3), limit=3)
    uri = await catalog.location()
    async with adelta.open_table(uri, catalog=catalog) as table:
        assert await ids(table) == sorted(n * 100 + at for n in range(3) for at in range(4))
        assert (await table.snapshot()).version == 12
    async with adelta.open_table(uri) as plain:
        assert (await plain.snapshot()).version == 12, "all are published"


def test_blocking_code_uses_it_too(unity_server: UnityServer) -> None:
    async def prepare() -> tuple[UnityCatalogClient, str]:
        catalog = await created(unity_server)
        uri = await catalog.location()
        await catalog.aclose()
        return catalog, uri

    catalog, uri = asyncio.run(prepare())
    with adelta.sync.open_table(uri, catalog=catalog) as table:
        adelta.sync.write_table(table, rows(1))
        assert table.snapshot().version == 1
    with adelta.sync.open_table(uri, catalog=pickle.loads(pickle.dumps(catalog))) as table:
        assert table.snapshot().scan().to_arrow() == rows(1)


async def test_credentials_become_storage_options(unity_server: UnityServer) -> None:
    catalog = await created(unity_server)
    assert await catalog.storage_options() == {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "READ",
    }
    assert (await catalog.storage_options(write=True))["aws_secret_access_key"] == "READ_WRITE"
    await catalog.aclose()


async def test_the_catalog_is_told_what_a_commit_changes_of_its_description(
    unity_server: UnityServer,
) -> None:
    """Each change with the commit that makes it: the description is always that of the log."""
    catalog = await created(unity_server)

    async def check(*asked: str) -> None:
        assert [method for method, _ in unity_server.requests()] == [*asked]
        snapshot = await table.snapshot()
        told = unity_server.description(NAME)
        assert told["properties"] == dict(snapshot.properties)
        assert told["columns"] == json.loads(snapshot.metadata.schema_string)
        assert told["partition-columns"] == list(snapshot.partition_columns)
        assert told["protocol"]["writer-features"] == list(snapshot.protocol.writer_features or ())
        assert told["protocol"]["reader-features"] == list(snapshot.protocol.reader_features or ())
        known = ("delta.clustering", "delta.rowTracking")
        domains = {k: json.loads(v) for k, v in (await snapshot.domain_metadata()).items()}
        assert told["domain-metadata"].keys() == domains.keys() & {*known}
        for name, value in told["domain-metadata"].items():
            assert value.items() <= domains[name].items()
        unity_server.requests()

    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        await adelta.write_table(table, rows(1))
        await table.snapshot()
        unity_server.requests()
        await adelta.set_properties(table, {"owner.name": "me", "delta.appendOnly": "false"})
        await check("GET", "POST")
        await adelta.unset_properties(table, ["owner.name"])
        await check("GET", "POST")
        await adelta.add_columns(table, pa.schema([("x", pa.int64())]))
        await check("GET", "POST")
        await adelta.add_feature(table, "checkConstraints")
        await check("GET", "POST")
        await adelta.cluster_by(table, ["id"])
        await adelta.set_properties(table, {"delta.enableRowTracking": "true"})
        unity_server.requests()
        await adelta.write_table(table, pa.table({"id": [1, 2], "x": [3, 4]}))
        await check("POST")
        assert unity_server.description(NAME)["domain-metadata"] == {
            "delta.clustering": {"clusteringColumns": [["id"]]},
            "delta.rowTracking": {"rowIdHighWaterMark": 2},
        }
        await adelta.cluster_by(table, [])
        await adelta.write_table(
            table, pa.table({"id": [1], "y": ["z"]}), mode="overwrite", schema_mode="overwrite"
        )
        unity_server.requests()
        await check()


async def test_refusals_say_what_is_wrong(unity_server: UnityServer) -> None:
    catalog = await created(unity_server)
    uri = await catalog.location()
    await catalog.aclose()
    for wrong, error in (
        (client(unity_server, token="stolen"), PermissionDeniedError),
        (client(unity_server, "main.default.none"), TableNotFoundError),
        (UnityCatalogClient(f"{unity_server.endpoint}/elsewhere", NAME, token=TOKEN), StorageError),
    ):
        async with adelta.open_table(uri, catalog=wrong) as table:
            with pytest.raises(error):
                await table.snapshot()
    with pytest.raises(InvalidOptionError, match=r"catalog\.schema\.table"):
        UnityCatalogClient(unity_server.endpoint, "trips")
    with pytest.raises(InvalidOptionError, match="no address"):
        UnityCatalogClient("unity", NAME)


async def test_a_table_that_was_dropped_and_made_again_is_another_one(
    unity_server: UnityServer,
) -> None:
    catalog = await created(unity_server)
    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        await adelta.write_table(table, rows(1))
        with unity_server.state() as base:
            base.execute("delete from tables")
        again = await created(unity_server)
        for use in (adelta.write_table(table, rows(2)), table.snapshot()):
            with pytest.raises(TableNotFoundError, match="another table"):
                await use
    await again.aclose()


TABLE = {"table-uuid": "1", "location": "s3://b/t"}
COMMIT = {"version": 1, "file-name": "x", "file-size": 1, "file-modification-timestamp": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[1, 2]",
        b"{}",
        b'{"metadata": 7}',
        {"metadata": {}},
        {"metadata": {"table-uuid": "1"}},
        {"metadata": TABLE},
        {"metadata": TABLE, "latest-table-version": "many"},
        {"metadata": TABLE, "latest-table-version": 1, "commits": [7]},
        {"metadata": TABLE, "latest-table-version": 1, "commits": [{"version": 1}]},
        {"metadata": TABLE, "latest-table-version": 1, "commits": [COMMIT]},
        {"metadata": TABLE, "latest-table-version": 1, "commits": {"a": "b"}},
        {"metadata": TABLE, "storage-credentials": [7], "required-properties": [1]},
        {"metadata": TABLE, "storage-credentials": 7, "table-id": "1"},
        {"storage-credentials": [{"prefix": 1, "config": 7}], "table-id": "1", "location": 7},
        {"storage-credentials": [{"config": {"gcs.oauth-token": "x"}}], "required-protocol": "x"},
    ],
)
async def test_an_answer_that_is_not_the_apis_is_an_error_that_says_so(body: object) -> None:
    async def answer(_: web.Request) -> web.Response:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=text)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    async with TestServer(app) as server:
        catalog = UnityCatalogClient(str(server.make_url("")), NAME)
        with pytest.raises(AdeltaError):
            await catalog.get_ratified_commits()
        for question in (catalog.location, catalog.storage_options, catalog.stage_table):
            with contextlib.suppress(AdeltaError):
                await question()
        await catalog.aclose()
