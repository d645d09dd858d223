from __future__ import annotations

import base64
import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adelta._concurrency import map_concurrent
from adelta.errors import InvalidTableError, InvalidUseError, SchemaMismatchError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decode.tables import read_tables
from adelta.parquet.reader import ParquetFile
from tests.parquet.recording_store import RecordingStore, parquet_bytes, stored

ROWS = 2000
TABLE = pa.table(
    {
        "id": list(range(ROWS)),
        "text": [f"text number {i} {i * 7919 % 1009}" for i in range(ROWS)],
        "a.b": [i * 0.5 for i in range(ROWS)],
        "s": pa.array(
            [
                None if i % 11 == 0 else {"x": i, "y": {"z": str(i)}, "m": [("k", i)]}
                for i in range(ROWS)
            ],
            pa.struct(
                [
                    ("x", pa.int32()),
                    ("y", pa.struct([("z", pa.string())])),
                    ("m", pa.map_(pa.string(), pa.int32())),
                ]
            ),
        ),
        "l": [[{"p": i, "q": "w"}] * (i % 4) for i in range(ROWS)],
    }
)


def chunk_range(metadata: pq.FileMetaData, group: int, leaf: int) -> tuple[int, int]:
    chunk = metadata.row_group(group).column(leaf)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return start, start + chunk.total_compressed_size


async def test_only_the_projected_columns_bytes_leave_the_store():
    store = await stored(TABLE, row_group_size=500)
    file = await ParquetFile.open(store, "f.parquet", tail=64)
    store.asked()
    table = await file.read(["id", "s.y.z"], row_groups=[1, 3])
    assert table.num_rows == 1000
    assert table.schema.field("s").type == pa.struct([("y", pa.struct([("z", pa.string())]))])
    wanted = [chunk_range(file.layout.metadata, group, leaf) for group in (1, 3) for leaf in (0, 4)]
    assert store.asked() == [("ranges", wanted)]


async def test_adjacent_columns_are_asked_for_as_one_range():
    store = await stored(TABLE, row_group_size=500)
    file = await ParquetFile.open(store, "f.parquet", tail=64)
    store.asked()
    await file.read(["text", "id"], row_groups=[0])
    first, second = (chunk_range(file.layout.metadata, 0, leaf) for leaf in (0, 1))
    assert store.asked() == [("ranges", [(first[0], second[1])])]


async def test_a_file_within_the_tail_costs_one_request_in_all():
    store = await stored(TABLE.slice(0, 50))
    file = await ParquetFile.open(store, "f.parquet")
    assert (await file.read()).equals(TABLE.slice(0, 50))
    assert [kind for kind, _ in store.asked()] == ["suffix"]


async def test_what_the_tail_holds_of_a_chunk_is_not_asked_for_again():
    store = await stored(TABLE, compression="none")
    size = (await store.head("f.parquet")).size
    tail = size // 2
    file = await ParquetFile.open(store, "f.parquet", tail=tail)
    store.asked()
    assert (await file.read()).equals(TABLE)
    ((_, ranges),) = store.asked()
    assert ranges == [(4, size - tail)]


async def test_known_metadata_and_size_spare_every_request_but_the_data():
    store = await stored(TABLE)
    first = await ParquetFile.open(store, "f.parquet")
    store.asked()
    again = await ParquetFile.open(
        store, "f.parquet", size=first.layout.size, metadata=first.layout.metadata
    )
    assert store.asked() == []
    assert again.layout.schema == first.layout.schema
    assert (await again.read(["id"])).equals(TABLE.select(["id"]))
    third = await ParquetFile.open(store, "f.parquet", metadata=first.layout.metadata)
    assert third.layout.size == first.layout.size


async def test_columns_come_in_the_order_asked_for_and_fields_of_one_struct_as_one_column():
    file = await ParquetFile.open(await stored(TABLE), "f.parquet")
    table = await file.read(["s.x", "a.b", ("s", "y"), "id"])
    assert table.column_names == ["s", "a.b", "id"]
    assert table.schema.field("s").type.names == ["x", "y"]
    assert table.column("s").null_count == TABLE.column("s").null_count


async def test_a_read_without_columns_asks_for_nothing_and_counts_the_rows():
    store = await stored(TABLE, row_group_size=700)
    file = await ParquetFile.open(store, "f.parquet", tail=64)
    store.asked()
    assert (await file.read([])).num_rows == ROWS
    assert (await file.read([], row_groups=[2])).num_rows == ROWS - 1400
    assert (await file.read(["id"], row_groups=[])).schema == pa.schema([("id", pa.int64())])
    assert store.asked() == []


async def test_an_empty_file_and_an_empty_row_group_have_no_rows_but_a_schema():
    for data in (parquet_bytes(TABLE.slice(0, 0)), _with_empty_row_group()):
        store = RecordingStore()
        await store.put("f", data)
        file = await ParquetFile.open(store, "f", tail=64)
        assert (await file.read()).num_rows == file.layout.num_rows
        assert (await file.read(["id"])).schema.names == ["id"]


