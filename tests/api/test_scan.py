"""Scans as users meet them: which rows and columns come out of which files."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    MissingDataFileError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from adelta.kernel.deletion_vector.blob import encode_bitmap, encode_file
from adelta.kernel.deletion_vector.descriptor import encode_relative
from adelta.kernel.schema import types as t
from adelta.kernel.schema.variant.encoding import encode
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from tests.support.data_tables import described, inline_vector, opened, put_data

IDS = pa.schema([("id", pa.int64())])
NOISE = 200_000  # of these bytes a file is longer than what is read of it for its footer


def ids(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


async def scanned(store: Any, commit: list[Any], **asked: Any) -> dict[str, list[Any]]:
    async with await opened(store, commit) as table:
        scan = (await table.snapshot()).scan(**asked)
        rows = await scan.to_arrow()
        assert rows.schema.equals(scan.schema)
        assert await scan.count() == rows.num_rows
        batches = [batch async for batch in scan.batches()]
        assert pa.Table.from_batches(batches, scan.schema).equals(rows)
    return rows.to_pydict()


# --------------------------------------------------------------------------------- deletion vectors


async def test_vectors_of_every_storage_are_applied_and_several_share_a_file(tmp_path):
    store = LocalStore(tmp_path)
    shared, absolute = uuid.uuid4(), uuid.uuid4()
    bitmaps = [encode_bitmap([0]), encode_bitmap([1, 2])]
    content, offsets = encode_file(bitmaps)
    await store.put(f"pre/deletion_vector_{shared}.bin", content)
    content, _ = encode_file([encode_bitmap([2])])
    await store.put(f"some where/{absolute}.bin", content)
    vectors: list[dict[str, Any]] = [
        {
            "storageType": "u",
            "pathOrInlineDv": encode_relative(shared, "pre"),
            "offset": offset,
            "sizeInBytes": len(data),
            "cardinality": count,
        }
        for offset, data, count in zip(offsets, bitmaps, (1, 2), strict=True)
    ]
    vectors += [
        inline_vector([0, 2]),
        {
            "storageType": "p",
            "pathOrInlineDv": f"{store.uri}/some%20where/{absolute}.bin",
            "sizeInBytes": len(encode_bitmap([2])),
            "cardinality": 1,
        },
    ]
    adds = [
        await put_data(
            store, f"{n}.parquet", ids(n, n + 1, n + 2), action={"deletionVector": vector}
        )
        for n, vector in zip((0, 3, 6, 9), vectors, strict=True)
    ]
    found = await scanned(store, [*described(IDS), *adds])
    assert found == {"id": [1, 2, 3, 7, 9, 10]}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"cardinality": 5}, "names 2 rows where the log says 5"),
        ({"pathOrInlineDv": "00000", "sizeInBytes": 4}, "magic number"),
    ],
)
async def test_a_vector_that_does_not_fit_the_log_is_refused(change, match):
    store = MemoryStore()
    action = {"deletionVector": inline_vector([0, 2]) | change}
    line = await put_data(store, "f.parquet", ids(1, 2, 3), action=action)
    with pytest.raises(InvalidTableError, match=match):
        await scanned(store, [*described(IDS), line])


async def test_a_vector_that_is_gone_is_never_taken_for_an_empty_one():
    store = MemoryStore()
    vector = {
        "storageType": "u",
        "pathOrInlineDv": encode_relative(uuid.uuid4()),
        "sizeInBytes": 40,
        "cardinality": 1,
    }
    line = await put_data(store, "f.parquet", ids(1), action={"deletionVector": vector})
    with pytest.raises(MissingDataFileError, match="deleted rows would come back"):
        await scanned(store, [*described(IDS), line])


async def test_a_vector_is_placed_by_the_files_rows_whatever_row_groups_are_read():
    store = MemoryStore()
    action = {"deletionVector": inline_vector([0, 5, 6, 11])}
    line = await put_data(store, "f.parquet", ids(*range(12)), action=action, row_group_size=4)
    commit = [*described(IDS), line]
    assert (await scanned(store, commit))["id"] == [1, 2, 3, 4, 7, 8, 9, 10]
    assert (await scanned(MemoryStore(), described(IDS)))["id"] == []
    async with await opened(store) as table:
        snapshot = await table.snapshot()
        assert (await snapshot.scan(where="id > 4 and id < 9").to_arrow()).to_pydict() == {
            "id": [7, 8]
        }
        assert await snapshot.scan(columns=[]).count() == 8
        assert (await snapshot.scan(columns=[], where="id = 7").to_arrow()).num_rows == 1


# ------------------------------------------------------------------------------------------ row ids

TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}
TRACKING = {"writer_features": ("rowTracking", "domainMetadata"), "configuration": TRACKED}


async def test_fresh_rows_have_ids_by_their_place_and_moved_ones_those_they_bear():
    """B9-01, B9-03."""
    store = MemoryStore()
    fresh = await put_data(
        store, "a.parquet", ids(10, 11, 12), action={"baseRowId": 100, "defaultRowCommitVersion": 3}
    )
    moved = ids(20, 21).append_column("_row-id-col-1", pa.array([7, None], pa.int64()))
    moved = moved.append_column("_row-commit-version-col-1", pa.array([None, 1], pa.int64()))
    other = await put_data(
        store, "b.parquet", moved, action={"baseRowId": 200, "defaultRowCommitVersion": 5}
    )
    commit = [*described(IDS, **TRACKING), fresh, other]
    assert await scanned(store, commit, with_row_ids=True) == {
        "id": [10, 11, 12, 20, 21],
        "_row_id": [100, 101, 102, 7, 201],
        "_row_commit_version": [3, 3, 3, 5, 1],
    }


async def test_row_ids_survive_vectors_filters_and_row_groups_that_are_skipped():
    store = MemoryStore()
    action = {
        "baseRowId": 1000,
        "defaultRowCommitVersion": 1,
        "deletionVector": inline_vector([0, 7]),
    }
    line = await put_data(store, "f.parquet", ids(*range(12)), action=action, row_group_size=3)
    commit = [*described(IDS, **TRACKING), line]
    found = await scanned(store, commit, where="id >= 6", columns=[], with_row_ids=True)
    assert found["_row_id"] == [1006, 1008, 1009, 1010, 1011]


async def test_row_ids_are_read_from_mapped_files():
    store = MemoryStore()
    field = t.StructField(
        "id",
        t.LONG,
        metadata={"delta.columnMapping.physicalName": "col-x", "delta.columnMapping.id": 1},
    )
    rows = pa.table(
        {"_row-id-col-1": pa.array([5], pa.int64()), "col-x": pa.array([1], pa.int64())}
    )
    line = await put_data(
        store, "f.parquet", rows, action={"baseRowId": 0, "defaultRowCommitVersion": 0}
    )
    mapped = TRACKED | {"delta.columnMapping.mode": "name"}
    commit = described(t.StructType((field,)), **(TRACKING | {"configuration": mapped}))
    found = await scanned(store, [*commit, line], with_row_ids=True)
    assert found == {"id": [1], "_row_id": [5], "_row_commit_version": [0]}


async def test_row_ids_are_refused_where_a_table_does_not_have_them():
    store = MemoryStore()
    async with await opened(store, described(IDS)) as table:
        with pytest.raises(InvalidOptionError, match="does not track rows"):
            (await table.snapshot()).scan(with_row_ids=True)
    clash = pa.schema([("_ROW_ID", pa.int64())])
    async with await opened(MemoryStore(), described(clash, **TRACKING)) as table:
        with pytest.raises(SchemaMismatchError, match="_ROW_ID"):
            (await table.snapshot()).scan(with_row_ids=True)
    line = await put_data(store, "f.parquet", ids(1))
    store = MemoryStore()
    line = await put_data(store, "f.parquet", ids(1))
    with pytest.raises(InvalidTableError, match="baseRowId"):
        await scanned(store, [*described(IDS, **TRACKING), line], with_row_ids=True)


# --------------------------------------------------------------------------------- kinds of columns


async def test_variants_come_as_their_two_parts_or_as_json_text():
    store = MemoryStore()
    metadata, value = encode({"a": [1, None]})
    plain = pa.table({"v": [{"metadata": metadata, "value": value}, None]})
    shredded = pa.table(
        {
            "v": pa.array(
                [{"metadata": b"\x01\x00\x00", "value": None, "typed_value": 5}],
                pa.struct(
                    [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())]
                ),
            )
        }
    )
    adds = [await put_data(store, f"{n}.parquet", f) for n, f in enumerate((plain, shredded))]
    schema = t.StructType((t.StructField("v", t.VARIANT),))
    commit = [*described(schema, features=("variantType", "variantShredding")), *adds]
    assert await scanned(store, commit) == {
        "v": [
            {"value": value, "metadata": metadata},
            None,
            {"value": b"\x18\x05" + bytes(7), "metadata": b"\x01\x00\x00"},
        ]
    }
    async with await opened(store) as table:
        snapshot = await table.snapshot()
        text = await snapshot.scan(variant="json").to_arrow()
        assert text.to_pydict() == {"v": ['{"a":[1,null]}', None, "5"]}
        assert text.schema == pa.schema([("v", pa.string())])
        kept = await snapshot.scan(variant="json", where="v is not null").to_arrow()
        assert kept.to_pydict() == {"v": ['{"a":[1,null]}', "5"]}
        with pytest.raises(InvalidOptionError, match="'text'"):
            snapshot.scan(variant="text")  # type: ignore[arg-type]


async def test_shapes_are_read_as_their_bytes():
    store = MemoryStore()
    line = await put_data(store, "f.parquet", pa.table({"g": [b"\x01\x02", None]}))
    schema = t.StructType((t.StructField("g", t.PrimitiveType("geometry(OGC:CRS84)")),))
    commit = [*described(schema, features=("geospatial",)), line]
    assert await scanned(store, commit) == {"g": [b"\x01\x02", None]}


async def test_a_type_of_tomorrow_is_refused_by_name_when_its_column_is_asked_for():
    store = MemoryStore()
    line = await put_data(store, "f.parquet", ids(1).append_column("x", pa.array([1])))
    schema = t.StructType(
        (t.StructField("id", t.LONG), t.StructField("x", t.PrimitiveType("timestamp_nanos")))
    )
    async with await opened(store, [*described(schema), line]) as table:
        snapshot = await table.snapshot()
        assert (await snapshot.files()).num_rows == 1
        assert (await snapshot.scan(columns=["id"]).to_arrow()).to_pydict() == {"id": [1]}
        with pytest.raises(UnsupportedFeatureError, match="timestamp_nanos"):
            await snapshot.scan().to_arrow()


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("interval year to month", pa.int32(), 14),
        ("interval day to second", pa.int64(), -5),
        ("interval hour", pa.int64(), 3_600_000_000),
    ],
)
async def test_intervals_are_read_as_their_months_or_microseconds(name, kind, value):
    """B10-13."""
    store = MemoryStore()
    line = await put_data(store, "f.parquet", pa.table({"i": pa.array([value, None], kind)}))
    schema = t.StructType((t.StructField("i", t.PrimitiveType(name)),))
    assert await scanned(store, [*described(schema), line]) == {"i": [value, None]}


@pytest.mark.parametrize(
    "name", ["interval month to second", "interval Day", "interval second to day"]
)
async def test_an_interval_that_the_protocol_does_not_spell_is_refused(name):
    async with await opened(
        MemoryStore(), described(t.StructType((t.StructField("i", t.PrimitiveType(name)),)))
    ) as table:
        with pytest.raises(UnsupportedFeatureError, match=name):
            await (await table.snapshot()).scan().to_arrow()


async def test_void_columns_are_null_whether_files_have_them_or_not():
    """B10-07, D39."""
    store = MemoryStore()
    schema = t.StructType(
        (
            t.StructField("id", t.LONG),
            t.StructField("v", t.VOID),
            t.StructField(
                "s", t.StructType((t.StructField("v", t.VOID), t.StructField("x", t.LONG)))
            ),
        )
    )
    rows = ids(1, 2, 3).append_column("s", pa.array([{"x": 1}, None, {"x": None}]))
    adds = [
        await put_data(store, "a.parquet", rows),
        await put_data(store, "b.parquet", ids(4).append_column("v", pa.nulls(1))),
    ]
    assert await scanned(store, [*described(schema), *adds]) == {
        "id": [1, 2, 3, 4],
        "v": [None] * 4,
        "s": [{"v": None, "x": 1}, None, {"v": None, "x": None}, None],
    }


async def test_collated_text_is_read_as_text():
    """B10-15."""
    store = MemoryStore()
    line = await put_data(store, "f.parquet", pa.table({"s": ["b", "A"]}))
    collation = {"__COLLATIONS": {"s": "icu.de_DE.72"}}
    schema = t.StructType((t.StructField("s", t.STRING, metadata=collation),))
    assert await scanned(store, [*described(schema), line]) == {"s": ["b", "A"]}


async def test_a_change_of_type_that_is_no_widening_is_refused_whichever_column_is_read():
    """B10-03: of any column of the table."""
    store = MemoryStore()
    changes = {"delta.typeChanges": [{"fromType": "string", "toType": "long"}]}
    schema = t.StructType(
        (t.StructField("a", t.LONG, metadata=changes), t.StructField("id", t.LONG))
    )
    line = await put_data(store, "f.parquet", ids(1))
    async with await opened(store, [*described(schema), line]) as table:
        snapshot = await table.snapshot()
        for columns in (None, ["a"], ["id"], []):
            with pytest.raises(UnsupportedFeatureError, match="from string to long"):
                snapshot.scan(columns=columns)
        assert snapshot.schema.names == ["a", "id"]  # which is no row of it


async def test_partition_values_written_before_a_widening_are_read_in_todays_type():
    store = MemoryStore()
    schema = pa.schema([("id", pa.int64()), ("p", pa.decimal128(12, 2)), ("q", pa.timestamp("us"))])
    values = {"p": "7", "q": "2024-02-29"}
    line = await put_data(store, "f.parquet", ids(1), action={"partitionValues": values})
    found = await scanned(store, [*described(schema, partition_by=["p", "q"]), line])
    assert [str(found["p"][0]), found["q"]] == ["7.00", [datetime(2024, 2, 29)]]


# ---------------------------------------------------------------------------------------- odd files


@pytest.mark.parametrize("int96", [True, False])
async def test_files_of_old_spark_are_read_in_todays_calendar(int96):
    """D04: as Spark 2.4 wrote 0001-01-01, and 1500-03-01 00:00 UTC."""
    store = MemoryStore()
    days = pa.array([-719_164, 0], pa.int32()).cast(pa.date32())
    micros = pa.array([-719_164 * 86_400_000_000, 1_000_000], pa.int64())
    rows = pa.table({"d": days, "t": micros.cast(pa.timestamp("us", "UTC"))})
    footer = {"org.apache.spark.version": "2.4.8"}
    options = {"use_deprecated_int96_timestamps": True} if int96 else {}
    line = await put_data(store, "f.parquet", rows, store_schema=False, footer=footer, **options)
    schema = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))])
    found = await scanned(store, [*described(schema), line])
    assert found["d"] == [date(1, 1, 1), date(1970, 1, 1)]
    assert found["t"] == [datetime(1, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]
    async with await opened(store) as table:
        scan = (await table.snapshot()).scan(where="d = date'0001-01-01'", columns=["d"])
        assert (await scan.to_arrow()).num_rows == 1


async def test_bounds_in_an_old_calendar_skip_nothing():
    store = MemoryStore()
    meant = date(1000, 6, 1)
    written = (meant - date(1970, 1, 1)).days + 6  # as the Julian calendar had it
    rows = pa.table({"d": pa.array([written], pa.int32()).cast(pa.date32())})
    footer = {"org.apache.spark.version": "2.4.8"}
    line = await put_data(store, "f.parquet", rows, store_schema=False, footer=footer)
    found = await scanned(store, [*described(rows.schema), line], where="d = date'1000-06-01'")
    assert found == {"d": [meant]}


async def test_int96_before_1970_and_beyond_nanoseconds_is_read_and_never_pruned_by():
    store = MemoryStore()
    times = [datetime(1600, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]
    rows = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC"))})
    line = await put_data(
        store, "f.parquet", rows, use_deprecated_int96_timestamps=True, store_schema=False
    )
    commit = [*described(rows.schema), line]
    assert (await scanned(store, commit))["t"] == times
    async with await opened(store) as table:
        scan = (await table.snapshot()).scan(where="t < timestamp'1601-01-01 00:00:00'")
        assert (await scan.to_arrow()).to_pydict() == {"t": times[:1]}


async def test_lists_of_two_levels_are_lists():
    """B10-12: as old writers nested them, without a group for the element."""
    store = MemoryStore()
    rows = pa.table({"l": pa.array([[1, 2], [], None], pa.list_(pa.int32()))})
    line = await put_data(store, "f.parquet", rows, use_compliant_nested_type=False)
    schema = pa.schema([("l", pa.list_(pa.int64()))])
    assert await scanned(store, [*described(schema), line]) == {"l": [[1, 2], [], None]}


async def test_files_lack_columns_add_some_and_have_others_in_any_order():
    store = MemoryStore()
    first = pa.table({"b": ["x"], "extra": [1], "ID": pa.array([1], pa.int32())})
    adds = [await put_data(store, "a.parquet", first), await put_data(store, "b.parquet", ids(2))]
    schema = pa.schema([("id", pa.int64()), ("b", pa.string())])
    found = await scanned(store, [*described(schema), *adds])
    assert found == {"id": [1, 2], "b": ["x", None]}


async def test_a_column_of_change_types_in_a_data_file_stays_hidden():
    """D30."""
    store = MemoryStore()
    rows = ids(1).append_column("_change_type", pa.array(["insert"]))
    line = await put_data(store, "f.parquet", rows)
    assert await scanned(store, [*described(IDS), line]) == {"id": [1]}


async def test_two_thousand_columns_are_read():
    store = MemoryStore()
    rows = pa.table({f"c{n}": pa.array([n], pa.int32()) for n in range(2000)})
    line = await put_data(store, "f.parquet", rows)
    found = await scanned(store, [*described(rows.schema), line], where="c1999 = 1999")
    assert list(found.values()) == [[n] for n in range(2000)]


async def test_deep_nesting_is_read():
    store = MemoryStore()
    kind: pa.DataType = pa.int64()
    value: object = 1
    for _ in range(20):
        kind, value = pa.struct([("x", pa.list_(kind))]), {"x": [value]}
    rows = pa.table({"deep": pa.array([value, None], kind)})
    line = await put_data(store, "f.parquet", rows)
    assert await scanned(store, [*described(rows.schema), line]) == {"deep": [value, None]}


async def test_a_file_that_cannot_be_the_columns_type_is_named():
    store = MemoryStore()
    line = await put_data(store, "odd.parquet", pa.table({"id": ["text"]}))
    with pytest.raises(SchemaMismatchError, match=r"odd\.parquet: column id is string"):
        await scanned(store, [*described(IDS), line])


# ---------------------------------------------------------------------------------------- leaving


@pytest.mark.parametrize("asked", [{}, {"limit": 1}])
async def test_leaving_a_scan_early_ends_all_that_was_under_way(asked):
    store = MemoryStore()
    adds = [await put_data(store, f"{n}.parquet", ids(n)) for n in range(50)]
    async with await opened(store, [*described(IDS), *adds]) as table:
        before = asyncio.all_tasks()
        batches = (await table.snapshot()).scan(**asked).batches()
        assert (await anext(batches)).num_rows == 1
        await batches.aclose()
        assert asyncio.all_tasks() == before


async def test_a_scan_of_more_files_than_are_opened_at_once_has_them_in_order():
    store = MemoryStore()
    line = await put_data(store, "f.parquet", ids(1))
    adds = [{"add": line["add"] | {"path": f"{n}.parquet"}} for n in range(1100)]
    data = await store.get("f.parquet")
    for n in range(1100):
        await store.put(f"{n}.parquet", data)
    assert len((await scanned(store, [*described(IDS), *adds]))["id"]) == 1100
