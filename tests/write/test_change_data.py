"""Change data files: where they lie, what they hold, and that a failure leaves none."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import schema_to_string
from adelta.storage.memory import MemoryStore
from adelta.write.change_data import DELETE, INSERT, ChangeDataWriter
from adelta.write.spec import WriteSpec

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str | None = None) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(ids, pa.int64()), pa.array([p] * len(ids), pa.string())], SCHEMA
    )


def spec(*partition_by: str, **more: object) -> WriteSpec:
    text = schema_to_string(from_arrow_schema(SCHEMA))
    return WriteSpec(text, partition_by, **more)  # type: ignore[arg-type]


async def test_changed_rows_lie_by_partition_below_a_directory_of_their_own() -> None:
    # B4-01, B4-02
    store = MemoryStore()
    async with ChangeDataWriter(store, spec("p")) as changes:
        await changes.write(rows(1, 2, p="a b"), DELETE)
        await changes.write(rows(), DELETE)
        await changes.write(rows(3, p="a b"), INSERT)
        await changes.write(rows(4), INSERT)
        actions = await changes.finish()
    told = {}
    for action in actions:
        path = decode_path(action.path)
        assert path.startswith("_change_data/p=")
        assert path.rpartition("/")[2].startswith("cdc-")
        data = await store.get(path)
        assert action.size == len(data)
        assert action.to_json()["dataChange"] is False
        read = pq.read_table(io.BytesIO(data))
        told[action.partition_values["p"]] = list(zip(*read.to_pydict().values(), strict=True))
        assert read.schema.names == ["id", "_change_type"]
    assert told == {"a b": [(1, "delete"), (2, "delete"), (3, "insert")], None: [(4, "insert")]}


async def test_nothing_is_written_where_nothing_changed() -> None:
    async with ChangeDataWriter(MemoryStore(), spec()) as changes:
        assert await changes.finish() == []


async def test_a_failure_leaves_no_file_behind() -> None:
    store = MemoryStore()

    async def fail() -> None:
        async with ChangeDataWriter(store, spec(target_file_size=1)) as changes:
            await changes.write(rows(1), DELETE)
            raise RuntimeError("elsewhere")

    with pytest.raises(RuntimeError, match="elsewhere"):
        await fail()
    assert [meta.path async for page in store.list() for meta in page] == []
