from __future__ import annotations

import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidOptionError, InvariantViolationError, SchemaMismatchError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import schema_to_string
from adelta.storage.memory import MemoryStore
from adelta.write.batches import record_batches
from adelta.write.data_file_writer import DataFileWriter
from adelta.write.spec import WriteSpec
from adelta.write.write_data_files import write_rows
from tests.support.clock import ManualClock
from tests.support.stores import CountingStore, FailingStore, Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.kernel.actions.file_actions import AddFile


def spec_of(
    schema: pa.Schema,
    *partition_by: str,
    target_file_size: int = 2**27,
    memory_budget: int = 2**28,
    **properties: str,
) -> WriteSpec:
    return WriteSpec(
        schema_to_string(from_arrow_schema(schema)),
        partition_by,
        tuple((key.replace("__", "."), value) for key, value in properties.items()),
        target_file_size=target_file_size,
        memory_budget=memory_budget,
    )


async def data_files(*args: Any, **kwargs: Any) -> list[AddFile]:
    return list((await write_rows(*args, **kwargs)).files)


async def write(
    store: MemoryStore, data: pa.Table, *partition_by: str, **properties: str
) -> list[AddFile]:
    spec = spec_of(data.schema, *partition_by, **properties)
    return await data_files(store, spec, record_batches(data), clock=ManualClock(77))


async def read(store: MemoryStore, file: AddFile) -> pa.Table:
    return pq.read_table(pa.BufferReader(await store.get(decode_path(file.path))))


async def paths(store: MemoryStore) -> list[str]:
    return [meta.path async for page in store.list() for meta in page]


async def test_a_file_holds_the_rows_and_its_action_says_what_it_holds() -> None:
    store = MemoryStore()
    (file,) = await write(store, pa.table({"a": [3, 1, None], "t": ["x", "y", "z"]}))
    assert (await read(store, file)).to_pydict() == {"a": [3, 1, None], "t": ["x", "y", "z"]}
    assert file.size == len(await store.get(file.path))
    assert (file.modification_time, file.data_change, file.partition_values) == (77, True, {})
    assert orjson.loads(file.stats or "") == {
        "numRecords": 3,
        "minValues": {"a": 1, "t": "x"},
        "maxValues": {"a": 3, "t": "z"},
        "nullCount": {"a": 1, "t": 0},
    }


@pytest.mark.parametrize(
    ("value", "directory", "path"),
    [
        ("plain", "p=plain", "p=plain"),
        ("a%b", "p=a%25b", "p=a%2525b"),
        ("x/y", "p=x%2Fy", "p=x%252Fy"),
        (" ", "p= ", "p=%20"),
        ("größe", "p=größe", "p=gr%C3%B6%C3%9Fe"),
        ("a=b:c", "p=a%3Db%3Ac", "p=a%253Db%253Ac"),
        (None, "p=__HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__"),
        ("", "p=__HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__"),
    ],
)
async def test_directories_are_escaped_as_hive_does_and_paths_are_encoded_once(
    value: str | None, directory: str, path: str
) -> None:
    store = MemoryStore()
    data = pa.table({"p": pa.array([value], pa.string()), "v": [1]})
    (file,) = await write(store, data, "p")
    assert file.path.rpartition("/")[0] == path
    assert (await paths(store))[0].rpartition("/")[0] == directory
    assert file.partition_values == {"p": value or None}
    assert (await read(store, file)).column_names == ["v"]


async def test_file_names_are_unique_and_say_the_codec() -> None:
    store = MemoryStore()
    data = pa.table({"p": [1, 2], "v": [1, 2]})
    files = await write(store, data, "p")
    again = await write(store, data, "p", delta__parquet__compression__codec="snappy")
    names = [file.path.rpartition("/")[2] for file in (*files, *again)]
    assert len(set(names)) == 4
    assert sorted(name[:11] for name in names) == ["part-00000-"] * 2 + ["part-00001-"] * 2
    assert all(name.endswith(".c000.zstd.parquet") for name in names[:2])
    assert all(name.endswith(".c000.snappy.parquet") for name in names[2:])
    codec = pq.ParquetFile(pa.BufferReader(await store.get(again[0].path))).metadata
    assert codec.row_group(0).column(0).compression == "SNAPPY"