def _with_empty_row_group() -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, TABLE.schema) as writer:
        writer.write_table(TABLE.slice(0, 10))
        writer.write_table(TABLE.slice(0, 0))
        writer.write_table(TABLE.slice(10, 10))
    return sink.getvalue().to_pybytes()


async def test_row_groups_come_in_the_order_asked_for():
    file = await ParquetFile.open(await stored(TABLE, row_group_size=500), "f.parquet")
    table = await file.read(["id"], row_groups=[2, 0])
    assert table.column("id").to_pylist() == [*range(1000, 1500), *range(500)]
    assert (await file.read(["id"], row_groups=[3])).column("id")[0].as_py() == 1500


async def test_what_is_not_in_the_file_is_an_error_that_says_what_is():
    file = await ParquetFile.open(await stored(TABLE), "f.parquet")
    with pytest.raises(SchemaMismatchError, match=r"f\.parquet: has no column 'nope'; it has id, "):
        await file.read(["nope"])
    with pytest.raises(InvalidUseError, match="no row group 1"):
        await file.read(row_groups=[1])
    with pytest.raises(SchemaMismatchError, match="name one of its fields"):
        file.layout.statistics(0, "s")
    assert file.layout.has_column("s.y.z")
    assert not file.layout.has_column(("s", "y", "w"))


async def test_budgets_and_statistics_are_those_of_the_footer():
    store = await stored(TABLE, row_group_size=500)
    file = await ParquetFile.open(store, "f.parquet")
    metadata = file.layout.metadata
    start, end = chunk_range(metadata, 1, 1)
    assert file.layout.column_bytes(["text"], 1) == end - start
    assert file.layout.uncompressed_bytes(None, 1) >= metadata.row_group(1).total_byte_size
    found = file.layout.statistics(1, "id")
    assert found is not None
    assert (found.min, found.max, found.null_count) == (500, 999, 0)
    bare = await ParquetFile.open(await stored(TABLE, write_statistics=False), "f.parquet")
    assert bare.layout.statistics(0, "id") is None


async def test_int96_timestamps_outside_the_nanosecond_range_are_microseconds():
    far = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
    near = pa.table({"t": pa.array([dt.datetime(2024, 1, 1)] * 2, pa.timestamp("ns"))})
    store = await stored(near, use_deprecated_int96_timestamps=True, store_schema=False)
    file = await ParquetFile.open(store, "f.parquet")
    assert file.layout.schema.field("t").type == pa.timestamp("us")
    assert (await file.read()).column("t").to_pylist() == near.column("t").to_pylist()
    wide = pa.table({"t": pa.array(far, pa.timestamp("us"))})
    store = await stored(wide)
    file = await ParquetFile.open(store, "f.parquet")
    assert (await file.read()).column("t").to_pylist() == far


async def test_field_ids_are_kept():
    schema = pa.schema([pa.field("x", pa.int32(), metadata={"PARQUET:field_id": "17"})])
    file = await ParquetFile.open(await stored(schema.empty_table()), "f.parquet")
    assert file.layout.schema.field("x").metadata == {b"PARQUET:field_id": b"17"}


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "use_dictionary": False, "store_schema": False},
        {"compression": "brotli", "version": "1.0", "data_page_size": 64},
        {"compression": "lz4", "use_compliant_nested_type": False, "write_page_index": True},
        {"compression": "none", "write_page_checksum": True, "write_batch_size": 7},
    ],
)
async def test_files_of_writers_with_other_habits_are_read(options: dict[str, object]):
    store = await stored(TABLE, row_group_size=333, **options)
    expected = pq.read_table(pa.BufferReader(await store.get("f.parquet")))
    file = await ParquetFile.open(store, "f.parquet", tail=100)
    assert (await file.read()).equals(expected)
    assert (await file.read([("l", "element", "q")])).num_rows == ROWS


async def test_an_unencrypted_footer_over_encrypted_columns_does_not_end_the_process():
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
            return base64.b64encode(key_bytes)

        def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
            return base64.b64decode(wrapped_key)

    factory = encryption.CryptoFactory(lambda _: Keys())
    config = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"k": ["id"]}, plaintext_footer=True
    )
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    store = await stored(TABLE.select(["id", "text"]), encryption_properties=properties)
    file = await ParquetFile.open(store, "f.parquet")
    for use in (file.layout.statistics, file.layout.column_bytes):
        with pytest.raises(InvalidTableError, match=r"f\.parquet"):
            use(*((0, "id") if use == file.layout.statistics else (["id"], 0)))
    with pytest.raises(InvalidTableError, match=r"f\.parquet"):
        await file.read(["id"])


async def test_a_damaged_page_is_a_table_error_that_names_the_path():
    data = bytearray(parquet_bytes(TABLE, compression="zstd"))
    data[4:2000] = bytes(1996)
    store = RecordingStore()
    await store.put("part-7.parquet", bytes(data))
    file = await ParquetFile.open(store, "part-7.parquet", tail=64)
    with pytest.raises(InvalidTableError, match=r"part-7\.parquet: cannot be read as Parquet"):
        await file.read()


