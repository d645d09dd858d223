"""Data files that are gone, cut short, damaged, or far larger inside than outside."""

from __future__ import annotations

import io
import sys
from typing import Any

import anyio
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError, MissingDataFileError, UnsupportedFeatureError
from adelta.parquet import ParquetFile
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from tests.hostile.reading import DV, failure_of, parquet, table_with
from tests.support import logs

GOOD = parquet()
DAMAGED = {
    "empty": b"",
    "no Parquet": b"PAR1 something else PAR1",
    "cut in half": GOOD[: len(GOOD) // 2],
    "without its last byte": GOOD[:-1],
    "without its front": GOOD[64:],
    "zeros": bytes(4096),
    "encrypted": GOOD[:-4] + b"PARE",
    "an announced footer larger than the file": GOOD[:-8] + b"\xff\xff\xff\x7fPAR1",
}


async def _with(data: bytes, **more: Any) -> MemoryStore:
    store = await table_with(orjson.dumps(logs.add("a.parquet", size=len(data), **more)))
    await store.put("a.parquet", data)
    return store


@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_damaged_data_file_is_one_error_that_names_it(kind: str) -> None:
    failure = await failure_of(await _with(DAMAGED[kind]))
    assert isinstance(failure, InvalidTableError)
    assert "a.parquet" in str(failure)
    assert any(word in str(failure).lower() for word in ("restore", "rewrite"))


async def test_a_data_file_that_is_gone_is_named_with_what_to_do() -> None:
    store = await _with(GOOD)
    await store.delete(["a.parquet"])
    failure = await failure_of(store)
    assert isinstance(failure, MissingDataFileError)
    assert "a.parquet" in str(failure)
    assert "fsck" in str(failure)


@pytest.mark.parametrize("size", [-1, 0, 7, 1 << 62])
async def test_a_size_that_the_log_has_wrong_does_not_matter(size: int) -> None:
    store = await table_with(orjson.dumps(logs.add("a.parquet", size=size)))
    assert await failure_of(store) is None


@pytest.mark.parametrize(
    "change",
    [
        {"cardinality": 7},
        {"cardinality": 2**40},
        {"sizeInBytes": 3},
        {"sizeInBytes": 2**31 - 1},
        {"pathOrInlineDv": "00000"},
        {"pathOrInlineDv": "~~~~~"},
        {"pathOrInlineDv": "x" * 100_000},
        {"storageType": "z"},
        {"storageType": "u", "pathOrInlineDv": "short"},
        {"storageType": "u", "pathOrInlineDv": "~" * 20},
        {"storageType": "p", "pathOrInlineDv": "gone.bin"},
        {"storageType": "p", "pathOrInlineDv": "a.parquet", "offset": 2**31 - 1},
        {"storageType": "p", "pathOrInlineDv": "a.parquet", "offset": 4},
    ],
)
async def test_a_damaged_deletion_vector_is_one_error(change: dict[str, Any]) -> None:
    failure = await failure_of(await _with(GOOD, deletionVector=DV | change))
    assert isinstance(failure, InvalidTableError | UnsupportedFeatureError)
    assert any(word in str(failure) for word in ("deletion vector", "Base85", "deletes"))


def _sevens(groups: int) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema({"id": pa.int64()})) as writer:
        rows = pa.table({"id": pa.repeat(pa.scalar(7, pa.int64()), 20_000_000)})
        for _ in range(groups):
            writer.write_table(rows, row_group_size=20_000_000)
    return sink.getvalue()


MEASURED = """
import resource, sys, time
import adelta.sync

rows = 0
for batch in adelta.sync.open_table(sys.argv[1]).snapshot().scan().batches():
    if rows == 0:
        time.sleep(1)  # what is read ahead has the time to grow
    rows += batch.num_rows
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
"""


async def test_rows_that_unfold_a_thousandfold_are_read_in_bounded_memory(tmp_path) -> None:
    """240 million sevens, 2 GB of memory, lie in a file of some kilobytes."""
    data = _sevens(12)
    assert len(data) < 1 << 20
    store = LocalStore(tmp_path)
    await store.put("a.parquet", data)
    line = logs.add("a.parquet", size=len(data))
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), line)
    done = await anyio.run_process([sys.executable, "-c", MEASURED, str(tmp_path)])
    rows, peak = map(int, done.stdout.split())
    assert rows == 240_000_000
    assert peak < 1200 << 20


async def test_what_a_row_group_unfolds_to_counts_as_its_size() -> None:
    store = MemoryStore()
    await store.put("x.parquet", _sevens(1))
    file = await ParquetFile.open(store, "x.parquet")
    assert file.uncompressed_bytes(None, 0) >= 160_000_000


async def test_a_row_group_that_no_memory_holds_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("adelta.parquet.reader._LARGEST_ROW_GROUP", 100 << 20)
    failure = await failure_of(await _with(_sevens(1)))
    assert isinstance(failure, InvalidTableError)
    for part in ("a.parquet", "row group 0", "20,000,000 rows", "smaller row groups"):
        assert part in str(failure)
