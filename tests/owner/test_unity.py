"""The service as a Unity Catalog: the client of that one works with tables that it has here."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

import adelta
from adelta import UnityCatalogClient
from adelta._concurrency import map_concurrent
from adelta.commit.owner import ManagedTable, ProposedCommit
from adelta.commit.owner_client import AdeltaOwnerClient
from adelta.errors import (
    InvalidOptionError,
    PermissionDeniedError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.owner.access import Right
from adelta.owner.database import Statement
from adelta.owner.ledger import LedgerLimits
from adelta.owner.table_logs import TableLog
from tests.support.managed_tables import SCHEMA, ids, rows
from tests.support.owners import proposal, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.owners import Owner

NAME = "main.default.trips"
TRIPS = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/default/tables/trips"
FILE = "00000000000000000001.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json"


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Owner]:
    root = str(tmp_path / "tables")
    async with running(tmp_path, managed_root=root, ledger=LedgerLimits(waiting_commits=5)) as one:
        yield one


async def created(owner: Owner, name: str = NAME) -> UnityCatalogClient:
    """B13-11: the place, the table, the name."""
    catalog = UnityCatalogClient(owner.endpoint, name, token=await owner.token())
    staged = await catalog.stage_table()
    with pytest.raises(TableNotFoundError):
        await catalog.location()
    table = await adelta.create_table(
        staged.location, SCHEMA, properties=staged.properties, catalog=catalog
    )
    async with table:
        first = await table.snapshot(version=0)
        for _ in range(2):  # the second where the answer to the first was lost
            await catalog.register_table(staged, first)
    return catalog


async def test_a_table_is_staged_created_registered_written_and_read(owner: Owner) -> None:
    catalog = await created(owner)
    uri = await catalog.location()
    async with adelta.open_table(uri, catalog=catalog) as table:
        for version in (1, 2, 3):
            assert (await adelta.write_table(table, rows(version))).version == version
        await adelta.delete(table, "id = 2")
        await adelta.set_properties(table, {"owner.name": "me"})
        await adelta.unset_properties(table, ["owner.name"])
        await adelta.cluster_by(table, ["id"])
        await adelta.checkpoint(table)
        assert await ids(table) == [1, 3]
        assert (await catalog.get_ratified_commits()).latest_version == 7
        found = await owner.service.parts.names.find_named(NAME)
        assert found is not None
        snapshot, told = await table.snapshot(), json.loads(found.description)
        assert told["properties"] == dict(snapshot.properties)
        assert told["protocol"]["writer-features"] == list(snapshot.protocol.writer_features or ())
        assert told["domain-metadata"] == {"delta.clustering": {"clusteringColumns": [["id"]]}}
    assert await catalog.storage_options(write=True) == {}
    await catalog.aclose()
    async with adelta.open_table(uri) as plain:
        assert await ids(plain) == [1, 3], "all is published"


async def test_writers_race_on_one_table(owner: Owner) -> None:
    await (await created(owner)).aclose()
    token = await owner.token()

    async def write(number: int) -> None:
        catalog = UnityCatalogClient(owner.endpoint, NAME, token=token)
        async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
            for at in range(3):
                await adelta.write_table(table, rows(10 * number + at))

    await map_concurrent(write, range(3), limit=3)
    catalog = UnityCatalogClient(owner.endpoint, NAME, token=token)
    async with adelta.open_table(await catalog.location(), catalog=catalog) as table:
        assert (await table.snapshot()).version == 9
        assert await ids(table) == sorted(10 * n + at for n in range(3) for at in range(3))


def staged(owner: Owner, version: int) -> ProposedCommit:
    """A commit whose file lies beside the log of the one table that there is."""
    (log,) = (owner.folder / "tables").glob("*/_delta_log")
    file = log / "_staged_commits" / f"{version:020d}.{uuid.uuid4()}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"{}\n")
    return ProposedCommit(version, b"{}\n", 1000, "x", file.name, 3, 1000)


@pytest.fixture
def no_backfill(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """For those whose commits are to wait."""
    monkeypatch.setattr(owner.service.parts.backfiller, "wake", lambda _: None)


@pytest.mark.usefixtures("no_backfill")
async def test_a_version_is_ratified_once_and_what_is_published_is_seen_by_the_owner_itself(
    owner: Owner,
) -> None:
    catalog = await created(owner)
    first = staged(owner, 1)
    (file,) = owner.folder.glob(f"tables/*/_delta_log/_staged_commits/{first.staged_file}")
    file.rename(file.with_name("elsewhere"))
    with pytest.raises(StorageError, match="is not there; nothing was ratified"):
        await catalog.commit(first)
    file.write_bytes(b"{}")
    with pytest.raises(StorageError, match="has 2 bytes, not 3; nothing was ratified"):
        await catalog.commit(first)
    file.with_name("elsewhere").rename(file)
    assert (await catalog.commit(first)).ratified
    file.unlink()  # it has been published, say
    assert (await catalog.commit(first)).ratified
    assert not (await catalog.commit(staged(owner, 1))).ratified
    with pytest.raises(StorageError, match="version 2 comes next, not 3"):
        await catalog.commit(staged(owner, 3))
    for version in (2, 3, 4, 5):
        lying = staged(owner, version)
        object.__setattr__(lying, "published_version", version - 1)
        assert (await catalog.commit(lying)).ratified
    kept = await catalog.get_ratified_commits()
    assert [commit.version for commit in kept.commits] == [1, 2, 3, 4, 5]
    assert kept.commits[0].staged_file == first.staged_file
    with pytest.raises(ThrottledError, match="wait to be backfilled"):
        await catalog.commit(staged(owner, 6))
    await catalog.aclose()


async def test_refusals_say_what_is_wrong(owner: Owner, tmp_path: Path) -> None:
    catalog = await created(owner)
    for token, error in (
        ("stolen", PermissionDeniedError),
        (await owner.token(prefix=str(tmp_path / "elsewhere")), PermissionDeniedError),
    ):
        wrong = UnityCatalogClient(owner.endpoint, NAME, token=token)
        for request in (wrong.location(), wrong.commit(staged(owner, 1))):
            with pytest.raises(error):
                await request
        await wrong.aclose()
    reader = UnityCatalogClient(owner.endpoint, NAME, token=await owner.token(Right.READ))
    assert (await reader.get_ratified_commits()).latest_version == 0
    with pytest.raises(PermissionDeniedError, match="allows to read"):
        await reader.commit(staged(owner, 1))
    with pytest.raises(PermissionDeniedError, match="allows to read"):
        await reader.stage_table()
    with pytest.raises(PermissionDeniedError, match="allows to read"):
        await reader.storage_options(write=True)
    nothing = UnityCatalogClient(owner.endpoint, "main.default.none", token=await owner.token())
    with pytest.raises(TableNotFoundError, match="there is no table"):
        await nothing.location()
    with pytest.raises(StorageError, match="already; choose another name"):
        await catalog.stage_table()
    for client in (catalog, reader, nothing):
        await client.aclose()


async def test_of_two_who_make_a_table_of_one_name_each_has_its_own_place_or_none(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = [
        UnityCatalogClient(owner.endpoint, NAME, token=await owner.token()) for _ in range(2)
    ]
    first = await one.stage_table()
    table = await adelta.create_table(
        first.location, SCHEMA, properties=first.properties, catalog=one
    )
    exists = TableLog.exists

    async def later(log: TableLog, version: int) -> bool:  # the other is faster
        await other.stage_table()
        return await exists(log, version)

    monkeypatch.setattr(TableLog, "exists", later)
    async with table:
        with pytest.raises(StorageError, match="another place has been set aside"):
            await one.register_table(first, await table.snapshot(version=0))
    with pytest.raises(TableNotFoundError):
        await other.location()
    await one.aclose()
    await other.aclose()


async def test_an_update_is_for_the_etag_that_it_requires(owner: Owner) -> None:
    """UC Delta API 1.0, `assert-etag`: and a commit that is asked for again is no update."""
    catalog = await created(owner)
    found = await owner.service.parts.names.find_named(NAME)
    assert found is not None
    same = {"type": "assert-table-uuid", "uuid": found.table.table_id}

    async def etag() -> str:
        return str((await _sent(owner, "GET"))[1]["metadata"]["etag"])

    async def update(etag: str, *updates: dict[str, Any]) -> int:
        required = [same, {"type": "assert-etag", "etag": etag}]
        return (await _sent(owner, "POST", {"requirements": required, "updates": [*updates]}))[0]

    def change(value: str) -> dict[str, Any]:
        return {"action": "set-properties", "updates": {"a": value}}

    def commit(version: int) -> dict[str, Any]:
        name = staged(owner, version).staged_file
        told = {"version": version, "timestamp": 1, "file-name": name, "file-size": 3}
        return {"action": "add-commit", "commit": told | {"file-modification-timestamp": 1}}

    first, second = await etag(), commit(2)
    assert await update(first, commit(1)) == 200
    assert await update(first, change("early")) == await update(first, second) == 409
    assert await update(third := await etag(), change("b")) == 200
    assert await update(third, change("late")) == await update(third, second) == 409
    assert await update(fourth := await etag(), second, change("c")) == 200
    assert await update(fourth, second, change("c")) == 200, "it was ratified before"
    names, key = owner.service.parts.names, found.table.table_key
    described = await names.find_named(NAME)
    assert described is not None
    assert json.loads(described.description)["properties"]["a"] == "c"
    assert not await names.describe(key, described.description, "{}", 1), "it has version 2"
    await catalog.aclose()


async def test_commits_to_tables_of_the_catalog_come_by_its_paths_alone(owner: Owner) -> None:
    """Else the catalog would not be told what they change, nor its readers what they hold."""
    catalog = await created(owner)
    found = await owner.service.parts.names.find_named(NAME)
    assert found is not None
    table = ManagedTable(found.table.uri, found.table.table_id)
    client = AdeltaOwnerClient(table, owner.endpoint, await owner.token())
    inline = proposal(1, "x")
    for request in (client.commit, client.release, client.propose):
        with pytest.raises(InvalidOptionError, match="is a table of the catalog"):
            await request(inline)
    with pytest.raises(InvalidOptionError, match="is a table of the catalog"):
        await client.owner.commit_together([(client, inline)])
    assert (await catalog.get_ratified_commits()).latest_version == 0
    await client.aclose()
    await catalog.aclose()


@pytest.mark.usefixtures("no_backfill")
async def test_a_table_is_dropped_from_the_catalog_and_its_name_is_free(owner: Owner) -> None:
    catalog = await created(owner)
    assert (await catalog.commit(staged(owner, 1))).ratified
    second = staged(owner, 2)
    assert (await _sent(owner, "HEAD"))[0] == 204
    assert (await _sent(owner, "DELETE", right=Right.WRITE))[0] == 403
    assert (await _sent(owner, "DELETE"))[0] == 204
    assert (await _sent(owner, "DELETE"))[0] == (await _sent(owner, "HEAD"))[0] == 404
    with pytest.raises(TableNotFoundError):
        await catalog.commit(second)
    assert not await owner.service.parts.ledger.backlog(), "nothing is to be done for it"
    kept = Statement("SELECT version FROM owner_commits")
    assert not await owner.service.parts.database.ask(kept)
    await (await created(owner)).aclose()
    await catalog.aclose()


async def test_clients_learn_what_there_is_of_the_api(owner: Owner) -> None:
    root = "/api/2.1/unity-catalog/delta/v1"
    status, told = await _sent(owner, "GET", path=f"{root}/config?protocol-versions=0.9,1.3")
    assert (status, told["protocol-version"]) == (200, "1.0")
    table = "/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
    assert {f"{method} {table}" for method in ("GET", "POST", "HEAD", "DELETE")} <= {
        *told["endpoints"]
    }
    status, told = await _sent(owner, "GET", path=f"{root}/config?protocol-versions=2.0")
    assert (status, told["error"]["type"]) == (400, "InvalidParameterValueException")
    status, told = await _sent(
        owner, "POST", {}, path=f"{root}/catalogs/a/schemas/b/tables/c/rename"
    )
    assert (status, told["error"]["type"]) == (501, "NotImplementedException")


async def test_a_place_that_nobody_used_is_forgotten(owner: Owner) -> None:
    catalog = UnityCatalogClient(owner.endpoint, NAME, token=await owner.token())
    for _ in range(3):
        await catalog.stage_table()
    assert len(await owner.service.parts.ledger.tables()) == 1
    await catalog.aclose()


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"file-name": f"../{FILE}"}, 400, "InvalidParameterValueException"),
        ({"file-name": FILE.replace("1.", "2.", 1)}, 400, "InvalidParameterValueException"),
        ({"version": "1"}, 400, "InvalidParameterValueException"),
        ({"file-size": -1}, 400, "InvalidParameterValueException"),
        ({"timestamp": None}, 400, "InvalidParameterValueException"),
    ],
)
async def test_hostile_commits_are_refused(
    owner: Owner,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    status: int,
    kind: str,
) -> None:
    catalog = await created(owner)
    monkeypatch.setattr("adelta.owner.unity._LONGEST_DESCRIPTION", 10_000)
    commit = {
        "version": 1, "timestamp": 1, "file-name": FILE, "file-size": 1,
        "file-modification-timestamp": 1, **change,
    }  # fmt: skip
    update = {"action": "add-commit", "commit": commit}
    found = await owner.service.parts.names.find_named(NAME)
    assert found is not None
    same = {"type": "assert-table-uuid", "uuid": found.table.table_id}
    assert await _posted(owner, {"requirements": [same], "updates": [update]}) == (status, kind)
    other = {"type": "assert-table-uuid", "uuid": "another"}
    assert await _posted(owner, {"requirements": [other], "updates": [update]}) == (
        409,
        "UpdateRequirementConflictException",
    )
    for odd in (
        [{"action": "drop-table"}],
        [{"action": "set-columns", "columns": "all"}],
        [{"action": "set-table-comment", "comment": "x" * 10_000}],
        [{"action": "set-protocol", "protocol": {"reader-features": 5}}],
        [{"action": "set-protocol", "protocol": {"writer-features": [{}]}}],
        2 * [{"action": "set-properties", "updates": {"a": "b"}}],
        [
            {"action": "set-properties", "updates": {"a": "b"}},
            {"action": "remove-properties", "removals": ["a"]},
        ],
    ):
        assert await _posted(owner, {"requirements": [same], "updates": odd}) == (
            400,
            "InvalidParameterValueException",
        )
    for required in ([same, same], [{"type": "assert-etag", "etag": "0"}], [same, {"type": "x"}]):
        assert await _posted(owner, {"requirements": required, "updates": [update]}) == (
            400,
            "InvalidParameterValueException",
        )
    assert (await catalog.get_ratified_commits()).latest_version == 0
    await catalog.aclose()


async def _posted(owner: Owner, body: dict[str, Any]) -> tuple[int, str]:
    status, answer = await _sent(owner, "POST", body)
    return status, answer["error"]["type"]


async def _sent(
    owner: Owner, method: str, body: Any = None, *, path: str = TRIPS, right: Right = Right.OWN
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {await owner.token(right)}"}
    data = None if body is None else orjson.dumps(body)
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, owner.endpoint + path, data=data, headers=headers) as response,
    ):
        return response.status, orjson.loads(await response.read() or b"{}")
