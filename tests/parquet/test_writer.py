from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    InvariantViolationError,
    ObjectNotFoundError,
    SchemaMismatchError,
    StorageError,
)
from adelta.parquet.reader import ParquetFile
from adelta.parquet.write.geospatial import with_shape_types
from adelta.parquet.write.options import BloomFilter, ColumnOptions, WriterOptions
from adelta.parquet.write.statistics import StatisticsCollector
from adelta.parquet.write.upload import QUEUE_BYTES, STREAM_FROM_BYTES
from adelta.parquet.write.writer import ParquetObjectWriter, write_parquet
from tests.parquet.recording_store import RecordingStore
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.storage.object_store import ObjectMeta

TABLE = pa.table({"id": list(range(10_000)), "text": [f"row {i}" for i in range(10_000)]})
PLAIN = WriterOptions(compression="none", dictionary=False, row_group_bytes=1024 * 1024)


async def batches(table: pa.Table, rows: int = 1000) -> AsyncIterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=rows):
        yield batch


def incompressible(megabytes: int) -> pa.RecordBatch:
    numbers = pa.array(range(megabytes * 131_072), pa.int64())
    return pa.record_batch({"n": numbers})


async def test_a_small_file_is_one_put_and_reads_back_the_same():
    store = RecordingStore()
    written = await write_parquet(store, "f", batches(TABLE), schema=TABLE.schema)
    assert store.asked() == [("put", written.size)]
    assert (written.path, written.num_rows) == ("f", 10_000)
    file = await ParquetFile.open(store, "f")
    assert file.layout.metadata.equals(written.metadata)
    assert (await file.read()).equals(TABLE)


async def test_a_large_file_is_streamed_and_reads_back_the_same():
    store = RecordingStore()
    batch = incompressible(3)
    async with ParquetObjectWriter(store, "f", schema=batch.schema, options=PLAIN) as writer:
        for _ in range(7):
            await writer.write(batch)
        written = await writer.close()
    assert written.size == (await store.head("f")).size > STREAM_FROM_BYTES
    assert ("put_stream", "f") in store.asked()
    table = await (await ParquetFile.open(store, "f")).read()
    assert table.equals(pa.Table.from_batches([batch] * 7))


async def test_a_file_without_rows_has_its_schema():
    store = RecordingStore()
    written = await write_parquet(store, "f", batches(TABLE.slice(0, 0)), schema=TABLE.schema)
    assert written.num_rows == 0
    file = await ParquetFile.open(store, "f")
    assert (await file.read()).equals(TABLE.slice(0, 0))


async def test_row_groups_end_at_the_rows_or_the_bytes_named():
    store = RecordingStore()
    by_rows = WriterOptions(row_group_rows=3000)
    written = await write_parquet(store, "f", batches(TABLE), schema=TABLE.schema, options=by_rows)
    groups = [written.metadata.row_group(i).num_rows for i in range(4)]
    assert groups == [3000, 3000, 3000, 1000]
    by_bytes = WriterOptions(row_group_bytes=16_000)
    written = await write_parquet(
        store,
        "f",
        batches(TABLE.select(["id"]), 10_000),
        schema=TABLE.select(["id"]).schema,
        options=by_bytes,
    )
    assert written.metadata.num_row_groups == 5
    assert written.metadata.row_group(0).num_rows == pytest.approx(2000, abs=300)


async def test_flush_ends_a_row_group_and_frees_what_was_buffered():
    store = RecordingStore()
    async with ParquetObjectWriter(store, "f", schema=TABLE.schema) as writer:
        await writer.write(TABLE.slice(0, 100))
        assert writer.bytes_written == 0
        assert writer.estimated_size == writer.buffered_bytes > 0
        await writer.flush()
        assert writer.buffered_bytes == 0
        assert writer.estimated_size == writer.bytes_written > 0
        await writer.flush()
        await writer.write(TABLE.slice(100, 100))
        assert writer.bytes_written < writer.estimated_size
        written = await writer.close()
    assert written.metadata.num_row_groups == 2
    assert written.num_rows == 200


