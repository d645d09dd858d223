"""Replacing what matches: which rows go and come, and what it makes of features of tables."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import adelta
from adelta._clock import moment
from adelta.errors import (
    AmbiguousColumnError,
    ConcurrentAppendError,
    InvalidOptionError,
    InvariantViolationError,
    SchemaMismatchError,
)
from adelta.kernel.schema.types import STRING, StructField, StructType
from adelta.operations import (
    add_constraint,
    create_table,
    history,
    identity_column,
    replace_matching,
    write_table,
)
from adelta.operations.merge.run import MergeOptions
from adelta.operations.merge.source import GivenSource
from adelta.operations.replace_matching import ReplaceRequest, run_replacing
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from adelta.write.spec import AS_THE_TABLE_SAYS
from tests.support.races import OvertakenStore
from tests.support.stores import CountingStore

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def uri() -> str:
    return f"memory://{uuid.uuid4()}/table"


async def table_of(data: pa.Table, **arguments: Any) -> Table:
    table = await create_table(uri(), data.schema, **arguments)
    await write_table(table, data)
    return table


async def rows(table: Table) -> list[tuple[Any, ...]]:
    return await rows_of(open_table(table.uri))


async def rows_of(table: Table) -> list[tuple[Any, ...]]:
    found = await (await table.snapshot()).scan().to_arrow()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


async def ids(table: Table) -> dict[str, int]:
    found = await (await open_table(table.uri).snapshot()).scan(with_row_ids=True).to_arrow()
    return dict(zip(*(found.column(name).to_pylist() for name in ("name", "_row_id")), strict=True))


def students(**columns: list[Any]) -> pa.Table:
    return pa.table(columns, schema=pa.schema({name: pa.string() for name in columns}))


TABLE = students(name=["Dylan", "Doug", "Julia", "Adam"], country=["US", "UK", "IT", None])
NEW = students(name=["Peter", "Jennie", "Eva"], country=["FR", "UK", None])


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["anew", "vectors"])
async def test_rows_with_an_equal_column_go_and_all_new_ones_come(
    properties: dict[str, str],
) -> None:
    # null equals nothing, as in a join by columns
    table = await table_of(TABLE, properties=properties)
    done = await replace_matching(table, NEW, using=["COUNTRY"])
    assert await rows(table) == sorted(
        [
            ("Dylan", "US"), ("Julia", "IT"), ("Adam", None),
            ("Peter", "FR"), ("Jennie", "UK"), ("Eva", None),
        ],
        key=repr,
    )  # fmt: skip
    assert (done.version, done.num_target_rows_deleted, done.num_target_rows_inserted) == (2, 1, 3)
    last = (await history(table))[0]
    assert (last.operation, last.operation_parameters) == (
        "WRITE", {"mode": "Overwrite", "replaceUsingCols": "(COUNTRY)"},
    )  # fmt: skip
    said = last.operation_metrics
    assert said is not None
    counted = {name: said[name] for name in ("numDeletedRows", "numCopiedRows", "numOutputRows")}
    copied = 0 if properties else 3
    assert counted == {
        "numDeletedRows": "1",
        "numCopiedRows": str(copied),
        "numOutputRows": str(3 + copied),
    }


async def test_rows_for_which_a_condition_is_true_with_any_new_row_go() -> None:
    table = await table_of(TABLE)
    condition = "t.country <=> s.country OR t.name = 'Julia' AND s.name = 'Eva'"
    await replace_matching(table, NEW, on=condition, target_alias="t", source_alias="s")
    assert await rows(table) == sorted(
        [("Dylan", "US"), *map(tuple, zip(*NEW.to_pydict().values(), strict=True))], key=repr
    )
    said = (await history(table))[0].operation_parameters
    assert said is not None
    assert said["replaceOnCond"].startswith("t.country <=> s.country OR")


async def test_new_rows_that_share_a_key_all_come_and_replace_what_was_there_once() -> None:
    table = await table_of(students(name=["a", "a", "b"], n=["1", "2", "3"]))
    new = students(name=["a", "a", "c", "c"], n=["4", "4", "5", "6"])
    done = await replace_matching(table, new, using=["name"])
    assert done.num_target_rows_deleted == 2
    assert await rows(table) == [("a", "4"), ("a", "4"), ("b", "3"), ("c", "5"), ("c", "6")]


async def test_without_new_rows_nothing_goes_and_nothing_is_committed() -> None:
    table = await table_of(TABLE)
    for said in ({"using": ["country"]}, {"on": "true"}):
        done = await replace_matching(table, NEW.slice(0, 0), **said)
        assert done.version is None
    assert await rows(table) == sorted(zip(*TABLE.to_pydict().values(), strict=True), key=repr)


async def test_a_condition_without_keys_is_held_against_every_pair() -> None:
    table = await table_of(pa.table({"n": [1, 5, 9]}))
    await replace_matching(
        table, pa.table({"n": [4, 100]}), on="target.n < source.n AND source.n < 50"
    )
    assert await rows(table) == [(100,), (4,), (5,), (9,)]


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["anew", "vectors"])
async def test_the_change_data_feed_tells_of_rows_that_went_and_came(
    properties: dict[str, str],
) -> None:
    table = await table_of(TABLE, properties=properties)
    await replace_matching(table, NEW, using=["country"])
    found = [batch async for batch in adelta.changes(table, 2, 2)]
    told = sorted(
        (row["_change_type"], row["name"]) for batch in found for row in batch.to_pylist()
    )
    assert told == [
        ("delete", "Doug"),
        ("insert", "Eva"),
        ("insert", "Jennie"),
        ("insert", "Peter"),
    ]


async def test_rows_that_stay_keep_their_ids_and_new_ones_get_new_ids() -> None:
    table = await table_of(TABLE, properties={"delta.enableRowTracking": "true"})
    before = await ids(table)
    await replace_matching(table, NEW, using=["country"])
    after = await ids(table)
    assert {name: after[name] for name in ("Dylan", "Julia", "Adam")} == {
        name: number for name, number in before.items() if name != "Doug"
    }
    new = {after[name] for name in ("Peter", "Jennie", "Eva")}
    assert len(new) == 3
    assert new.isdisjoint(before.values())


async def test_columns_that_new_rows_lack_are_computed_by_the_table() -> None:
    loud = StructField("loud", STRING, metadata={"delta.generationExpression": "upper(city)"})
    computed = StructType((StructField("city", STRING), loud))
    numbered = pa.schema([identity_column("number"), pa.field("city", pa.string())])
    for schema, expected in (
        (computed, [("Bern", "BERN"), ("Oslo", "OSLO"), ("Rome", "ROME")]),
        (numbered, [(2, "Oslo"), (3, "Bern"), (4, "Rome")]),
    ):
        table = await create_table(uri(), schema)
        await write_table(table, students(city=["Bern", "Oslo"]))
        await replace_matching(table, students(city=["Bern", "Rome"]), using=["city"])
        assert await rows(table) == expected


async def test_constraints_hold_and_what_breaks_one_leaves_the_table_as_it_was() -> None:
    table = await table_of(pa.table({"n": [1, 2]}))
    await add_constraint(table, "small", "n < 10")
    with pytest.raises(InvariantViolationError, match="small"):
        await replace_matching(table, pa.table({"n": [1, 12]}), using=["n"])
    assert await rows(table) == [(1,), (2,)]


async def test_a_table_that_only_takes_appends_is_refused() -> None:
    table = await table_of(TABLE, properties={"delta.appendOnly": "true"})
    with pytest.raises(InvariantViolationError, match="append-only"):
        await replace_matching(table, NEW, using=["country"])


async def test_columns_that_the_table_lacks_are_refused_or_taken_in() -> None:
    table = await table_of(TABLE)
    new = students(name=["Eva"], country=["UK"], age=["7"])
    with pytest.raises(SchemaMismatchError, match="age"):
        await replace_matching(table, new, using=["country"])
    await replace_matching(table, new, using=["country"], schema_mode="merge")
    assert ("Eva", "UK", "7") in await rows(table)
    assert ("Dylan", "US", None) in await rows(table)


async def test_values_say_what_columns_of_new_rows_get() -> None:
    table = await table_of(TABLE)
    new = students(who=["eva"], where=["UK"])
    await replace_matching(
        table,
        new,
        on="target.country = source.where",
        values={"name": "upper(who)", "country": "source.where"},
    )
    assert ("EVA", "UK") in await rows(table)
    assert len(await rows(table)) == 4


async def test_wrong_arguments_are_refused_before_anything_is_written() -> None:
    table = await table_of(TABLE)
    with pytest.raises(InvalidOptionError, match="one of"):
        await replace_matching(table, NEW)
    with pytest.raises(InvalidOptionError, match="one of"):
        await replace_matching(table, NEW, using=["name"], on="true")
    with pytest.raises(InvalidOptionError, match="no column"):
        await replace_matching(table, NEW, using=[])
    for side, new in (("table", students(age=["7"])), ("query", students(name=["Eva"]))):
        with pytest.raises(SchemaMismatchError, match=f"the {side} does not have"):
            await replace_matching(table, new, using=["age" if side == "table" else "country"])
    with pytest.raises(AmbiguousColumnError, match="both sides"):
        await replace_matching(table, NEW, on="country = 'UK'")
    assert (await table.snapshot()).version == 1


async def test_a_number_that_the_table_knows_is_not_done_again() -> None:
    table = await table_of(TABLE)
    for _ in range(2):
        await replace_matching(table, NEW, using=["country"], txn=("load", 1))
    assert len(await rows(table)) == 6
    assert (await table.snapshot()).version == 2


async def test_files_that_hold_no_match_are_not_read() -> None:
    inner = MemoryStore()
    store = CountingStore(inner)
    table = Table(inner.uri, store=store)
    for day in ("a", "b", "c"):
        await write_table(table, pa.table({"day": [day] * 3, "n": [1, 2, 3]}))
    store.clear()
    await replace_matching(table, pa.table({"day": ["b"], "n": [9]}), using=["day"])
    read = {path for path in store.paths("get") if path.endswith(".parquet")}
    assert len(read) == 1
    assert await rows_of(table) == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 9),
        ("c", 1),
        ("c", 2),
        ("c", 3),
    ]


@pytest.mark.parametrize(("day", "conflicts"), [("b", True), ("c", False)])
async def test_only_rows_that_could_have_matched_are_a_conflict(day: str, conflicts: bool) -> None:
    inner = MemoryStore()
    table = Table(inner.uri, store=inner)
    for each in ("a", "b"):
        await write_table(table, pa.table({"day": [each], "n": [1]}))

    async def winner() -> None:
        await write_table(Table(inner.uri, store=inner), pa.table({"day": [day], "n": [2]}))

    other = Table(inner.uri, store=OvertakenStore(inner, winner))
    new = pa.table({"day": ["b"], "n": [9]})
    if conflicts:
        with pytest.raises(ConcurrentAppendError):
            await replace_matching(other, new, using=["day"])
    else:
        assert (await replace_matching(other, new, using=["day"])).version == 3


async def test_a_source_of_more_than_the_memory_replaces_the_same() -> None:
    count = 20_000
    names = [f"k{number}" for number in range(count)]
    table = await table_of(students(name=names, n=["old"] * count))
    new = students(name=names[::2] * 2, n=["new"] * count)
    options = MergeOptions(None, None, None, AS_THE_TABLE_SAYS, None, source_memory=64 * 1024)
    asked = ReplaceRequest(("name",), None, "s", "t", None, False, "UTC", moment())
    done = await run_replacing(table, GivenSource(new), asked, options)
    assert (done.num_target_rows_deleted, done.num_target_rows_inserted) == (count // 2, count)
    found = await rows(table)
    assert sum(row[1] == "new" for row in found) == count
    assert sum(row[1] == "old" for row in found) == count // 2