async def test_rows_are_cast_to_the_tables_schema_and_columns_found_by_name() -> None:
    store = MemoryStore()
    table = pa.schema([("a", pa.int64()), ("B", pa.decimal128(10, 2)), ("c", pa.string())])
    batch = pa.record_batch({"b": [Decimal("1.5")], "a": pa.array([1], pa.int16())})
    (file,) = await data_files(store, spec_of(table), record_batches(batch))
    found = await read(store, file)
    assert found.to_pydict() == {"a": [1], "B": [Decimal("1.50")], "c": [None]}
    assert found.schema.field("B").type == pa.decimal128(10, 2)


async def test_a_null_where_none_may_be_is_refused() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    batch = pa.record_batch({"a": pa.array([1, None])})
    with pytest.raises(InvariantViolationError, match="'a'"):
        await data_files(MemoryStore(), spec_of(schema), record_batches(batch))


async def test_void_columns_are_left_out_of_files() -> None:
    store = MemoryStore()
    schema = pa.schema([("v", pa.int64()), ("n", pa.null())])
    (file,) = await data_files(
        store, spec_of(schema), record_batches(pa.table({"v": [1], "n": pa.nulls(1)}))
    )
    assert (await read(store, file)).column_names == ["v"]


async def test_a_table_whose_files_would_hold_nothing_cannot_be_written() -> None:
    schema = pa.schema([("p", pa.int64()), ("n", pa.null())])
    with pytest.raises(SchemaMismatchError, match="partition column or has no type"):
        async with DataFileWriter(MemoryStore(), spec_of(schema, "p")):
            pass


async def test_without_rows_there_is_no_file() -> None:
    store = MemoryStore()
    assert await write(store, pa.table({"a": pa.array([], pa.int64())})) == []
    assert await paths(store) == []


async def test_files_are_closed_at_the_target_size() -> None:
    store = MemoryStore()
    data = pa.table({"a": range(400_000)})
    spec = spec_of(data.schema, target_file_size=200_000)
    files = await data_files(store, spec, record_batches(data))
    assert len(files) > 3
    assert max(file.size for file in files) < 600_000
    found = [value for file in files for value in (await read(store, file))["a"].to_pylist()]
    assert sorted(found) == list(range(400_000))


async def test_many_partitions_are_written_in_bounded_memory() -> None:
    store = MemoryStore()
    budget = 2**20
    held: list[int] = []

    class Watched(DataFileWriter):
        async def write(self, batch: pa.RecordBatch) -> None:
            await super().write(batch)
            held.append(sum(file.held_bytes for file in self._open.values()))

    schema = pa.schema([("p", pa.int64()), ("t", pa.string())])
    spec = spec_of(schema, "p", memory_budget=budget)

    async with Watched(store, spec) as writer:
        for start in range(40):
            rows = [(start * 37 + i) % 50 for i in range(500)]
            await writer.write(pa.record_batch({"p": rows, "t": [f"{start:0200d}"] * 500}))
        files = await writer.finish()
    assert max(held) <= budget
    assert len({file.partition_values["p"] for file in files}) == 50
    assert sum(orjson.loads(file.stats or "")["numRecords"] for file in files) == 20_000


async def test_a_failing_source_leaves_no_file() -> None:
    store = MemoryStore()
    schema = pa.schema([("a", pa.int64())])

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        for _ in range(20):
            yield pa.record_batch({"a": range(20_000)})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await data_files(store, spec_of(schema, target_file_size=50_000), batches())
    assert await paths(store) == []


async def test_a_failing_store_leaves_no_file_that_it_could_still_delete() -> None:
    data = pa.table({"p": list(range(6)), "v": list(range(6))})
    for number in range(6):
        for after in (False, True):
            inner = MemoryStore()
            store = FailingStore(inner, {number: Fault(after=after)})
            with pytest.raises(OSError, match="an injected fault"):
                await data_files(store, spec_of(data.schema, "p"), record_batches(data))
            assert await paths(inner) == []


async def test_a_small_file_is_one_put() -> None:
    store = CountingStore(MemoryStore())
    data = pa.table({"a": [1]})
    await data_files(store, spec_of(data.schema), record_batches(data))
    assert [request.kind for request in store.requests] == ["put"]


def test_a_spec_travels_between_processes() -> None:
    spec = spec_of(pa.schema([("a", pa.int64())]), delta__targetFileSize="1mb")
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="target_file_size is 0"):
        spec_of(pa.schema([("a", pa.int64())]), target_file_size=0)