async def test_what_was_not_fetched_of_a_small_file_is_not_taken_for_rows():
    store = await stored(TABLE, row_group_size=500)
    file = await ParquetFile.open(store, "f.parquet", tail=64)
    fetched = await file.fetch(["id"], row_groups=[1])
    assert file.decode(fetched).equals(TABLE.select(["id"]).slice(500, 500))
    for names, group in ((["id"], 0), (["text"], 1), (["id", "s.x"], 1)):
        other = replace(fetched, columns=file.layout.select(names), row_groups=(group,))
        with pytest.raises(InvalidTableError):
            file.decode(other)


async def test_an_object_that_was_replaced_by_a_shorter_one_is_a_table_error():
    store = await stored(TABLE)
    file = await ParquetFile.open(store, "f.parquet", tail=64)
    await store.put("f.parquet", b"short")
    with pytest.raises(InvalidTableError, match="changed while it was read"):
        await file.read(["id"])


async def test_one_file_is_read_by_many_at_once():
    file = await ParquetFile.open(await stored(TABLE, row_group_size=100), "f.parquet", tail=64)
    tables = await map_concurrent(lambda n: file.read(row_groups=[n]), range(20), limit=8)
    assert pa.concat_tables(tables).equals(TABLE)


def test_reading_in_batches_gives_the_same_rows():
    data = parquet_bytes(TABLE, row_group_size=700)
    reader = open_arrow_reader("f", memoryview(data))
    leaves = list(range(reader.metadata.num_columns))
    tables = list(read_tables(reader, [0, 1, 2], [leaves], 300))
    assert [table.num_rows for table in tables[:-1]] == [300] * (len(tables) - 1)
    assert pa.concat_tables(tables).equals(TABLE)


@pytest.mark.parametrize(
    ("size", "counts"), [(75_000, [75_000, 75_000, 50_000]), (50_000, [200_000])]
)
def test_large_row_groups_are_tables_by_themselves(size: int, counts: list[int]):
    rows = pa.table({"id": range(200_000)})
    reader = open_arrow_reader("f", memoryview(parquet_bytes(rows, row_group_size=size)))
    tables = list(read_tables(reader, list(range(reader.metadata.num_row_groups)), [[0]], None))
    assert [table.num_rows for table in tables] == counts
    assert pa.concat_tables(tables).equals(rows)


def _struct(types: list[pa.DataType]) -> pa.DataType:
    return pa.struct(list(zip("ab.", types, strict=False)))


def _map(value: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), value)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(inner, min_size=1, max_size=3).map(_struct)
    return st.one_of(inner.map(pa.list_), inner.map(_map), structs)


SIMPLE = [pa.int8(), pa.int64(), pa.string(), pa.bool_(), pa.binary(), pa.date32()]
TYPES = st.recursive(st.sampled_from(SIMPLE), _nested, max_leaves=4)


def values_of(data_type: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_struct(data_type):
        parts = {f.name: values_of(f.type) for f in data_type.fields}
        found: st.SearchStrategy[object] = st.fixed_dictionaries(parts)
    elif pa.types.is_map(data_type):
        pair = st.tuples(st.text(max_size=3), values_of(data_type.item_type))
        found = st.lists(pair, max_size=3)
    elif pa.types.is_list(data_type):
        found = st.lists(values_of(data_type.value_type), max_size=3)
    elif pa.types.is_integer(data_type):
        found = st.integers(-100, 100)
    elif pa.types.is_boolean(data_type):
        found = st.booleans()
    elif pa.types.is_binary(data_type):
        found = st.binary(max_size=5)
    elif pa.types.is_date(data_type):
        found = st.dates()
    else:
        found = st.text(max_size=5)
    return st.none() | found


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    types = draw(st.lists(TYPES, min_size=1, max_size=4))
    rows = draw(st.integers(0, 12))
    names = ["a", "a.b", "b", "a.b.c"]
    return pa.table(
        {
            name: pa.array(draw(st.lists(values_of(t), min_size=rows, max_size=rows)), t)
            for name, t in zip(names, types, strict=False)
        }
    )


@st.composite
def projections(draw: st.DrawFn) -> tuple[pa.Table, list[str]]:
    table = draw(tables())
    names = st.lists(st.sampled_from(table.column_names), unique=True, min_size=1)
    return table, draw(names)


# Everything is drawn before the test runs: hypothesis may stop a draw by an exception of its own,
# which must not pass through the event loop.
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(projections(), st.integers(1, 13), st.sampled_from([8, 300, 65536]))
async def test_any_projection_of_any_table_equals_arrows_own_reading(
    projection: tuple[pa.Table, list[str]], rows_in_group: int, tail: int
):
    table, names = projection
    store = await stored(table, row_group_size=rows_in_group)
    file = await ParquetFile.open(store, "f.parquet", tail=tail)
    expected = pq.read_table(pa.BufferReader(await store.get("f.parquet")))
    assert (await file.read([(name,) for name in names])).equals(expected.select(names))
