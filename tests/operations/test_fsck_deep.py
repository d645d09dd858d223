"""Checking every byte that a table relies on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.kernel.log_path import commit_path
from adelta.operations import checkpoint, create_table, delete, fsck, write_table
from adelta.parquet.reader import ParquetFile
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.parquet.recording_store import parquet_bytes
from tests.support import logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.operations import FsckReport

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
PLAIN = {
    "delta.parquet.compression.codec": "uncompressed",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
}


async def table() -> tuple[Table, MemoryStore]:
    """Two files, one of them with a deletion vector, under a checkpoint with a sidecar."""
    made = await create_table(f"memory://{uuid.uuid4()}/table", SCHEMA, properties=PLAIN)
    for start in (0, 1000):
        ids = range(start, start + 1000)
        await write_table(made, pa.table([ids, [f"name {n:04}" for n in ids]], SCHEMA))
    await delete(made, "id = 3")
    await checkpoint(made)
    store = made.store
    while not isinstance(store, MemoryStore):
        store = store.inner  # type: ignore[attr-defined]
    return made, store


async def paths(store: MemoryStore, end: str, start: str = "") -> list[str]:
    return [m.path async for page in store.list(start) for m in page if m.path.endswith(end)]


async def damage(store: MemoryStore, path: str, change: Callable[[bytes], bytes]) -> None:
    data = await store.get(path)
    assert change(data) != data
    await store.put(path, change(data))


def told(report: FsckReport) -> list[tuple[str, str]]:
    return [(problem.kind, problem.path) for problem in report.problems]


async def test_every_page_of_a_sound_table_is_read_and_has_a_checksum() -> None:
    made, _ = await table()
    report = await fsck(made, deep=True)
    assert report.problems == ()
    assert report.num_pages is not None
    assert report.num_pages > 2 * 2 * 2  # a dictionary and values of each column, and checkpoints
    assert report.num_pages_unchecked == 0
    assert (await fsck(made)).num_pages is None


async def test_a_flipped_bit_of_a_page_is_found_and_its_file_named() -> None:
    made, store = await table()
    *_, path = [p for p in await paths(store, ".parquet") if not p.startswith("_delta_log")]
    await damage(store, path, lambda data: data.replace(b"name ", b"game ", 1))
    assert (await fsck(made)).problems == ()
    report = await fsck(made, deep=True)
    assert told(report) == [("file", path)]
    assert "column name in row group 0, has other bytes than its checksum" in (
        report.problems[0].message
    )


async def test_a_damaged_sidecar_is_found() -> None:
    made, store = await table()
    (sidecar,) = await paths(store, ".parquet", "_delta_log/_sidecars/")
    file = await ParquetFile.open(store, sidecar)
    ((_, end),) = file.layout.places([file.layout.leaf("add.path")], [0])
    await damage(store, sidecar, lambda data: data[: end - 1] + b"~" + data[end:])
    assert ("checkpoint", sidecar) in told(await fsck(made, deep=True))


async def test_a_commit_that_nobody_reads_any_more_is_decoded() -> None:
    made, store = await table()
    await write_table(made, pa.table([[1], ["x"]], SCHEMA))
    await damage(store, commit_path(1), lambda data: data[:-20] + b"\n")
    assert ("commit", commit_path(1)) in told(await fsck(made, deep=True))


async def test_a_damaged_version_checksum_of_an_earlier_version_is_found() -> None:
    made, store = await table()
    earliest = (await paths(store, ".crc"))[0]
    await damage(store, earliest, lambda data: data[:-5])
    assert told(await fsck(made)) == []
    assert told(await fsck(made, deep=True)) == [("checksum", earliest)]


@pytest.mark.parametrize(("rows", "problems"), [(5, []), (6, ["file"])])
async def test_pages_without_checksums_are_decoded_and_rows_are_counted(
    rows: int, problems: list[str]
) -> None:
    store = MemoryStore()
    data = parquet_bytes(pa.table({"id": range(5)}))
    await store.put("f.parquet", data)
    statistics = f'{{"numRecords":{rows}}}'
    line: Any = logs.add("f.parquet", size=len(data), stats=statistics)
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), line)
    async with Table("memory://of/tests", store=store) as made:
        report = await adelta.fsck(made, deep=True)
    assert [problem.kind for problem in report.problems] == problems
    assert report.num_pages == report.num_pages_unchecked == 2
