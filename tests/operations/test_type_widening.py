"""Columns that become wider (PROTOCOL.md, "Type Widening")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    InvalidUseError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.types import DOUBLE, LONG, ArrayType, StructType
from adelta.operations import (
    AlterMetrics,
    change_column,
    drop_feature,
    set_properties,
    write_table,
)
from adelta.storage.memory import MemoryStore
from tests.operations.altered import (
    files_of,
    new_table,
    rows,
    schema_of,
)
from tests.support.data_tables import described, opened, put_data

if TYPE_CHECKING:
    from pathlib import Path


# ---------------------------------------------------------------------------------------- widening


WIDENING = {"delta.enableTypeWidening": "true"}
NTZ = {"delta.feature.timestampNtz": "supported"}
WIDENINGS = [
    (pa.int8(), [1, None], pa.int16()),
    (pa.int8(), [1], pa.int32()),
    (pa.int8(), [1], pa.int64()),
    (pa.int8(), [-3], pa.float64()),
    (pa.int8(), [-3], pa.decimal128(10, 0)),
    (pa.int16(), [300], pa.int32()),
    (pa.int16(), [300], pa.int64()),
    (pa.int16(), [300], pa.float64()),
    (pa.int16(), [300], pa.decimal128(12, 2)),
    (pa.int32(), [70000], pa.int64()),
    (pa.int32(), [70000], pa.float64()),
    (pa.int32(), [70000], pa.decimal128(13, 3)),
    (pa.int64(), [2**40], pa.decimal128(20, 0)),
    (pa.int64(), [2**40], pa.decimal128(25, 5)),
    (pa.float32(), [1.5], pa.float64()),
    (pa.decimal128(5, 2), ["1.25"], pa.decimal128(8, 4)),
    (pa.decimal128(5, 2), ["1.25"], pa.decimal128(7, 2)),
    (pa.date32(), [18000], pa.timestamp("us")),
]


@pytest.mark.parametrize(("before", "values", "after"), WIDENINGS, ids=str)
async def test_every_type_that_delta_widens_is_widened_and_told(
    before: pa.DataType, values: list[Any], after: pa.DataType
) -> None:
    """B10-01, B10-02: top-level, in a struct, in an array and in a map."""
    if pa.types.is_decimal(before):
        column = pa.array(values).cast(before)
    else:
        column = (
            pa.array(values, pa.int32()).cast(before)
            if before == pa.date32()
            else (pa.array(values, before))
        )
    rows_there = len(column)
    data = pa.table(
        {
            "id": range(rows_there),
            "v": column,
            "s": pa.StructArray.from_arrays([column], ["x"]),
            "l": pa.ListArray.from_arrays(pa.array(range(rows_there + 1), pa.int32()), column),
            "m": pa.MapArray.from_arrays(
                pa.array(range(rows_there + 1), pa.int32()), pa.array(["k"] * rows_there), column
            ),
        }
    )
    table = await new_table(data, mode="none", properties=WIDENING | NTZ)
    for path in ("v", "s.x", "l.element", "m.value"):
        await change_column(table, path, type=after)
        assert await change_column(table, path, type=after) == AlterMetrics(None)
    found = await (await table.snapshot()).scan().to_arrow()
    expected = (
        column.cast(pa.timestamp("s")).cast(after)
        if before == pa.date32()
        else (column.cast(after))
    )
    assert found.column("v").combine_chunks() == expected
    assert found.schema.field("l").type.value_type == after
    assert found.column("s").combine_chunks().field("x") == expected
    assert found.column("l").combine_chunks().values == expected
    assert found.column("m").combine_chunks().items == expected
    schema = {f.name: f for f in await schema_of(table)}
    told = schema["v"].metadata["delta.typeChanges"][0]
    assert told.keys() == {"fromType", "toType"}
    assert schema["l"].metadata["delta.typeChanges"] == [{**told, "fieldPath": "element"}]
    assert schema["m"].metadata["delta.typeChanges"] == [{**told, "fieldPath": "value"}]
    assert "delta.typeChanges" not in schema["s"].metadata
    inside = schema["s"].type
    assert isinstance(inside, StructType)
    assert inside.fields[0].metadata["delta.typeChanges"] == [told]
    value = expected[0].as_py()
    snapshot = await table.snapshot()
    for sign, count in (("=", 1), ("<", 0), (">=", 1), (">", 0)):  # by statistics of old types
        assert await snapshot.scan(where=[("v", sign, value)]).count() == count
    wide = data.set_column(1, "v", expected).select(["id", "v"])
    await write_table(table, wide)
    assert await (await table.snapshot()).scan(where="v IS NOT NULL").count() == 2 * (
        rows_there - column.null_count
    )


async def test_types_that_delta_does_not_widen_are_refused() -> None:
    table = await new_table(mode="none", properties={"delta.enableTypeWidening": "true"})
    for path, wanted in (("id", pa.int32()), ("id", pa.float64()), ("p", pa.int64())):
        with pytest.raises(SchemaMismatchError, match="none of the wider types"):
            await change_column(table, path, type=wanted)
    with pytest.raises(SchemaMismatchError, match="parts change one by one"):
        await change_column(table, "l", type=ArrayType(DOUBLE))
    narrow = await new_table(pa.table({"v": pa.array([1], pa.int32())}), mode="none")
    with pytest.raises(InvalidUseError, match="enableTypeWidening to true first"):
        await change_column(narrow, "v", type=LONG)


async def test_a_partition_column_is_widened_too() -> None:
    data = pa.table({"id": [1, 2], "p": pa.array([1, 2], pa.int32())})
    table = await new_table(
        data, mode="none", partition_by=["p"], properties={"delta.enableTypeWidening": "true"}
    )
    await change_column(table, "p", type=pa.int64())
    await write_table(table, pa.table({"id": [3], "p": [2**40]}))
    assert [row["p"] for row in await rows(table)] == [1, 2, 2**40]
    assert await (await table.snapshot()).scan(where="p = 2").count() == 1


async def test_dates_become_timestamps_where_the_table_supports_timestamps_without_a_zone() -> None:
    dates = pa.array([18000, None], pa.int32()).cast(pa.date32())
    table = await new_table(
        pa.table({"id": [1, 2], "p": dates}),
        mode="none",
        partition_by=["p"],
        properties=WIDENING,
    )
    with pytest.raises(SchemaMismatchError, match=r"delta\.feature\.timestampNtz to 'supported'"):
        await change_column(table, "p", type=pa.timestamp("us"))
    assert (await table.snapshot()).version == 0
    await set_properties(table, NTZ)
    await change_column(table, "p", type=pa.timestamp("us"))
    found = [row["p"] for row in await rows(table)]
    assert found[0].isoformat() == "2019-04-14T00:00:00"
    assert found[1] is None
    assert "timestampNtz" in ((await table.snapshot()).protocol.reader_features or ())


async def test_a_void_column_takes_any_type() -> None:  # B10-07
    table = await new_table(pa.table({"id": [1], "v": pa.nulls(1)}), mode="none")
    await change_column(table, "v", type=pa.string())
    assert not (await schema_of(table)).fields[1].metadata
    await write_table(table, pa.table({"id": [2], "v": ["x"]}))
    assert [row["v"] for row in await rows(table)] == [None, "x"]


@pytest.mark.parametrize("values", [[[None]], [{"a": [None]}], [[{"b": None}]]], ids=str)
async def test_arrays_of_what_has_no_type_are_in_no_rows(values: Any) -> None:  # B10-07
    with pytest.raises(SchemaMismatchError, match="'v' has arrays or maps of what has no type"):
        await new_table(pa.table({"id": [1], "v": pa.array(values)}), mode="none")


async def test_widening_is_dropped_by_writing_files_in_the_types_of_now(tmp_path: Path) -> None:
    uri = str(tmp_path)
    data = pa.table({"id": [1], "v": pa.array([7], pa.int16())})
    async with await new_table(
        data, mode="none", uri=uri, properties={"delta.enableTypeWidening": "true"}
    ) as table:
        await change_column(table, "v", type=pa.int64())
        await write_table(table, pa.table({"id": [2], "v": pa.array([8], pa.int64())}))
        before = set((await (await table.snapshot()).files()).column("path").to_pylist())
        await drop_feature(table, "typeWidening")
        after = set((await (await table.snapshot()).files()).column("path").to_pylist())
        assert len(before & after) == 1  # the file that was written in the wider type
        snapshot = await table.snapshot()
        assert snapshot.protocol.reader_features is None
        assert all(not field.metadata for field in snapshot.delta_schema)
        for _, parquet in await files_of(table):
            assert parquet.field("v").type == pa.int64()
    found = deltalake.DeltaTable(uri).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "v": 7}, {"id": 2, "v": 8}]


# ------------------------------------------------------------------------------------- of previews


OF_PREVIEWS = [
    (t.BYTE, pa.int8(), t.DecimalType(4, 1), [-128, 7, None, 127]),
    (t.BYTE, pa.int32(), t.DecimalType(4, 1), [-128, 7, None, 127]),  # stored without its width
    (t.SHORT, pa.int16(), t.DecimalType(7, 2), [-(1 << 15), 7, None, (1 << 15) - 1]),
    (t.INTEGER, pa.int32(), t.DecimalType(10, 0), [-(1 << 31), 7, None, (1 << 31) - 1]),
    (t.LONG, pa.int64(), t.DecimalType(19, 0), [-(1 << 63), 7, None, (1 << 63) - 1]),
    (t.SHORT, pa.int16(), t.FLOAT, [-(1 << 15), 7, None, (1 << 15) - 1]),
]


@pytest.mark.parametrize(("before", "stored", "after", "values"), OF_PREVIEWS, ids=str)
@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
async def test_changes_that_lose_nothing_are_read_as_previews_recorded_them(
    before: t.DataType, stored: pa.DataType, after: t.DataType, values: list[Any], feature: str
) -> None:
    """The files of before have the narrower type, in their footers and in their statistics."""
    changes = [{"fromType": str(before), "toType": str(after)}]
    field = t.StructField("v", after, metadata={"delta.typeChanges": changes})
    store = MemoryStore()
    made: Any = pa.array
    old = pa.table({"v": made(values, stored)})
    known = [value for value in values if value is not None]
    stats = {"numRecords": 4, "nullCount": {"v": 1}}
    stats |= {"minValues": {"v": min(known)}, "maxValues": {"v": max(known)}}
    said = {"stats": orjson.dumps(stats).decode()}
    head = described(t.StructType((field,)), features=(feature,))
    lines = [await put_data(store, "old.parquet", old, action=said)]
    new = pa.table({"v": made([3], pa.int32()).cast(pa.float64()).cast(to_arrow_type(after))})
    lines.append(await put_data(store, "new.parquet", new))
    async with await opened(store, [*head, *lines]) as table:
        snapshot = await table.snapshot()
        found = (await snapshot.scan().to_arrow()).column("v")
        assert found.type == to_arrow_type(after)
        assert sorted(x for x in found.to_pylist() if x is not None) == sorted([*known, 3])
        for value in known:
            where = f"v >= {value}" if value > 0 else f"v <= {value}"
            rows = (await snapshot.scan(where=where).to_arrow()).column("v").to_pylist()
            assert value in rows


async def test_a_change_that_loses_digits_is_refused() -> None:
    changes = [{"fromType": "short", "toType": "decimal(4,0)"}]
    field = t.StructField("v", t.DecimalType(4, 0), metadata={"delta.typeChanges": changes})
    head = described(t.StructType((field,)), features=("typeWidening",))
    async with await opened(MemoryStore(), head) as table:
        with pytest.raises(UnsupportedFeatureError, match="from short to decimal"):
            (await table.snapshot()).scan()
