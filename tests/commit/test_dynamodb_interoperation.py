"""One table, one lock table in DynamoDB, and two implementations that commit by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio.to_thread
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

import adelta
from adelta._concurrency import map_concurrent
from adelta.kernel.log_path import commit_path
from adelta.storage.dynamodb import DynamoTable, Item
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from tests.support.dynamo_server import DynamoServer
    from tests.support.earlier_deltalake import EarlierDeltalake
    from tests.support.s3_server import S3Location


@pytest.fixture
def options(s3_location: S3Location, dynamo_server: DynamoServer) -> dict[str, str]:
    return {**s3_location.storage_options, **dynamo_server.storage_options()}


async def append(uri: str, options: dict[str, str], number: int) -> int | None:
    rows = pa.table({"id": [number]})
    return (await adelta.write_table(uri, rows, storage_options=options)).version


async def entries(uri: str, options: dict[str, str], count: int) -> list[Item]:
    locks = DynamoTable(parse_dynamo_options(options, {}), partition="tablePath", sort="fileName")
    found = [await locks.get(uri, f"{version:020}.json") for version in range(count)]
    await locks.aclose()
    return [entry for entry in found if entry is not None]


async def test_adelta_and_deltalake_commit_in_turn(
    s3_location: S3Location, options: dict[str, str], earlier_deltalake: EarlierDeltalake
) -> None:
    uri = s3_location.uri
    assert await append(uri, options, 0) == 0
    for turn in range(1, 4):
        assert await append(uri, options, 2 * turn - 1) == 2 * turn - 1
        version, ids = await anyio.to_thread.run_sync(
            earlier_deltalake.append, uri, options, [2 * turn]
        )
        assert (version, ids) == (2 * turn, list(range(2 * turn + 1)))
    made = await entries(uri, options, 7)
    assert [entry["complete"] for entry in made] == ["true"] * 7
    assert {frozenset(entry) for entry in made} == {
        frozenset({"tablePath", "fileName", "tempPath", "complete", "expireTime"})
    }
    ours, theirs = made[1], made[2]
    assert str(ours["tempPath"]).startswith(".tmp/")
    assert not str(theirs["tempPath"]).startswith(".tmp/")
    latest = DeltaTable(uri, storage_options=s3_location.storage_options)  # it only reads
    assert (latest.version(), latest.to_pyarrow_table().num_rows) == (6, 7)


@pytest.mark.parametrize("conditional_put", ["etag", "disabled"])
async def test_in_a_race_of_adelta_and_deltalake_every_commit_arrives(
    s3_location: S3Location,
    options: dict[str, str],
    earlier_deltalake: EarlierDeltalake,
    conditional_put: str,
) -> None:
    """A1-18: with a store that excludes writers, and with one that does not."""
    uri = s3_location.uri
    ours = {**options, "aws_conditional_put": conditional_put}
    assert await append(uri, ours, 0) == 0
    processes = [
        earlier_deltalake.start(uri, options, range(start, start + 8)) for start in (100, 200)
    ]

    async def work(start: int) -> None:
        for number in range(start, start + 8):
            await append(uri, ours, number)

    await map_concurrent(work, (300, 400), limit=2)
    for process in processes:
        await anyio.to_thread.run_sync(earlier_deltalake.result, process)
    async with adelta.open_table(uri, ours) as table:
        snapshot = await table.snapshot()
        read = await snapshot.scan().to_arrow()
        history = await adelta.history(table)
    expected = [0, *(start + at for start in (100, 200, 300, 400) for at in range(8))]
    assert sorted(read["id"].to_pylist()) == expected
    assert snapshot.version == 32
    engines = {"adelta" if "adelta" in str(c.engine_info) else "rust" for c in history}
    assert engines == {"adelta", "rust"}


async def test_a_writer_who_knows_nothing_of_the_entries_is_kept_apart_too(
    s3_location: S3Location, options: dict[str, str]
) -> None:
    """deltalake since 1.6 puts its commits into the log without an entry, if no other is there."""
    uri = s3_location.uri
    assert await append(uri, options, 0) == 0

    def without_entries(start: int) -> None:
        for number in range(start, start + 8):
            while True:
                rows = pa.table({"id": [number]})
                try:
                    write_deltalake(
                        uri, rows, mode="append", storage_options=s3_location.storage_options
                    )
                except CommitFailedError:
                    continue
                break

    async def work(start: int) -> None:
        if start < 300:
            await anyio.to_thread.run_sync(without_entries, start)
        else:
            for number in range(start, start + 8):
                await append(uri, options, number)

    starts = (100, 200, 300, 400)
    await map_concurrent(work, starts, limit=4)
    async with adelta.open_table(uri, options) as table:
        snapshot = await table.snapshot()
        read = await snapshot.scan().to_arrow()
    expected = [0, *(start + at for start in starts for at in range(8))]
    assert sorted(read["id"].to_pylist()) == expected
    assert snapshot.version == 32


async def test_each_completes_what_the_other_left_half_done(
    s3_location: S3Location, options: dict[str, str], earlier_deltalake: EarlierDeltalake
) -> None:
    uri = s3_location.uri
    store = open_store(uri, options)
    locks = DynamoTable(parse_dynamo_options(options, {}), partition="tablePath", sort="fileName")

    async def undo(version: int, temporary: str) -> None:
        """The state after the entry was put: the file is not in the log yet."""
        data = await store.get(commit_path(version))
        await store.put(f"_delta_log/{temporary}", data)
        await store.delete([commit_path(version)])
        name = {"tablePath": uri, "fileName": f"{version:020}.json"}
        change: Item = {**name, "tempPath": temporary, "complete": "false"}
        assert await locks.update(change, where={"complete": "true"})

    assert await append(uri, options, 0) == 0
    assert await append(uri, options, 1) == 1
    await undo(1, f".tmp/{1:020}.json.b0a8")  # as adelta and Delta Spark name it
    version, ids = await anyio.to_thread.run_sync(earlier_deltalake.append, uri, options, [2])
    assert (version, ids) == (2, [0, 1, 2])
    await undo(2, "_commit_b0a8.json.tmp")  # as deltalake names it
    async with adelta.open_table(uri, options) as table:
        assert await (await table.snapshot()).scan().count() == 3
    assert await append(uri, options, 3) == 3
    for entry in await entries(uri, options, 4):
        assert entry["complete"] == "true"
    lines = (await store.get(commit_path(2))).splitlines()
    assert any("delta-rs" in json.dumps(json.loads(line)) for line in lines)
    await locks.aclose()
    await store.aclose()
