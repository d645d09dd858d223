"""`memory_limit`: what somebody else wrote is decoded in it, or refused by what is too large."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta import _memory
from adelta._concurrency import in_io_thread, in_thread
from adelta.errors import AdeltaError, InvalidOptionError, OutOfMemoryError
from adelta.kernel.log_path import checkpoint_path
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import schema_to_string
from adelta.storage.local import LocalStore
from adelta.storage.resolve import open_store
from tests.support import logs

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"memory_limit": "1MiB"}
VECTORS = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


def a_file(rows: int = 1, text: str = "x") -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([text] * rows)}), sink)
    return sink.getvalue()


SCHEMA = t.StructType((t.StructField("id", t.STRING),))
METADATA = logs.metadata(schemaString=schema_to_string(SCHEMA))


async def refusal(path: Path, options: dict[str, str]) -> str | None:
    """Why the table at `path` cannot be read; None where it is."""
    try:
        async with adelta.open_table(path, options) as table:
            snapshot = await table.snapshot()
            await snapshot.files()
            await snapshot.scan().to_arrow()
    except OutOfMemoryError as error:
        return str(error)
    return None


async def assert_needs_more(path: Path, what: str) -> None:
    """The table is read by default, and refused in a megabyte, by the name of what is too large."""
    assert await refusal(path, {}) is None
    assert await refusal(path, {"memory_limit": "1 GiB"}) is None
    refused = await refusal(path, SMALL)
    assert refused is not None
    assert what in refused
    assert "raise the storage option memory_limit" in refused


async def test_a_commit(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    many = [logs.add(f"{n}.parquet", stats="x" * 1000) for n in range(1000)]
    removed = [logs.remove(f"{n}.parquet") for n in range(1000)]
    await logs.put_commit(store, 0, logs.protocol(), METADATA)
    await logs.put_commit(store, 1, *many)
    await logs.put_commit(store, 2, *removed)
    await assert_needs_more(tmp_path, "00000000000000000001.json")


async def test_many_commits(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await logs.put_commit(store, 0, logs.protocol(), METADATA)
    for version in range(1, 5):
        await logs.put_commit(store, version, {"commitInfo": {"x": "y" * 200_000}})
    await assert_needs_more(tmp_path, "its log of 5 JSON files")


async def test_a_v2_checkpoint_of_json(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    lines = [logs.protocol(3, 7, **features), METADATA]
    await logs.put_commit(store, 0, *lines)
    txns = [{"txn": {"appId": "a" * 1000 + str(n), "version": n}} for n in range(1000)]
    await logs.put_v2_checkpoint(store, 0, [*lines, *txns], json=True)
    await store.delete(["_delta_log/00000000000000000000.json"])
    await assert_needs_more(tmp_path, ".json")


async def test_a_row_group_of_a_checkpoint(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    lines = [logs.protocol(), METADATA]
    lines += [{"txn": {"appId": "a" * 1000 + str(n), "version": n}} for n in range(2000)]
    await logs.put_commit(store, 0, *lines[:2])
    await logs.put_checkpoint(store, 1, lines)
    async with adelta.open_table(tmp_path, SMALL) as table:
        snapshot = await table.snapshot()
        with pytest.raises(OutOfMemoryError, match=r"checkpoint\.parquet: its row group 0"):
            await snapshot._state.set_transactions()
    assert (tmp_path / checkpoint_path(1)).exists()


async def test_a_list_of_files(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    lines = [logs.protocol(), METADATA, *(logs.add(f"{n:0100}") for n in range(9000))]
    await logs.put_commit(store, 0, *lines[:2])
    await logs.put_checkpoint(store, 1, lines[:4500], lines[4500:])  # none is too large by itself
    async with adelta.open_table(tmp_path, SMALL) as table:
        snapshot = await table.snapshot()
        with pytest.raises(OutOfMemoryError, match="its list of files"):
            await snapshot.files()
    async with adelta.open_table(tmp_path) as table:
        assert (await (await table.snapshot()).files()).num_rows == 9000


async def test_a_row_group_of_rows(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    data = a_file(4000, "y" * 1000)  # a dictionary of one
    await store.put("a.parquet", data)
    await logs.put_commit(
        store, 0, logs.protocol(), METADATA, logs.add("a.parquet", size=len(data))
    )
    await assert_needs_more(tmp_path, "a.parquet: its row group 0")


async def test_a_deletion_vector_of_a_stated_size(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    data = a_file()
    await store.put("a.parquet", data)
    vector = {"storageType": "p", "pathOrInlineDv": f"{tmp_path}/v.bin", "offset": 1}
    vector |= {"sizeInBytes": 2_000_000, "cardinality": 1}
    await store.put("v.bin", bytes(20))
    line = logs.add("a.parquet", size=len(data), deletionVector=vector)
    await logs.put_commit(store, 0, logs.protocol(3, 7, **VECTORS), METADATA, line)
    refused = await refusal(tmp_path, SMALL)
    assert refused is not None
    assert "a.parquet: its deletion vector needs 2,000,000 bytes" in refused
    with pytest.raises(AdeltaError, match="cut short"):
        await refusal(tmp_path, {})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1 << 20),
        ("1MiB", 1 << 20),
        ("1.5 GiB", 3 << 29),
        ("4GB", 4_000_000_000),
        ("4g", 4_000_000_000),
        ("2Ti", 2 << 40),
        ("1kb", 1000),
    ],
)
def test_a_limit_is_a_size(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = {"aws_region": "x", "aws_skip_signature": "true"}
    for uri in ("memory://a", "x", "s3://a/b"):
        assert _memory.memory_limit_of(open_store(uri, s3 | {"memory_limit": text})) == size
    monkeypatch.setenv("ADELTA_MEMORY_LIMIT", text)
    assert _memory.memory_limit_of(open_store("memory://a")) == size


@pytest.mark.parametrize("text", ["0", "-1", "many", "1e9", "1XB", "1.2.3", "9" * 5000, "50%"])
def test_a_limit_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="memory_limit is a number of bytes such as"):
        adelta.open_table("memory://a", {"memory_limit": text})


def test_by_default_it_is_a_part_of_what_the_process_may_have() -> None:
    program = """
        import resource
        from adelta._memory import default_memory_limit
        whole = default_memory_limit()
        default_memory_limit.cache_clear()
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
        print(whole, default_memory_limit())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
    )
    whole, limited = map(int, ran.stdout.split())
    assert limited == min(whole, 1 << 29)
    assert whole >= limited


def _no_memory(kind: type[BaseException]) -> None:
    raise kind("malloc of size 1073741824 failed")


@pytest.mark.parametrize("kind", [MemoryError, pa.ArrowMemoryError])
@pytest.mark.parametrize("thread", [in_thread, in_io_thread])
async def test_memory_that_is_not_there_is_one_error(kind: type[BaseException], thread) -> None:
    with pytest.raises(OutOfMemoryError, match="malloc of size") as raised:
        await thread(_no_memory, kind)
    assert isinstance(raised.value, MemoryError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


async def test_lack_of_memory_is_not_blamed_on_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await adelta.write_table(tmp_path, pa.table({"a": [1]}))
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", lambda *_, **__: _no_memory(MemoryError))
        with pytest.raises(OutOfMemoryError):
            await adelta.write_table(tmp_path, pa.table({"a": [2]}), mode="append")
    async with adelta.open_table(tmp_path) as table:
        assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 1