async def test_a_block_that_fails_withdraws_its_upload_and_leaves_nothing_behind():
    store = StuckStore()
    batch = incompressible(10)
    writer = ParquetObjectWriter(store, "f", schema=batch.schema, options=PLAIN)

    async def fail_midway() -> None:
        async with writer:
            await writer.write(batch)
            assert store.under_way == 1
            raise KeyError

    with pytest.raises(KeyError):
        await fail_midway()
    assert store.under_way == 0
    with pytest.raises(ObjectNotFoundError):
        await store.head("f")
    with pytest.raises(InvalidUseError, match="is aborted"):
        await writer.write(batch)
    await writer.abort()


async def test_a_cancelled_write_leaves_nothing_behind():
    store = RecordingStore()
    batch = incompressible(10)

    async def endless() -> AsyncIterator[pa.RecordBatch]:
        yield batch
        await anyio.sleep_forever()

    with anyio.move_on_after(0.3) as scope:
        await write_parquet(store, "f", endless(), schema=batch.schema, options=PLAIN)
    assert scope.cancelled_caught
    with pytest.raises(ObjectNotFoundError):
        await store.head("f")


class StuckStore(RecordingStore):
    """Takes the first piece of a stream and then no more, until it is let on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = anyio.Event()
        self.under_way = 0
        self.error: StorageError | None = None

    async def put_stream(self, path: str, chunks: AsyncIterator[bytes]) -> ObjectMeta:
        async def slowly() -> AsyncIterator[bytes]:
            async for chunk in chunks:
                yield chunk
                await self.go_on.wait()
                if self.error:
                    raise self.error

        self.under_way += 1
        try:
            return await super().put_stream(path, slowly())
        finally:
            self.under_way -= 1


async def test_a_slow_store_holds_the_writer_up_so_that_memory_stays_bounded():
    store = StuckStore()
    batch = incompressible(4)
    writer = ParquetObjectWriter(store, "f", schema=batch.schema, options=PLAIN)
    written = 0

    async def write_on() -> None:
        nonlocal written
        for _ in range(30):
            await writer.write(batch)
            written += 1

    async with anyio.create_task_group() as group:
        group.start_soon(write_on)
        await until(lambda: writer.bytes_written > STREAM_FROM_BYTES)
        before = -1
        while written != before:  # as long as it still goes on
            before = written
            await anyio.sleep(0.5)
        group.cancel_scope.cancel()
    assert written < 30
    assert STREAM_FROM_BYTES < writer.bytes_written < STREAM_FROM_BYTES + QUEUE_BYTES + (8 << 20)


async def test_a_store_that_lets_go_again_gets_the_whole_file():
    store = StuckStore()
    batch = incompressible(4)
    async with (
        anyio.create_task_group() as group,
        ParquetObjectWriter(store, "f", schema=batch.schema, options=PLAIN) as writer,
    ):

        async def let_on() -> None:
            await anyio.sleep(0.2)
            store.go_on.set()

        group.start_soon(let_on)
        for _ in range(12):
            await writer.write(batch)
    table = await (await ParquetFile.open(store, "f")).read()
    assert table.num_rows == 12 * batch.num_rows


async def test_an_upload_that_fails_fails_the_writer_with_the_stores_own_error():
    store = StuckStore()
    store.error = StorageError("the disk is full")
    store.go_on.set()
    batch = incompressible(4)
    writer = ParquetObjectWriter(store, "f", schema=batch.schema, options=PLAIN)

    async def write_on() -> None:
        for _ in range(30):
            await writer.write(batch)

    with pytest.raises(StorageError, match="the disk is full"):
        await write_on()
    with pytest.raises(InvalidUseError):
        await writer.close()


async def test_a_closed_writer_takes_nothing_more():
    store = RecordingStore()
    writer = ParquetObjectWriter(store, "f", schema=TABLE.schema)
    await writer.close()
    with pytest.raises(InvalidUseError, match="is closed"):
        await writer.write(TABLE)
    await writer.abort()
    assert (await store.head("f")).size > 0


async def test_batches_that_differ_in_nullability_and_inner_names_alone_are_taken():
    schema = pa.schema(
        [
            pa.field("n", pa.int32(), nullable=False),
            pa.field("l", pa.list_(pa.field("element", pa.string(), nullable=False))),
        ]
    )
    data = pa.table({"n": pa.array([1, 2], pa.int32()), "l": [["a"], None]})
    store = RecordingStore()
    async with ParquetObjectWriter(store, "f", schema=schema) as writer:
        await writer.write(data)
    file = await ParquetFile.open(store, "f")
    assert file.layout.schema.equals(schema)
    assert (await file.read()).to_pylist() == data.to_pylist()


@pytest.mark.parametrize("declared", [True, False])
async def test_a_null_where_none_may_be_breaks_an_invariant(declared: bool):
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    data = pa.table(
        [pa.array([1, None], pa.int32())],
        schema=schema if declared else None,
        names=None if declared else ["n"],
    )
    store = RecordingStore()
    with pytest.raises(InvariantViolationError, match=r"f: a column that must not be null"):
        async with ParquetObjectWriter(store, "f", schema=schema) as writer:
            await writer.write(data)
    assert store.asked() == []


def test_rows_without_shapes_are_not_cast_to_another_schema():
    nested = pa.struct([pa.field("b", pa.binary(), metadata={"a": "b"})])
    schema = pa.schema(
        [("n", pa.int32()), ("l", pa.list_(nested)), ("m", pa.map_("string", "int8"))]
    )
    assert with_shape_types(schema) is schema


async def test_other_columns_and_other_types_are_refused_by_name():
    writer = ParquetObjectWriter(RecordingStore(), "f", schema=TABLE.schema)
    with pytest.raises(SchemaMismatchError, match=r"\['id', 'text'\], and a batch has \['id'\]"):
        await writer.write(TABLE.select(["id"]))
    writer = ParquetObjectWriter(RecordingStore(), "f", schema=TABLE.schema)
    with pytest.raises(SchemaMismatchError, match="'id' is written as int64, and a batch has int"):
        await writer.write(TABLE.set_column(0, "id", TABLE["id"].cast("int32")))
    with pytest.raises(SchemaMismatchError, match="at least one column"):
        ParquetObjectWriter(RecordingStore(), "f", schema=pa.schema([]))


async def test_what_parquet_cannot_hold_is_a_schema_error():
    for table in (
        pa.table({"t": pa.array([1001], pa.timestamp("ns"))}),
        pa.table({"e": pa.array([{}], pa.struct([]))}),
    ):
        with pytest.raises(SchemaMismatchError, match="f: Parquet cannot hold the data"):
            await write_parquet(RecordingStore(), "f", batches(table), schema=table.schema)


async def test_the_footer_is_plain_parquet_with_micros_and_field_ids():
    schema = pa.schema(
        [
            pa.field("t", pa.timestamp("ms", "UTC"), metadata={"PARQUET:field_id": "3"}),
            pa.field("n", pa.timestamp("us")),
            pa.field("d", pa.decimal128(20, 4)),
        ],
        metadata={"pandas": "{}"},
    )
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    table = pa.table([[moment], [moment.replace(tzinfo=None)], [None]], schema=schema)
    written = await write_parquet(
        RecordingStore(),
        "f",
        batches(table),
        schema=schema,
        options=WriterOptions(key_values=(("engine", "adelta"),)),
    )
    assert written.metadata.metadata == {b"engine": b"adelta"}
    types = [str(written.metadata.schema.column(i).logical_type) for i in range(2)]
    assert ["isAdjustedToUTC=true" in types[0], "isAdjustedToUTC=false" in types[1]] == [True] * 2
    assert all("timeUnit=microseconds" in text for text in types)
    assert written.metadata.schema.column(0).physical_type == "INT64"
    assert "field_id=3 t" in str(written.metadata.schema)


async def test_decimals_are_whole_numbers_as_long_as_they_fit():
    values = [Decimal("-1.25"), None, Decimal("9999999.99")]
    digits = {"int": 9, "long": 18, "bytes": 19}
    table = pa.table({name: pa.array(values, pa.decimal128(n, 2)) for name, n in digits.items()})
    store = RecordingStore()
    await write_parquet(store, "f", batches(table), schema=table.schema)
    file = await ParquetFile.open(store, "f")
    stored = file.layout.metadata.schema
    physical = [stored.column(leaf).physical_type for leaf in range(3)]
    assert physical == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    assert (await file.read()).equals(table)


async def test_options_reach_the_columns_they_name():
    schema = pa.schema([("a.b", pa.string()), ("l", pa.list_(pa.int64())), ("n", pa.int64())])
    table = pa.table([["x"] * 100, [[1, 2]] * 100, list(range(100))], schema=schema)
    options = WriterOptions(
        compression="ZSTD",
        compression_level=5,
        dictionary=("l",),
        statistics=("n",),
        bloom_filters=(BloomFilter("a.b", 100, 0.1),),
    )
    written = await write_parquet(
        RecordingStore(), "f", batches(table), schema=schema, options=options
    )
    text, items, number = (written.metadata.row_group(0).column(i) for i in range(3))
    assert {text.compression, items.compression} == {"ZSTD"}
    assert [c.has_dictionary_page for c in (text, items, number)] == [False, True, False]
    assert [c.is_stats_set for c in (text, items, number)] == [False, False, True]
    assert [c.bloom_filter_offset is not None for c in (text, items)] == [True, False]
    assert number.has_column_index
    none = await write_parquet(
        RecordingStore(),
        "f",
        batches(table),
        schema=schema,
        options=WriterOptions(dictionary=(), statistics=(), page_index=False),
    )
    assert not none.metadata.row_group(0).column(1).has_dictionary_page
    assert not none.metadata.row_group(0).column(2).is_stats_set
    assert not none.metadata.row_group(0).column(2).has_column_index


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"compression": "lzo"}, "must be one of uncompressed"),
        ({"compression_level": 3}, "no compression is named"),
        ({"compression": "snappy", "compression_level": 3}, "has no levels"),
        ({"compression": "zstd", "compression_level": 99}, "must be -131072 to 22"),
        ({"row_group_rows": 0}, "row_group_rows is 0"),
        ({"version": "3"}, "the version '3'; it must be one of 1.0, 2.4, 2.6"),
        ({"data_page_version": "3"}, "the data_page_version '3'"),
    ],
)
def test_wrong_options_are_refused_when_they_are_made(options: dict[str, object], says: str):
    with pytest.raises(InvalidOptionError, match=says):
        WriterOptions(**options)


async def test_single_columns_have_a_compression_and_an_encoding_of_their_own():
    schema = pa.schema([("a.b", pa.string()), ("l", pa.list_(pa.int64())), ("n", pa.int64())])
    table = pa.table([["x"] * 100, [[1, 2]] * 100, list(range(100))], schema=schema)
    options = WriterOptions(
        compression="zstd",
        columns=(
            ColumnOptions("a.b", compression="gzip", compression_level=9),
            ColumnOptions("n", compression="none", encoding="delta_binary_packed"),
        ),
    )
    store = RecordingStore()
    written = await write_parquet(store, "f", batches(table), schema=schema, options=options)
    text, items, number = (written.metadata.row_group(0).column(i) for i in range(3))
    assert [c.compression for c in (text, items, number)] == ["GZIP", "ZSTD", "UNCOMPRESSED"]
    assert "DELTA_BINARY_PACKED" in number.encodings
    assert [c.has_dictionary_page for c in (text, items, number)] == [True, True, False]
    assert pq.read_table(pa.BufferReader(await store.get("f"))).equals(table)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoding": "delta"}, "encoding of column c is 'delta'"),
        ({"compression": "lzo"}, "must be one of"),
        ({"compression_level": 3}, "no compression is named"),
    ],
)
def test_wrong_options_of_a_column_are_refused(options: dict[str, object], says: str):
    with pytest.raises(InvalidOptionError, match=says):
        ColumnOptions("c", **options)


def test_options_that_name_no_column_are_refused_before_anything_is_written():
    with pytest.raises(InvalidOptionError, match="dictionary names 'nope'"):
        ParquetObjectWriter(
            RecordingStore(), "f", schema=TABLE.schema, options=WriterOptions(dictionary=("nope",))
        )
    with pytest.raises(InvalidOptionError, match="Bloom filter on x"):
        BloomFilter("x", false_positives=1.0)


async def test_the_writer_feeds_the_collector_every_row_once():
    collector = StatisticsCollector(TABLE.schema, [("id",), ("text",)])
    await write_parquet(
        RecordingStore(),
        "f",
        batches(TABLE, 777),
        schema=TABLE.schema,
        options=WriterOptions(row_group_rows=1234),
        statistics=collector,
    )
    found = collector.result()
    assert found.num_rows == 10_000
    assert found.columns["id"].max.as_py() == 9_999
    assert found.columns["text"].max.as_py() == "row 9999"


async def test_pyarrow_reads_what_was_written():
    store = RecordingStore()
    await write_parquet(store, "f", batches(TABLE), schema=TABLE.schema)
    assert pq.read_table(pa.BufferReader(await store.get("f"))).equals(TABLE)
