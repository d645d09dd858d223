"""Checkpoints by tasks: they hold exactly what a checkpoint of one process holds."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from adelta.errors import InvalidOptionError, StorageError
from adelta.log.load import load_state
from adelta.operations import (
    checkpoint,
    delete,
    distributed_checkpoint,
    write_table,
)
from adelta.operations.distributed_checkpoint import checkpoint_by_tasks
from adelta.storage.resolve import open_store
from adelta.table import Table, open_table, roots_of
from tests.support.clock import ManualClock
from tests.support.minimal_reader import MinimalLog, log_objects
from tests.support.pickled_tasks import PickledTasks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILES = 6
V2 = {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "2"}
PARTS = {"adelta.checkpoint.partSize": "3"}
ALL = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.columnMapping.mode": "name",
}


async def make(
    path: Path, properties: Mapping[str, str], *, base: bool = True, absolute: bool = True
) -> str:
    """Files, tombstones, vectors, a transaction and domains; some in a checkpoint, some after."""
    uri = str(path)
    for part in range(FILES):
        ids = range(10 * part, 10 * part + 10)
        rows = pa.table({"id": list(ids), "name": [f"n{i}" for i in ids], "part": [part % 3] * 10})
        await write_table(
            uri,
            rows,
            partition_by=["part"],
            properties={**properties, "delta.checkpointInterval": "1000"} if part == 0 else None,
            txn=("app", part),
        )
    await delete(uri, "id < 10")
    await delete(uri, "id = 25")
    if base:
        await checkpoint(uri)
    await delete(uri, "id >= 10 and id < 20")
    await delete(uri, "id in (26, 37, 48)")
    rows = pa.table({"id": [999], "name": [None], "part": [1]}, schema=rows.schema)
    await write_table(uri, rows)
    log = path / "_delta_log" / f"{FILES + 4:020d}.json"
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    for line in lines:  # a path that is spelled as clones spell theirs
        if "add" in line and absolute:
            line["add"]["path"] = f"{path.as_uri()}/{line['add']['path']}"
    log.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    for checksum in (path / "_delta_log").glob(f"{FILES + 4:020d}.crc"):
        checksum.unlink()
    return uri


def rows_of(log: MinimalLog, version: int) -> list[Counter[bytes]]:
    """The file actions of a checkpoint, by part where it has some."""
    paths = log.checkpoints[version][-1]
    groups = [[action for action in log.actions(path) if "sidecar" not in action] for path in paths]
    if any("checkpointMetadata" in action for action in groups[0]):
        groups = [log.checkpoint(version)]
    found = []
    for group in groups:
        kept = [a for a in group if not a.keys() & {"checkpointMetadata", "sidecar"}]
        found.append(Counter(orjson.dumps(a, option=orjson.OPT_SORT_KEYS) for a in kept))
    return found


async def compared(
    path: Path, *, parts: int | None = None, again: int = 0
) -> tuple[Any, Any, list[str]]:
    """What one process writes of a table, and what tasks do; and which tasks ran."""
    clock = ManualClock(1_900_000_000_000)
    version = (await load_state(open_store(str(path)))).version
    other = path.with_name("by-tasks")
    shutil.copytree(path, other)
    async with Table(str(path), clock=clock) as table:
        expected = await checkpoint(table)
    files = rows_of(MinimalLog(await log_objects(open_store(str(path)))), version)
    if parts is None and len(files) > 1:
        parts = len(files)  # the number of actions is estimated where tasks count them
    # Absolute paths lead to the first table: the copy is read in its place.
    shutil.move(path, path.with_name("aside"))
    shutil.move(other, path)
    async with Table(str(path), clock=clock) as table:
        tasks = PickledTasks(roots_of(table), again=again)
        found = await checkpoint_by_tasks(table, tasks, parts=parts)
    assert (found.version, found.num_files) == (expected.version, expected.num_files)
    return files, rows_of(MinimalLog(await log_objects(open_store(str(path)))), version), tasks.ran


async def read_back(path: Path) -> list[int]:
    """The ids that readers find when only the checkpoint is left."""
    version = (await load_state(open_store(str(path)))).version
    for commit in (path / "_delta_log").glob("*.json"):
        if commit.name.count(".") == 1 and int(commit.stem) < version:
            commit.unlink()
    for checksum in (path / "_delta_log").glob("*.crc"):
        checksum.unlink()
    async with open_table(str(path)) as table:
        found = (await (await table.snapshot()).scan(["id"]).to_arrow()).column("id").to_pylist()
    return sorted(found)


IDS = sorted({*range(20, 60), 999} - {25, 26, 37, 48})


@pytest.mark.parametrize("kind", [V2, PARTS], ids=["v2", "parts"])
@pytest.mark.parametrize("features", [{}, ALL], ids=["plain", "features"])
@pytest.mark.parametrize("base", [True, False], ids=["after-one", "first"])
async def test_tasks_write_what_one_process_writes(tmp_path, kind, features, base):
    path = tmp_path / "t"
    await make(path, {**kind, **features}, base=base)
    expected, found, ran = await compared(path, again=2)
    assert found == expected
    clustered = kind is PARTS or not base
    assert set(ran) == ({"ReadTask", "PartTask"} if clustered else {"SidecarTask"})
    assert await read_back(path) == IDS


async def test_the_checksum_is_that_of_the_files(tmp_path):
    path = tmp_path / "t"
    await make(path, V2 | ALL | {"adelta.checkpoint.v2Format": "parquet"})
    async with open_table(str(path)) as table:
        await checkpoint_by_tasks(table, PickledTasks(roots_of(table)))
        snapshot = await table.snapshot()
        assert await snapshot.verify()
    assert await read_back(path) == IDS


async def test_as_many_sidecars_are_written_as_are_asked_for(tmp_path):
    path = tmp_path / "t"
    await make(path, V2)
    expected, found, ran = await compared(path, parts=3)
    assert (found, "PartTask" in ran) == (expected, True)
    files = list((path / "_delta_log" / "_sidecars").iterdir())
    hint = orjson.loads((path / "_delta_log" / "_last_checkpoint").read_bytes())
    assert 1 < len(hint["v2Checkpoint"]["sidecarFiles"]) <= 3 < len(files)


async def test_parts_without_files_are_there(tmp_path):
    path = tmp_path / "t"
    await make(path, {}, absolute=False)
    async with open_table(str(path)) as table:
        await checkpoint_by_tasks(table, PickledTasks(roots_of(table)), parts=40)
    names = [p.name for p in (path / "_delta_log").glob("*.checkpoint.*.parquet")]
    assert len([name for name in names if name.split(".")[3] == f"{40:010d}"]) == 40
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist()) == IDS


async def test_a_long_commit_is_read_by_several_tasks(tmp_path, monkeypatch):
    path = tmp_path / "t"
    await make(path, PARTS, base=False)
    monkeypatch.setattr(distributed_checkpoint, "_SHARE", 300)
    expected, found, ran = await compared(path)
    assert found == expected
    assert ran.count("ReadTask") > 2 * FILES


async def test_nothing_counts_before_the_last_file(tmp_path):
    class Failing(PickledTasks):
        async def _tried(self, run: Any, *arguments: Any) -> Any:
            if len(self.ran) == self.fails_at:
                raise StorageError("no more")
            return await super()._tried(run, *arguments)

    for kind in (V2, PARTS):
        path = tmp_path / kind.get("delta.checkpointPolicy", "parts")
        await make(path, kind)
        hint = (path / "_delta_log" / "_last_checkpoint").read_bytes()
        for at in (0,) if kind is V2 else (0, 2, 4):
            async with open_table(str(path)) as table:
                tasks = Failing(roots_of(table))
                tasks.fails_at = at
                with pytest.raises(StorageError):
                    await checkpoint_by_tasks(table, tasks)
            assert (path / "_delta_log" / "_last_checkpoint").read_bytes() == hint
            state = await load_state(open_store(str(path)))
            assert state.segment.checkpoint.version == FILES + 1
            assert (await state.files()).num_files == FILES - 1


async def test_an_earlier_checkpoint_serves_where_the_last_is_damaged(tmp_path_factory):
    for kind in (V2, PARTS):
        path = tmp_path_factory.mktemp("damaged") / "t"  # other readers are not asked to read it
        await make(path, kind)
        log = path / "_delta_log"
        files = [*log.glob(f"{FILES + 1:020d}.checkpoint.*.parquet")] or [
            *(log / "_sidecars").iterdir()
        ]
        data = files[-1].read_bytes()
        files[-1].write_bytes(b"PAR1" + bytes(len(data) - 4))
        async with open_table(str(path)) as table:
            await checkpoint_by_tasks(table, PickledTasks(roots_of(table)))
        assert await read_back(path) == IDS


async def test_bad_numbers_of_parts_are_refused(tmp_path):
    await make(tmp_path / "t", {})
    async with open_table(str(tmp_path / "t")) as table:
        for parts in (0, 1001):
            with pytest.raises(InvalidOptionError, match="parts"):
                await checkpoint_by_tasks(table, PickledTasks(roots_of(table)), parts=parts)
