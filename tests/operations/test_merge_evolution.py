"""MERGE that takes new columns and fields into its target, or makes columns wider."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adelta.errors import SchemaMismatchError
from adelta.operations import merge
from tests.operations.test_merge import SAME, contents, numbers, table_of


async def test_new_columns_come_with_the_clauses_that_set_them() -> None:
    # C6-08
    table = await table_of(numbers(id=[1, 2], old=[1, 2]))
    source = numbers(id=[2, 3], extra=[20, 30], other=[5, 5])
    with pytest.raises(SchemaMismatchError, match="extra"):
        await merge(table, source, SAME).when_matched_update({"extra": "source.extra"}).execute()
    await (
        merge(table, source, SAME, schema_mode="merge")
        .when_matched_update({"extra": "source.extra"})
        .when_not_matched_insert({"id": "source.id"})
        .execute()
    )
    assert await contents(table) == [
        {"id": 1, "old": 1, "extra": None},
        {"id": 2, "old": 2, "extra": 20},
        {"id": 3, "old": None, "extra": None},
    ]
    await (
        merge(table, source, SAME, schema_mode="merge")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert [(row["old"], row["other"]) for row in await contents(table)] == [
        (1, None),
        (2, 5),
        (None, 5),
    ]


@pytest.mark.parametrize("mapping", [{}, {"delta.columnMapping.mode": "name"}])
async def test_structs_take_in_fields_and_keep_those_that_the_source_lacks(
    mapping: dict[str, str],
) -> None:
    # C6-08
    point = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("at", point), ("all", pa.list_(point))])
    rows = [{"id": n, "at": {"x": n, "y": n}, "all": [{"x": n, "y": n}]} for n in (1, 2)]
    table = await table_of(pa.Table.from_pylist(rows, schema), properties=mapping)
    other = pa.struct([("z", pa.int64()), ("x", pa.int64())])
    changes = pa.schema([("all", pa.list_(other)), ("at", other), ("id", pa.int64())])
    new = [{"id": n, "at": {"z": 0, "x": -n}, "all": [{"z": 0, "x": -n}]} for n in (2, 3)]
    source = pa.Table.from_pylist(new, changes)
    with pytest.raises(SchemaMismatchError, match=r"at\.y"):
        await merge(table, source, SAME).when_matched_update_all().execute()
    await (
        merge(table, source, SAME, schema_mode="merge")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert [row["at"] for row in await contents(table)] == [
        {"x": 1, "y": 1, "z": None},
        {"x": -2, "y": 2, "z": 0},
        {"x": -3, "y": None, "z": 0},
    ]
    assert [row["all"][0] for row in await contents(table)] == [
        {"x": 1, "y": 1, "z": None},
        {"x": -2, "y": None, "z": 0},
        {"x": -3, "y": None, "z": 0},
    ]
    await merge(table, source, SAME).when_matched_update({"at.y": "source.id", "at.z": 5}).execute()
    assert [row["at"]["y"] for row in await contents(table)] == [1, 2, 3]


async def test_a_null_struct_of_the_source_keeps_fields_that_it_lacks_at_any_depth() -> None:
    # C6-08: castIfNeeded and hasExtraStructFieldsToPreserveValue in delta-spark
    inner = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("at", pa.struct([("in", inner), ("n", pa.int64())]))])
    full = [{"id": 1, "at": {"in": {"x": 1, "y": 2}, "n": 3}}, {"id": 2, "at": None}]
    table = await table_of(pa.Table.from_pylist(full, schema))
    fewer = pa.struct([("in", pa.struct([("x", pa.int64())])), ("n", pa.int64())])
    nulls = pa.table({"id": [1, 2], "at": pa.nulls(2, fewer)})
    await merge(table, nulls, SAME, schema_mode="merge").when_matched_update_all().execute()
    assert [row["at"] for row in await contents(table)] == [
        {"in": {"x": None, "y": 2}, "n": None},
        None,
    ]


async def test_columns_become_wider_where_the_table_lets_them() -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    rows = pa.table({"id": [1], "n": [1]}, schema)
    source = numbers(id=[1, 2], n=[2**40, 2])
    for properties, widens in (({}, False), ({"delta.enableTypeWidening": "true"}, True)):
        table = await table_of(rows, properties=properties)
        builder = merge(table, source, SAME, schema_mode="merge")
        builder = builder.when_matched_update_all().when_not_matched_insert_all()
        if widens:
            await builder.execute()
            assert [row["n"] for row in await contents(table)] == [2**40, 2]
        else:
            with pytest.raises(SchemaMismatchError, match="'n'"):
                await builder.execute()
