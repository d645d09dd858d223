"""Tables whose logs were printed for people: actions over several lines in every JSON file."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidTableError
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from adelta.table import Table

if TYPE_CHECKING:
    from datetime import datetime

PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
    "delta.checkpointInterval": "100",
}
VERSIONS = 6


async def printed(store: MemoryStore) -> None:
    """Print all JSON files of the log anew."""
    async for page in store.list("_delta_log/"):
        for meta in page:
            if meta.path.endswith(".json"):
                actions = map(json.loads, (await store.get(meta.path)).splitlines())
                text = "\n\n".join(json.dumps(action, indent=2) for action in actions)
                await store.put(meta.path, text.encode())


async def written(store: MemoryStore) -> None:
    async with Table("memory://printed", store=store) as table:
        for number in range(VERSIONS):
            rows = pa.table({"id": [number], "p": [str(number % 2)]})
            new = None if number else PROPERTIES
            by = None if number else ["p"]
            await adelta.write_table(table, rows, properties=new, partition_by=by)


async def told(store: MemoryStore) -> list[Any]:
    """What there is to be told of the table."""
    async with Table("memory://printed", store=store) as table:
        snapshot = await table.snapshot()
        seen: list[Any] = [snapshot.version, await adelta.history(table)]
        seen.append((await snapshot.scan().to_arrow()).sort_by("id").to_pylist())
        seen.append((await snapshot.files()).sort_by("path").to_pylist())
        commits: Any = adelta.tail(table, poll=0.01)
        async with aclosing(commits):
            seen += [await anext(commits) for _ in range(snapshot.version + 1)]
        seen += [row async for batch in adelta.changes(table) for row in batch.to_pylist()]
        moments: list[datetime] = [entry.timestamp for entry in seen[1]]
        for moment in moments:
            seen.append((await table.snapshot(timestamp=moment)).version)
        seen.append((await adelta.fsck(table)).problems)
        return seen


@pytest.mark.parametrize("more", ["", "checkpoint", "compaction"])
async def test_a_log_over_several_lines_says_the_same(more: str) -> None:
    store = MemoryStore()
    await written(store)
    async with Table("memory://printed", store=store) as table:
        if more == "checkpoint":
            await adelta.checkpoint(table)
        elif more == "compaction":
            await adelta.compact_log(table)
    before = await told(store)
    await printed(store)
    assert await told(store) == before
    async with Table("memory://printed", store=store) as table:
        rows = pa.table({"id": [100], "p": ["1"]})
        assert (await adelta.write_table(table, rows)).version == VERSIONS
        assert await (await table.snapshot()).scan().count() == VERSIONS + 1


async def test_a_commit_over_several_lines_that_is_cut_off_is_named() -> None:
    store = MemoryStore()
    await written(store)
    await printed(store)
    data = await store.get(commit_path(3))
    for cut in (data[:-1], data[:-30], data[:10], data + b'\n{"add":\n{"path"'):
        await store.put(commit_path(3), cut)
        async with Table("memory://printed", store=store) as table:
            with pytest.raises(InvalidTableError, match="the commit of version 3"):
                await (await table.snapshot()).scan().to_arrow()
