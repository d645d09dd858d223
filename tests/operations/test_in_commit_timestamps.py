"""In-commit timestamps switched on, off, and on again (PROTOCOL.md, "In-Commit Timestamps")."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa

from adelta.operations import set_properties, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1]})
ON = {"delta.enableInCommitTimestamps": "true"}
VERSION = "delta.inCommitTimestampEnablementVersion"
TIME = "delta.inCommitTimestampEnablementTimestamp"


async def commit(table: Table, version: int) -> list[dict[str, Any]]:
    data = await table.store.get(f"_delta_log/{version:020d}.json")
    return [orjson.loads(line) for line in data.splitlines()]


async def in_commit(table: Table, version: int) -> int | None:
    return (await commit(table, version))[0]["commitInfo"].get("inCommitTimestamp")


async def test_the_commit_that_switches_them_on_says_from_when_on_they_count(
    tmp_path: Path,
) -> None:
    """B8-01, B8-02: version and time of that commit, which is after the file of the one before."""
    uri = str(tmp_path)
    async with open_table(uri) as table:
        await write_table(table, ROWS)
        await write_table(table, ROWS)
        before = (await table.snapshot()).timestamp
        await set_properties(table, ON)
        snapshot = await table.snapshot()
        assert snapshot.properties == {
            **ON,
            VERSION: "2",
            TIME: str(await in_commit(table, 2)),
        }
        assert snapshot.timestamp > before
        assert "inCommitTimestamp" in (snapshot.protocol.writer_features or ())
        assert await in_commit(table, 1) is None
        await write_table(table, ROWS)
        later = await in_commit(table, 3)
        assert later is not None
        assert later > int(snapshot.properties[TIME])
        assert (await table.snapshot(timestamp=snapshot.timestamp)).version == 2
        assert (await table.snapshot(timestamp=before)).version == 1
    assert deltalake.DeltaTable(uri).version() == 3


async def test_time_never_stands_still_nor_runs_back() -> None:
    clock = ManualClock(ms=1_000)  # long before the files' own times
    table = Table("memory://", store=MemoryStore(), clock=clock)
    await write_table(table, ROWS)
    before = (await table.snapshot()).timestamp.timestamp() * 1000
    await set_properties(table, ON)
    await write_table(table, ROWS)
    first, second = await in_commit(table, 1), await in_commit(table, 2)
    assert first is not None
    assert first > before
    assert second == first + 1


async def test_they_are_switched_off_and_on_again() -> None:
    table = open_table(f"memory://{uuid.uuid4()}/t")
    await write_table(table, ROWS, properties=ON)
    assert VERSION not in (await table.snapshot()).properties
    await set_properties(table, {"delta.enableInCommitTimestamps": "false"})
    assert await in_commit(table, 1) is None
    await write_table(table, ROWS)
    await set_properties(table, ON)
    properties = (await table.snapshot()).properties
    assert properties[VERSION] == "3"
    assert properties[TIME] == str(await in_commit(table, 3))
    await set_properties(table, {"own": "1"})
    assert (await table.snapshot()).properties[VERSION] == "3"


async def test_an_append_that_was_prepared_before_follows_with_a_time_of_its_own() -> None:
    """C3-05, D32: the race is replayed, and the replayed commit obeys the property."""
    table = open_table(f"memory://{uuid.uuid4()}/t")
    await write_table(table, ROWS)
    tx = await table.transaction().__aenter__()
    await tx.append(ROWS)
    await set_properties(table, ON)
    await tx.__aexit__(None, None, None)
    assert tx.version == 2
    first, second = await in_commit(table, 1), await in_commit(table, 2)
    assert first is not None
    assert second is not None
    assert second > first
