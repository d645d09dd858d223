"""How far checks and upkeep of the log are, as their callbacks are told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from adelta.progress import Progress

DAY = 86_400_000


@pytest.fixture
async def table() -> Table:
    """Partitions ``p=0`` to ``p=2``, a file a day, and deletion vectors if rows are deleted."""
    clock = ManualClock(19_000 * DAY + DAY // 2)
    store = MemoryStore(clock=clock)
    made = Table(store.uri, store=store, clock=clock)
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1000"}
    for number in range(3):
        data = pa.table({"p": [number] * 4, "n": range(4)})
        await adelta.write_table(made, data, partition_by=["p"], properties=properties)
        clock.advance(days=1)
    return made


async def test_a_checkpoint_tells_of_live_files(table: Table) -> None:
    told: list[Progress] = []
    await adelta.checkpoint(table, on_progress=told.append)
    assert last(told) == {"writing": (3, 3, "files")}


async def test_a_clean_up_tells_of_what_it_deletes(table: Table) -> None:
    await adelta.checkpoint(table)
    told: list[Progress] = []
    done = await adelta.cleanup_log(table, retention=timedelta(0), on_progress=told.append)
    assert done.num_commits > 0
    assert last(told) == {"deleting": (done.num_files, done.num_files, "objects")}
    told.clear()
    await adelta.cleanup_log(table, dry_run=True, on_progress=told.append)
    assert told == []


async def test_a_compaction_of_the_log_tells_of_commits(table: Table) -> None:
    told: list[Progress] = []
    await adelta.compact_log(table, on_progress=told.append)
    assert last(told) == {"reading": (3, 3, "objects")}


async def test_manifests_are_told_of(table: Table) -> None:
    told: list[Progress] = []
    await adelta.generate_manifest(table, on_progress=told.append)
    assert last(told) == {"writing": (3, 3, "objects")}


async def test_a_check_tells_of_each_phase_to_its_end_whatever_it_finds(table: Table) -> None:
    await adelta.checkpoint(table)
    await adelta.delete(table, "n = 1")
    gone = (await (await table.snapshot()).files()).to_pylist()[0]["path"]
    await table.store.delete([gone])
    told: list[Progress] = []
    report = await adelta.fsck(table, on_progress=told.append)
    assert report.missing_files == (gone,)
    shallow = {
        "checking checkpoints": (1, 1, "objects"),
        "checking files": (3, 3, "files"),
        "checking deletion vectors": (3, 3, "objects"),
    }
    assert last(told) == shallow
    told.clear()
    await adelta.fsck(table, deep=True, on_progress=told.append)
    deep = last(told)
    assert {phase: deep.pop(phase) for phase in shallow} == shallow
    assert deep.keys() == {"reading the log", "reading checkpoints", "reading files"}
    assert deep["reading files"] == (3, 3, "objects")
    assert all(done == total for done, total, _ in deep.values())


def last(told: list[Progress]) -> dict[str, tuple[int, int | None, str]]:
    return {p.phase: (p.done, p.total, p.unit) for p in told}
