from __future__ import annotations

import sys
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest

from adelta.errors import InvalidOptionError, TableNotFoundError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.log_path import checkpoint_path, commit_path
from adelta.log.load import load_state
from adelta.operations import (
    checkpoint,
    create_table,
    detail,
    history,
    set_properties,
    write_table,
)
from adelta.table import Table, open_table
from tests.support.builders import TableBuilder
from tests.support.stores import CountingStore, OverlookingStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROWS = pa.table({"id": [1, 2], "p": ["x", "y"]})
SCHEMA = pa.schema([("id", pa.int64())])


def address() -> str:
    return f"memory://{uuid.uuid4()}"


async def test_history_is_newest_first_and_can_be_limited() -> None:
    uri = address()
    table = await create_table(uri, ROWS.schema)
    await write_table(table, ROWS)
    await write_table(table, ROWS, mode="overwrite", user_metadata="why")
    entries = await history(table)
    assert [entry.version for entry in entries] == [2, 1, 0]
    assert [entry.operation for entry in entries] == ["WRITE", "WRITE", "CREATE TABLE"]
    assert entries[0].user_metadata == "why"
    assert entries[0].operation_metrics["numRemovedFiles"] == "1"
    assert (entries[0].read_version, entries[0].is_blind_append) == (1, False)
    assert entries[0].timestamp.tzinfo is UTC
    assert entries[0].timestamp > entries[1].timestamp > entries[2].timestamp
    assert await history(table, limit=2) == entries[:2]
    assert await history(table, limit=99) == entries


async def test_history_is_filtered_by_what_who_and_when() -> None:
    builder = await TableBuilder.create(SCHEMA)
    for number in range(1, 7):
        who = {"userName": "ann", "userId": "1"} if number % 2 else {"userId": "2"}
        await anyio.sleep(0.002)
        kind = "MERGE" if number in (2, 5, 6) else "WRITE"
        await builder.commit(builder.add(f"f{number}"), operation=kind, others=who)
    table = Table(builder.store.uri, store=builder.store)
    entries = await history(table)

    async def versions(limit: int | None = None, **filters: Any) -> list[int]:
        return [entry.version for entry in await history(table, limit, **filters)]

    assert await versions(operation="merge") == [6, 5, 2]
    assert await versions(2, operation=["MERGE"]) == [6, 5]
    assert await versions(1, operation=["MERGE", "write"], user="2") == [6]
    assert await versions(user="ann") == await versions(user="1") == [5, 3, 1]
    at = {entry.version: entry.timestamp for entry in entries}
    assert await versions(since=at[3], until=at[5].isoformat()) == [
        version for version in range(6, -1, -1) if at[3] <= at[version] <= at[5]
    ]
    assert await versions(since="2999-01-01") == await versions(until="1999-01-01") == []
    with pytest.raises(InvalidOptionError, match="timestamp"):
        await history(table, since="yesterday")


async def test_the_newest_commits_are_read_first_and_no_more_than_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[history.__module__], "_READ_AT_ONCE", 2)
    builder = await TableBuilder.create(SCHEMA)
    for number in range(8):
        await builder.commit(builder.add(f"f{number}"), operation=f"W{number % 4}")
    store = CountingStore(builder.store)
    table = Table(store.uri, store=store)
    await table.snapshot()
    store.clear()
    assert [entry.version for entry in await history(table, 1, operation="W2")] == [7]
    log = [path for kind in store.kinds for path in store.paths(kind)]
    assert sum(path.endswith(".json") for path in log) <= 4


async def test_history_takes_provenance_of_any_kind() -> None:
    builder = await TableBuilder.create(SCHEMA)
    await builder.commit(builder.add("a"), operation=None)
    info = CommitInfo.from_json(
        {
            "operation": "MERGE",
            "operationParameters": {"predicate": ["a", 1], "flag": True},
            "userId": 7,
            "userName": "ada",
            "job": {"jobId": "1"},
            "notebook": "not an object",
            "strange": {"x": 1},
        }
    )
    await builder.commit(info, builder.add("b"), operation=None)
    newest, bare, _ = await history(Table(builder.store.uri, store=builder.store))
    assert bare.operation is None
    assert bare.operation_parameters == {}
    assert newest.operation_parameters == {"predicate": ["a", 1], "flag": True}
    assert (newest.user_id, newest.user_name, newest.job) == ("7", "ada", {"jobId": "1"})
    assert newest.notebook is None
    assert newest.others["strange"] == {"x": 1}


