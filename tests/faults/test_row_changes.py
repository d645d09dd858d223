"""A writer that changes rows dies, or fails, at each of its requests in turn.

Afterwards the table is as before or as after, its feed tells the same story, and the next writer
can do the work. A failure that is reported leaves no file behind that nobody will ever read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.changes import changes
from adelta.errors import AdeltaError, CommitOutcomeUnknownError, StorageError
from adelta.operations import delete, merge, optimize, update, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.faults.test_append import DyingStore
from tests.support.created import create_in
from tests.support.depth import DEEP
from tests.support.stores import CountingStore, FailingStore, Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
VECTORS = {**FEED, "delta.enableDeletionVectors": "true"}
BEFORE = [(i, 0) for i in range(400)]


async def deleting(table: Table) -> None:
    await delete(table, "id % 3 = 0 OR id >= 300")


async def updating(table: Table) -> None:
    await update(table, {"n": 1}, "id % 3 = 0 OR id >= 300")


async def replacing(table: Table) -> None:
    data = pa.table({"id": [0], "n": [7]}, SCHEMA)
    await write_table(table, data, mode="overwrite", replace_where="id % 3 = 0")


async def compacting(table: Table) -> None:
    await optimize(table)


async def ordering(table: Table) -> None:
    await optimize(table, zorder_by=["id"])


async def merging(table: Table) -> None:
    source = pa.table({"id": [3, 300, 1000], "n": [7, 8, 9]}, SCHEMA)
    await (
        merge(table, source, "target.id = source.id")
        .when_matched_delete("source.id = 3")
        .when_matched_update_all()
        .when_not_matched_insert_all("source.id = 1000")
        .when_not_matched_by_source_delete("target.id = 4")
        .execute()
    )


WORK = {
    compacting: BEFORE,
    ordering: BEFORE,
    deleting: [(i, 0) for i in range(300) if i % 3],
    updating: [(i, int(i % 3 == 0 or i >= 300)) for i in range(400)],
    replacing: sorted([(0, 7), *((i, 0) for i in range(400) if i % 3)]),
}
if DEEP:
    WORK[merging] = [*((i, 8 * (i == 300)) for i in range(400) if i not in (3, 4)), (1000, 9)]


async def table_with_rows(properties: dict[str, str]) -> MemoryStore:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await create_in(table, SCHEMA, properties)
    for start in (0, 200):
        ids = list(range(start, start + 200))
        await write_table(table, pa.table({"id": ids, "n": [0] * 200}, SCHEMA))
    return store


async def contents(store: MemoryStore) -> list[tuple[int, int]]:
    async with Table(store.uri, store=store) as table:
        found = (await (await table.snapshot()).scan().to_arrow()).to_pydict()
        rows = sorted(zip(found["id"], found["n"], strict=True))
        told: set[tuple[int, int]] = set()
        async for batch in changes(table):
            for row in batch.to_pylist():
                key = (row["id"], row["n"])
                gone = row["_change_type"] in ("delete", "update_preimage")
                told = told - {key} if gone else told | {key}
        assert sorted(told) == rows
        return rows


async def unread(store: MemoryStore) -> set[str]:
    """Objects beside the log that no file action of it names."""
    paths = {meta.path async for page in store.list() for meta in page}
    data = {path for path in paths if not path.startswith("_delta_log")}
    logs = [await store.get(path) for path in paths if path.endswith(".json")]
    return {path for path in data if not any(path.encode() in log for log in logs)}


@pytest.mark.parametrize("properties", [FEED, VECTORS])
@pytest.mark.parametrize("work", list(WORK))
@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_writer_that_dies_leaves_the_table_as_before_or_as_after(
    properties: dict[str, str], work: Callable[[Table], Awaitable[None]], takes_effect: bool
) -> None:
    counting = CountingStore(await table_with_rows(properties))
    await work(Table(counting.uri, store=counting))
    outcomes, unknown = [], 0
    for lives in range(counting.count + 1):
        inner = await table_with_rows(properties)
        store = DyingStore(inner, lives, last_takes_effect=takes_effect)
        expected = WORK[work]
        try:
            await work(Table(store.uri, store=store))
        except CommitOutcomeUnknownError:  # at the look for the base, and at the put
            unknown += 1
            expected = WORK[work] if takes_effect and unknown == 2 else BEFORE
        except StorageError:
            expected = BEFORE
        assert await contents(inner) == expected
        outcomes.append(expected)
        await work(Table(inner.uri, store=inner))
        if work is not updating:  # which is not the same twice over
            assert await contents(inner) == WORK[work]
    assert (outcomes[0], outcomes[-1]) == (BEFORE, WORK[work])
    assert unknown == 2


@pytest.mark.parametrize("properties", [FEED, VECTORS])
@pytest.mark.parametrize("work", list(WORK))
@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_fault_is_overcome_or_reported_and_leaves_nothing_behind(
    properties: dict[str, str], work: Callable[[Table], Awaitable[None]], takes_effect: bool
) -> None:
    counting = CountingStore(await table_with_rows(properties))
    await work(Table(counting.uri, store=counting))
    for number in range(counting.count):
        inner = await table_with_rows(properties)
        store = FailingStore(inner, {number: Fault(after=takes_effect)})
        try:
            await work(Table(store.uri, store=store))
        except CommitOutcomeUnknownError:
            assert await contents(inner) in (BEFORE, WORK[work])
        except AdeltaError:
            assert await contents(inner) == BEFORE
            assert await unread(inner) == set()
        else:
            assert await contents(inner) == WORK[work]
