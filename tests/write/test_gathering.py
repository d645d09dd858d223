"""Optimised write: few large files a partition, whatever order the rows come in."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta._clock import SYSTEM_CLOCK
from adelta.errors import StorageError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import schema_to_string
from adelta.storage.memory import MemoryStore
from adelta.write.gathering import GatheringWriter
from adelta.write.spec import WriteSpec
from adelta.write.write_data_files import write_rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.kernel.actions.file_actions import AddFile

SCHEMA = pa.schema([("p", pa.int64()), ("id", pa.int64()), ("noise", pa.binary())])
PARTITIONS = 40
MIB = 1024 * 1024


def spec(target: int = 128 * MIB, budget: int = 2 * MIB, *, optimize: bool = True) -> WriteSpec:
    return WriteSpec(
        schema_to_string(from_arrow_schema(SCHEMA)),
        ("p",),
        target_file_size=target,
        memory_budget=budget,
        optimize_write=optimize,
    )


async def shuffled(batches: int = 60, rows: int = 400) -> AsyncIterator[pa.RecordBatch]:
    """Every batch has rows of nearly every partition: 60 of them have about 12 MB."""
    dice = random.Random(7)
    for number in range(batches):
        yield pa.record_batch(
            [
                pa.array([dice.randrange(PARTITIONS) for _ in range(rows)]),
                pa.array(range(number * rows, (number + 1) * rows)),
                pa.array([dice.randbytes(500) for _ in range(rows)], pa.binary()),
            ],
            schema=SCHEMA,
        )


async def rows_of(store: MemoryStore, files: list[AddFile]) -> list[tuple[int, int]]:
    found = []
    for file in files:
        table = pq.read_table(pa.BufferReader(await store.get(decode_path(file.path))))
        partition = int(file.partition_values["p"] or -1)
        found += [(partition, value) for value in table["id"].to_pylist()]
    return sorted(found)


async def expected() -> list[tuple[int, int]]:
    found = []
    async for batch in shuffled():
        found += zip(batch["p"].to_pylist(), batch["id"].to_pylist(), strict=True)
    return sorted(found)


async def data_files(*args: Any, **kwargs: Any) -> list[AddFile]:
    return list((await write_rows(*args, **kwargs)).files)


async def test_rows_in_any_order_become_one_file_a_partition() -> None:
    gathered, plain = MemoryStore(), MemoryStore()
    few = await data_files(gathered, spec(), shuffled())
    many = await data_files(plain, spec(optimize=False), shuffled())
    assert len(few) == PARTITIONS
    assert len(many) > 2 * PARTITIONS  # what the option is for
    assert await rows_of(gathered, few) == await rows_of(plain, many) == await expected()


async def test_files_are_closed_at_the_target_size() -> None:
    store = MemoryStore()
    files = await data_files(store, spec(target=100_000), shuffled())
    assert await rows_of(store, files) == await expected()
    full = [file for file in files if file.size >= 100_000]
    assert len(full) >= len(files) - PARTITIONS  # all but the last one of each partition
    assert sorted(file.size for file in full)[len(full) // 2] < 150_000  # it learns to guess


async def test_what_waits_in_memory_is_bounded_and_the_rest_is_on_disk() -> None:
    writer = GatheringWriter(MemoryStore(), spec(budget=1 * MIB), clock=SYSTEM_CLOCK)
    held, on_disk = [], []
    async with writer:
        async for batch in shuffled():
            await writer.write(batch)
            held.append(writer._held_bytes)
            on_disk.append(writer._spill.num_bytes if writer._spill else 0)
        assert len(await writer.finish()) == PARTITIONS
    assert max(held) <= MIB // 2
    assert max(on_disk) > 8 * MIB
    assert writer._spill is not None
    assert writer._spill.num_bytes == 0


async def test_a_failure_leaves_neither_files_nor_spilled_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def failing() -> AsyncIterator[pa.RecordBatch]:
        async for batch in shuffled():
            yield batch
        raise RuntimeError("the source broke")

    store = MemoryStore()
    with pytest.raises(RuntimeError, match="the source broke"):
        await data_files(store, spec(target=100_000), failing())
    assert [meta.path async for page in store.list() for meta in page] == []
    assert os.listdir(tmp_path) == []


async def test_a_disk_that_takes_no_rows_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StorageError, match="TMPDIR"):
        await data_files(MemoryStore(), spec(), shuffled())