async def test_history_tells_what_is_left_after_a_clean_up() -> None:
    uri = address()
    table = await create_table(uri, ROWS.schema)
    for _ in range(3):
        await write_table(table, ROWS)
    await checkpoint(table)
    await table.store.delete([commit_path(0), commit_path(1)])
    assert [entry.version for entry in await history(open_table(uri))] == [3, 2]


async def test_history_tells_of_commits_that_a_listing_overlooks() -> None:
    builder = await TableBuilder.create(SCHEMA)
    for number in range(4):
        await builder.commit(builder.add(f"{number}"))
    for overlooked in ({4}, {3, 4}, {2}, {0}):
        store = OverlookingStore(builder.store)
        store.always = overlooked
        state = await load_state(builder.store)
        table = Table(builder.store.uri, store=store)
        table._source.publish_state(state)
        assert [entry.version for entry in await history(table)] == [4, 3, 2, 1, 0]
        assert [entry.version for entry in await history(table, limit=1)] == [4]


async def test_history_is_told_though_the_log_is_cleaned_up_meanwhile() -> None:
    class CleanedUp(WrappedStore):
        async def get_many(self, paths: Sequence[str]) -> list[bytes]:
            await self.inner.delete([commit_path(0), commit_path(1)])
            return await super().get_many(paths)

    uri = address()
    table = await create_table(uri, ROWS.schema)
    for _ in range(3):
        await write_table(table, ROWS)
    await checkpoint(table)
    cleaned = Table(uri, store=CleanedUp(table.store))
    assert [entry.version for entry in await history(cleaned)] == [3, 2]


async def test_history_of_nothing_or_with_an_impossible_limit_is_an_error() -> None:
    with pytest.raises(TableNotFoundError):
        await history(open_table(address()))
    with pytest.raises(TableNotFoundError):
        await history(open_table(address()), limit=0)
    with pytest.raises(InvalidOptionError, match="limit is -1"):
        await history(open_table(address()), limit=-1)


async def test_a_history_of_at_most_no_commits_is_empty() -> None:
    uri = address()
    await write_table(uri, pa.table({"id": [1]}))
    assert await history(open_table(uri), limit=0) == []


async def test_detail_says_what_a_table_is() -> None:
    uri = address()
    before = datetime.now(UTC)
    table = await create_table(
        uri, ROWS.schema, partition_by=["p"], name="n", properties={"delta.appendOnly": "true"}
    )
    written = await write_table(table, ROWS)
    found = await detail(table)
    assert (found.format, found.name, found.description) == ("delta", "n", None)
    assert found.location == uri
    assert found.partition_columns == ("p",)
    assert (found.num_files, found.size_in_bytes) == (2, written.num_output_bytes)
    assert found.properties == {"delta.appendOnly": "true"}
    assert (found.min_reader_version, found.min_writer_version) == (1, 2)
    assert found.table_features == ()
    assert found.version == 1
    assert found.created_at is not None
    assert (found.created_at - before).total_seconds() < 60
    assert found.last_modified >= found.created_at


async def test_a_checkpoint_can_be_asked_for() -> None:
    uri = address()
    table = await create_table(uri, ROWS.schema)
    await write_table(table, ROWS)
    written = await checkpoint(table)
    assert (written.version, written.num_files, written.num_actions) == (1, 1, 3)
    assert written.num_bytes == (await table.store.head(checkpoint_path(1))).size


async def test_commits_write_a_checkpoint_every_interval() -> None:
    uri = address()
    table = await create_table(uri, ROWS.schema, properties={"delta.checkpointInterval": "2"})
    for _ in range(5):
        await write_table(table, ROWS)
    names = [meta.path async for page in table.store.list("_delta_log/") for meta in page]
    assert [name for name in names if "checkpoint.parquet" in name] == [
        checkpoint_path(2),
        checkpoint_path(4),
    ]
    assert (await (await open_table(uri).snapshot()).scan().to_arrow()).num_rows == 10


async def test_changes_of_metadata_alone_state_empty_metrics_in_the_log(tmp_path: Path) -> None:
    table = await create_table(str(tmp_path), SCHEMA)
    await set_properties(table, {"note": "x"})
    for version in (0, 1):
        (info, *_) = (tmp_path / commit_path(version)).read_text().splitlines()
        assert '"operationMetrics":{}' in info
    assert [dict(entry.operation_metrics) for entry in await history(table)] == [{}, {}]
