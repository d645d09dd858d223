"""Delta Spark's commit coordinator in DynamoDB: its entries, read and written, on dynalite."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

import adelta
from adelta._concurrency import map_concurrent
from adelta.commit.dynamodb_owner import dynamodb_owner
from adelta.commit.owner import ManagedTable, ProposedCommit
from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.kernel.log_path import COMMITS_DIR, STAGED_DIR, commit_path
from adelta.storage.dynamodb import DynamoTable
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.dynamo_server import DynamoServer

SCHEMA = pa.schema([("id", pa.int64())])
COORDINATED = "coordinatedCommits-preview"
CONF = "delta.coordinatedCommits.commitCoordinatorConf-preview"
TABLE_CONF = "delta.coordinatedCommits.tableConf-preview"


@dataclass(frozen=True)
class Place:
    uri: str
    options: dict[str, str]
    conf: dict[str, str]
    items: DynamoTable

    async def conf_of_table(self) -> dict[str, str]:
        async with adelta.open_table(self.uri, self.options) as table:
            properties = (await table.snapshot()).metadata.configuration
        return {**orjson.loads(properties[TABLE_CONF])}

    async def item(self) -> Any:
        found = await self.items.get((await self.conf_of_table())["tableId"])
        assert found is not None
        return found

    async def append(self, *ids: int) -> int | None:
        rows = pa.table({"id": pa.array(ids, pa.int64())})
        return (await adelta.write_table(self.uri, rows, storage_options=self.options)).version

    async def ids(self) -> list[int]:
        async with adelta.open_table(self.uri, self.options) as table:
            found = await (await table.snapshot()).scan().to_arrow()
        return sorted(found.column("id").to_pylist())

    async def adopt(self) -> None:
        conf = self.conf
        await adelta.adopt_table(
            self.uri, "dynamodb", conf, feature=COORDINATED, storage_options=self.options
        )


@pytest.fixture
async def place(tmp_path: Path, dynamo_server: DynamoServer) -> AsyncIterator[Place]:
    conf = {
        "dynamoDBTableName": f"commits-{uuid.uuid4().hex[:12]}",
        "dynamoDBEndpoint": dynamo_server.endpoint,
    }
    options = {
        "aws_region": "eu-north-1",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "allow_http": "true",
        "aws_endpoint_url_dynamodb": dynamo_server.endpoint,
    }
    named = {**options, "delta_dynamo_table_name": conf["dynamoDBTableName"]}
    items = DynamoTable(parse_dynamo_options(named, {}), partition="tableId")
    yield Place(f"{tmp_path.as_uri()}/t", options, conf, items)
    await items.aclose()


async def test_entries_are_delta_sparks(place: Place) -> None:
    """Names, kinds and values as `DynamoDBCommitCoordinatorClient` registers and commits."""
    await place.append(1)
    await place.adopt()
    table_id = (await place.conf_of_table())["tableId"]
    path = f"file:{place.uri[7:]}"  # as Hadoop writes it
    registered = {
        "tableId": table_id,
        "tableVersion": 1,
        "hasAcceptedCommits": False,
        "acceptingCommits": True,
        "path": path,
        "commits": [],
        "schemaVersion": 1,
    }
    assert await place.item() == registered
    assert await place.append(2) == 2
    item = await place.item()
    (commit,) = item.pop("commits")
    stamp = item.pop("tableTimestamp")
    assert item == {
        **{k: v for k, v in registered.items() if k != "commits"},
        "tableVersion": 2,
        "hasAcceptedCommits": True,
    }
    staged = [m async for page in open_store(place.uri).list(STAGED_DIR) for m in page]
    assert {k: v for k, v in commit.items() if k != "fsTimestamp"} == {
        "version": 2,
        "timestamp": stamp,
        "fsName": staged[0].path.removeprefix(STAGED_DIR),
        "fsLength": staged[0].size,
    }
    assert commit["fsTimestamp"] == staged[0].last_modified_ms
    assert await place.append(3) == 3
    assert [c["version"] for c in (await place.item())["commits"]] in ([3], [2, 3])
    assert await place.ids() == [1, 2, 3]


async def test_a_commit_of_sparks_that_is_not_published_is_read_and_published(
    place: Place,
) -> None:
    """Delta Spark 3.3 keeps it in another folder than 4.0."""
    await place.append(1)
    await place.adopt()
    await place.append(2)
    store, item = open_store(place.uri), await place.item()
    theirs = await store.get(commit_path(2))
    name = f"{3:020}.{uuid.uuid4()}.json"
    await store.put(COMMITS_DIR + name, theirs)
    commit = {
        "version": 3,
        "timestamp": 9,
        "fsName": name,
        "fsLength": len(theirs),
        "fsTimestamp": 1,
    }
    changed = {"tableId": item["tableId"], "tableVersion": 3, "hasAcceptedCommits": True}
    assert await place.items.update(
        changed, where={"tableVersion": 2}, append={"commits": [commit]}
    )
    async with adelta.open_table(place.uri, place.options) as table:
        assert (await table.snapshot()).version == 3
    assert await place.append(4) == 4
    assert await store.get(commit_path(3)) == theirs


async def test_writers_do_not_overwrite_each_other(place: Place) -> None:
    await place.append(0)
    await place.adopt()
    versions = await map_concurrent(lambda n: place.append(n), range(1, 9), limit=4)
    assert sorted(v for v in versions if v is not None) == [*range(2, 10)]
    assert await place.ids() == [*range(9)]


async def test_a_table_goes_back_to_the_filesystem(place: Place) -> None:
    await place.append(1)
    await place.adopt()
    await place.append(2)
    item = await place.item()
    await adelta.release_table(place.uri, storage_options=place.options)
    gone = await place.items.get(item["tableId"])
    assert gone is not None
    assert (gone["acceptingCommits"], gone["tableVersion"]) == (False, 3)
    assert await place.append(3) == 4
    assert await place.ids() == [1, 2, 3]
    assert (await place.items.get(item["tableId"])) == gone
    await place.adopt()  # anew, under another id
    assert (await place.conf_of_table())["tableId"] != item["tableId"]
    assert await place.append(4) == 6


async def test_what_does_not_fit_is_refused(place: Place) -> None:
    await place.append(1)
    with pytest.raises(InvalidOptionError, match="lacks dynamoDBTableName"):
        await adelta.adopt_table(
            place.uri, "dynamodb", {"dynamoDBEndpoint": "x"}, feature=COORDINATED
        )
    await place.adopt()
    item = await place.item()
    id = item["tableId"]
    del place.options["aws_endpoint_url_dynamodb"]
    assert await place.ids() == [1]  # as far as it is published
    with pytest.raises(InvalidOptionError, match="aws_endpoint_url_dynamodb"):
        await place.append(2)
    place.options["aws_endpoint_url_dynamodb"] = place.conf["dynamoDBEndpoint"]
    amazon = {**place.conf, "dynamoDBEndpoint": "https://dynamodb.eu-north-1.amazonaws.com"}
    keys = {key: place.options[key] for key in ("aws_access_key_id", "aws_secret_access_key")}
    await dynamodb_owner(ManagedTable(place.uri, "id", amazon), keys).aclose()

    def client(conf: dict[str, str], uri: str = place.uri) -> Any:
        table = ManagedTable(uri, "id", place.conf, conf)
        return aclosing(dynamodb_owner(table, place.options))

    async with client({"tableId": "other"}) as other:
        with pytest.raises(TableNotFoundError, match="no item"):
            await other.get_commits()
    async with client({}) as other:
        with pytest.raises(InvalidTableError, match="tableId"):
            await other.get_commits()
    async with client({"tableId": id}, "file:///elsewhere") as other:
        with pytest.raises(InvalidTableError, match="copy of a table"):
            await other.get_commits()
    stale = ProposedCommit(9, b"", 1, "x", staged_file=f"{9:020}.{uuid.uuid4()}.json")
    async with client({"tableId": id}) as known:
        answer = await known.commit(stale)
    assert not answer.ratified
    assert answer.latest is not None
    assert answer.latest.latest_version == 1
    async with client({"tableId": "new"}) as known:
        for version in (3, 4, 3):  # the last one was on its way for long
            await known.propose(replace(stale, version=version))
    registered: Any = await place.items.get("new")
    assert (registered["tableVersion"], registered["hasAcceptedCommits"]) == (4, False)
    assert await place.items.update({"tableId": id, "schemaVersion": 2}, where={"tableVersion": 1})
    with pytest.raises(UnsupportedFeatureError, match="schemaVersion"):
        await place.ids()
