"""A process dies at each request of its upkeep of the log in turn: the table reads as before."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import CommitOutcomeUnknownError, StorageError
from adelta.kernel.actions.protocol import Protocol
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.faults.test_append import DyingStore
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.depth import DEEP, cases
from tests.support.minimal_reader import MinimalLog, log_objects
from tests.support.stores import CountingStore, copy_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectStore

DAYS = 8
NOON = 19_000 * 86_400_000 + 43_200_000
SCHEMA = pa.schema([("id", pa.int64())])
V2 = Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",))
KINDS: dict[str, dict[str, str]] = {
    "classic": {},
    "parts": {"adelta.checkpoint.partSize": "3"},
    "v2": {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "3"},
    "v2-parquet": {
        "delta.checkpointPolicy": "v2",
        "adelta.checkpoint.partSize": "3",
        "adelta.checkpoint.v2Format": "parquet",
    },
}
CASES = [("classic", False), ("parts", True), ("v2", False), ("v2-parquet", True)]
UPKEEP = {
    "delta.checkpointInterval": "9",
    "adelta.logCompactionInterval": "3",
    "delta.logRetentionDuration": "interval 7 days",
}


async def aged_table(kind: str, properties: dict[str, str] | None = None) -> MemoryStore:
    """A commit a day, a checkpoint every third."""
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    builder = await TableBuilder.create(
        SCHEMA,
        store=store,
        properties={**KINDS[kind], **(properties or {})},
        protocol=V2 if kind.startswith("v2") else None,
    )
    for day in range(1, DAYS + 1):
        clock.advance(days=1)
        added = [builder.add(f"{day}-{n}", rows=n) for n in range(2)]
        removed = [builder.remove(f"{day - 1}-0", at=2 * NOON)] if day > 1 else []
        await builder.commit(*added, *removed)
        if day % 3 == 0:
            await write_checkpoint(await load_state(store), clock)
    clock.advance(days=7)
    return store


def opened(store: ObjectStore) -> Table:
    return Table(store.uri, store=store, clock=ManualClock(NOON + (DAYS + 7) * 86_400_000))


async def content(store: ObjectStore, first: int) -> list[Any]:
    """What every version from `first` on says, to adelta and to the plain reader."""
    found: list[Any] = []
    log = MinimalLog(await log_objects(store))
    for version in range(first, DAYS + 1):
        state = await load_state(store, version=version)
        files = sorted(f.path for f in (await state.files()).rows())
        plain = log.read(version)
        assert plain is not None
        assert sorted(path for path, _ in plain["add"]) == files
        found.append((files, sorted((await state.tombstones()).column("path").to_pylist())))
    latest = await load_state(store)
    assert latest.version >= DAYS
    return found


async def die_everywhere(
    table: MemoryStore,
    work: Callable[[Table], Awaitable[object]],
    *,
    first: int,
    takes_effect: bool,
) -> int:
    """Run `work` in processes that live for 0, 1, 2 ... requests; how many there were."""
    expected = await content(table, first)
    counting = CountingStore(copy_of(table))
    await work(opened(counting))
    for lives in range(int(takes_effect and not DEEP), counting.count, cases(1, 4)):
        store = copy_of(table)
        with suppress(StorageError, CommitOutcomeUnknownError):  # upkeep's failures are logged
            await work(opened(DyingStore(store, lives, last_takes_effect=takes_effect)))
        assert await content(store, first) == expected, lives
        await work(opened(store))  # the next one has no trouble with what is left
        assert await content(store, first) == expected, lives
    return counting.count


@pytest.mark.parametrize(("kind", "takes_effect"), CASES)
async def test_a_checkpoint_that_is_broken_off_changes_nothing(
    kind: str, takes_effect: bool
) -> None:
    store = await aged_table(kind, {"delta.enableExpiredLogCleanup": "false"})
    requests = await die_everywhere(store, adelta.checkpoint, first=5, takes_effect=takes_effect)
    assert requests > 5


@pytest.mark.parametrize(("kind", "takes_effect"), CASES)
async def test_a_clean_up_that_is_broken_off_takes_no_version_that_is_promised(
    kind: str, takes_effect: bool
) -> None:
    async def work(table: Table) -> None:
        table._clock = ManualClock(NOON + (DAYS + 1) * 86_400_000)
        await adelta.cleanup_log(table, retention=timedelta(days=4))

    requests = await die_everywhere(
        await aged_table(kind), work, first=3, takes_effect=takes_effect
    )
    assert requests > 4


@pytest.mark.parametrize(("kind", "takes_effect"), [("classic", True), ("v2", False)])
async def test_upkeep_that_is_broken_off_takes_nothing_from_the_commit(
    kind: str, takes_effect: bool
) -> None:
    """Checksum, checkpoint, clean-up and compaction: the commit stands, or it does not."""

    async def append(table: Table) -> None:
        async with table.transaction() as tx:
            tx.add_files([])
            tx.set_transaction("app", 1)

    requests = await die_everywhere(
        await aged_table(kind, UPKEEP), append, first=6, takes_effect=takes_effect
    )
    assert requests > 10
