"""Overwriting a part of a table: what goes, what stays, and who conflicts with it."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from adelta.changes import changes
from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    InvalidExpressionError,
    InvalidOptionError,
    InvariantViolationError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.file_actions import AddFile
from adelta.kernel.expressions.casts import cast_values
from adelta.kernel.schema.types import DATE, TIMESTAMP, TIMESTAMP_NTZ
from adelta.operations import create_table, delete, update, write_table
from adelta.operations.history import history
from adelta.table import Table, open_table
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["x", "x", "y", None]})


def address() -> str:
    return f"memory://{uuid.uuid4()}/table"


def rows(ids: list[int], p: list[str | None]) -> pa.Table:
    return pa.table({"id": ids, "p": pa.array(p, pa.string())})


async def contents(uri: str) -> list[tuple[Any, ...]]:
    snapshot = await open_table(uri).snapshot()
    table = await snapshot.scan().to_arrow()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


# ----------------------------------------------------------------------------------- replace_where


async def test_rows_under_the_condition_are_replaced_and_the_others_stay(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    done = await write_table(uri, rows([20], ["n"]), mode="overwrite", replace_where="id >= 2")
    assert done.version == 1
    assert await contents(uri) == [(1, "x"), (20, "n")]
    assert sorted(deltalake.DeltaTable(uri).to_pyarrow_table()["id"].to_pylist()) == [1, 20]


async def test_rows_for_which_the_condition_is_null_stay() -> None:
    uri = address()
    await write_table(uri, ROWS)
    await write_table(uri, rows([9], ["x"]), mode="overwrite", replace_where="p = 'x'")
    assert await contents(uri) == [(3, "y"), (4, None), (9, "x")]


async def test_a_file_without_matching_rows_is_left_alone() -> None:
    uri = address()
    await write_table(uri, rows([1, 9], ["a", "b"]))  # its bounds do not tell
    kept = (await (await open_table(uri).snapshot()).files())["path"].to_pylist()
    await write_table(uri, rows([5, 6], ["c", "d"]))
    done = await write_table(uri, rows([5], ["new"]), mode="overwrite", replace_where="id = 5")
    assert done.num_removed_files == 1
    assert set(kept) <= set((await (await open_table(uri).snapshot()).files())["path"].to_pylist())
    assert await contents(uri) == [(1, "a"), (5, "new"), (6, "d"), (9, "b")]


async def test_a_condition_on_partitions_reads_no_data() -> None:
    store = CountingStore(open_table(address()).store)
    table = Table(store.uri, store=store)
    await write_table(table, ROWS, partition_by=["p"])
    store.requests.clear()
    await write_table(table, rows([7], ["x"]), mode="overwrite", replace_where="p = 'x'")
    read = [r.path for r in store.requests if r.kind == "get" and r.path.endswith(".parquet")]
    assert read == []
    found = (await (await table.snapshot()).scan().to_arrow())["id"].to_pylist()
    assert sorted(found) == [3, 4, 7]


async def test_every_new_row_has_to_satisfy_the_condition() -> None:
    uri = address()
    await write_table(uri, ROWS)
    for stranger in (rows([1, 5], ["x", "x"]), pa.table({"id": [None], "p": ["x"]})):
        with pytest.raises(InvariantViolationError, match=r"condition id >= 2 .* id = (1|None)"):
            await write_table(uri, stranger, mode="overwrite", replace_where="id >= 2")
    assert (await open_table(uri).snapshot()).version == 0
    with pytest.raises(InvariantViolationError, match="condition"):
        await write_table(address(), ROWS, mode="overwrite", replace_where="id >= 2")


async def test_a_condition_that_does_not_fit_the_table_is_refused() -> None:
    uri = address()
    await write_table(uri, ROWS)
    with pytest.raises(InvalidExpressionError, match="nope"):
        await write_table(uri, ROWS, mode="overwrite", replace_where="nope = 1")


async def test_rows_that_another_writer_adds_under_the_condition_are_a_conflict() -> None:
    uri = address()
    await write_table(uri, ROWS)
    table = open_table(uri)

    async def late(ids: list[int], between: list[int]) -> Any:
        yield rows(ids, ["n"] * len(ids)).to_batches()[0]
        await write_table(uri, rows(between, ["other"] * len(between)))

    with pytest.raises(ConcurrentAppendError, match="id >= 2"):
        await write_table(table, late([5], [3]), mode="overwrite", replace_where="id >= 2")
    assert (1, "x") in await contents(uri)
    assert (5, "n") not in await contents(uri)
    await write_table(table, late([50], [0]), mode="overwrite", replace_where="id >= 2")
    assert await contents(uri) == [(0, "other"), (1, "x"), (50, "n")]


async def test_an_append_only_table_keeps_its_rows() -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"], properties={"delta.appendOnly": "true"})
    for arguments in (
        {"replace_where": "p = 'x'"},
        {"replace_where": "id = 1"},
        {"partition_overwrite": "dynamic"},
        {},
        {"schema_mode": "overwrite"},
    ):
        data = rows([1], ["x"])
        with pytest.raises(InvariantViolationError, match="append-only"):
            await write_table(uri, data, mode="overwrite", **arguments)  # type: ignore[arg-type]
    assert len(await contents(uri)) == 4


async def test_a_replacement_is_done_once_per_transaction_version() -> None:
    uri = address()
    await write_table(uri, ROWS)
    for _ in range(2):
        done = await write_table(
            uri, rows([20], ["n"]), mode="overwrite", replace_where="id >= 2", txn=("app", 1)
        )
    assert done.skipped
    assert (await open_table(uri).snapshot()).version == 1


# -------------------------------------------------------------------------------------- partitions


async def test_a_dynamic_overwrite_replaces_the_partitions_of_the_new_rows_alone(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS, partition_by=["p"])
    await write_table(
        uri, rows([10, 40], ["x", None]), mode="overwrite", partition_overwrite="dynamic"
    )
    assert await contents(uri) == [(10, "x"), (3, "y"), (40, None)]
    assert sorted(deltalake.DeltaTable(uri).to_pyarrow_table()["id"].to_pylist()) == [3, 10, 40]


async def test_partitions_are_told_apart_by_all_of_their_columns() -> None:
    uri = address()
    data = pa.table({"id": [1, 2, 3, 4], "a": [1, 1, 2, None], "b": ["u", "v", "u", None]})
    await write_table(uri, data, partition_by=["a", "b"])
    new = pa.table({"id": [20, 40], "a": [1, None], "b": ["v", None]})
    await write_table(uri, new, mode="overwrite", partition_overwrite="dynamic")
    assert await contents(uri) == [(1, 1, "u"), (20, 1, "v"), (3, 2, "u"), (40, None, None)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([date(2024, 1, 1), date(1, 1, 1), None]),
        pa.array([datetime(2024, 1, 1, 1, 2, 3, 4, UTC), datetime(1960, 1, 1, tzinfo=UTC), None]),
        pa.array([datetime(2024, 1, 1, 1, 2, 3, 4), datetime(1960, 1, 1), None]),
        pa.array([Decimal("1.10"), Decimal("-0.01"), None]),
        pa.array([float("nan"), -0.0, None]),
        pa.array([True, False, None]),
        pa.array([b"\x00a", b"b", None]),
        pa.array(["it's", "a%=/\\b", None]),
    ],
    ids=lambda values: str(values.type),
)
async def test_partitions_of_every_type_are_found_again(values: Any) -> None:
    uri = address()
    data = pa.table({"id": [0, 1, 2], "p": values})
    await write_table(uri, data, partition_by=["p"])
    for place in range(3):
        new = data.slice(place, 1).set_column(0, "id", pa.array([place + 10]))
        done = await write_table(uri, new, mode="overwrite", partition_overwrite="dynamic")
        assert done.num_removed_files == 1
    assert [row[0] for row in await contents(uri)] == [10, 11, 12]


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
async def test_negative_zero_is_a_partition_of_its_own_that_conditions_take_for_zero(
    type: pa.DataType,
) -> None:
    uri = address()
    zeros = pa.array([0.0, -0.0, 1.0], type)
    await write_table(uri, pa.table({"id": [1, 2, 3], "p": zeros}), partition_by=["p"])
    snapshot = await open_table(uri).snapshot()
    files = (await snapshot.files())["partition_values"].to_pylist()
    assert sorted(dict(each)["p"] for each in files) == ["-0.0", "0.0", "1.0"]
    read = await snapshot.scan().to_arrow()
    signs = {row["id"]: math.copysign(1, row["p"]) for row in read.to_pylist()}
    assert signs == {1: 1.0, 2: -1.0, 3: 1.0}
    conditions = ("p = 0", "p = -0.0D", "p IN (0.0D, 5.0D)", "p <=> -0.0D", "p <= 0", "NOT p > 0")
    for condition in conditions:
        assert await snapshot.scan(where=condition).count() == 2, condition
    new = pa.table({"id": [9], "p": zeros.slice(1, 1)})
    done = await write_table(uri, new, mode="overwrite", partition_overwrite="dynamic")
    assert done.num_removed_files == 1
    assert [row[0] for row in await contents(uri)] == [1, 3, 9]
    assert (await delete(open_table(uri), "p = 0")).num_deleted_rows == 2


async def test_without_new_rows_a_dynamic_overwrite_removes_nothing() -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"])
    await write_table(uri, ROWS.slice(0, 0), mode="overwrite", partition_overwrite="dynamic")
    assert len(await contents(uri)) == 4


async def test_a_table_without_partitions_is_overwritten_as_a_whole() -> None:
    uri = address()
    await write_table(uri, ROWS)
    await write_table(uri, rows([9], ["q"]), mode="overwrite", partition_overwrite="dynamic")
    assert await contents(uri) == [(9, "q")]


async def test_rows_that_another_writer_adds_to_such_a_partition_are_a_conflict() -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"])
    table = open_table(uri)

    async def late(between: str) -> Any:
        yield rows([50], ["x"]).to_batches()[0]
        await write_table(uri, rows([6], [between]))

    with pytest.raises(ConcurrentAppendError):
        await write_table(table, late("x"), mode="overwrite", partition_overwrite="dynamic")
    await write_table(table, late("y"), mode="overwrite", partition_overwrite="dynamic")
    assert await contents(uri) == [(3, "y"), (4, None), (50, "x"), (6, "y")]


# ---------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replace_where": "id = 1"}, "replace_where goes with mode"),
        ({"partition_overwrite": "dynamic"}, "dynamic.* goes with mode"),
        ({"schema_mode": "overwrite"}, "schema_mode=.* goes with mode"),
        ({"mode": "overwrite", "schema_mode": "overwrite", "replace_where": "id = 1"}, "keeps"),
        (
            {"mode": "overwrite", "replace_where": "id = 1", "partition_overwrite": "dynamic"},
            "choose one",
        ),
        ({"schema_mode": "evolve"}, "no schema_mode 'evolve'"),
        ({"partition_overwrite": "some"}, "no partition_overwrite 'some'"),
    ],
)
async def test_arguments_that_contradict_each_other_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        await write_table(address(), ROWS, **arguments)


async def test_the_history_says_how_rows_were_overwritten() -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"])
    await write_table(uri, rows([1], ["x"]), mode="overwrite", replace_where=[("p", "=", "x")])
    await write_table(uri, rows([1], ["x"]), mode="overwrite", partition_overwrite="dynamic")
    dynamic, replaced, _ = await history(open_table(uri))
    assert replaced.operation_parameters == {
        "mode": "Overwrite",
        "predicate": "p = 'x'",
        "partitionBy": '["p"]',
    }
    assert dynamic.operation_parameters["isDynamicPartitionOverwrite"] == "true"


async def replace_by_hand(uri: str) -> None:
    async with open_table(uri).transaction() as tx:
        tx.remove_files(await tx.read("p = 'y'"))
        await tx.append(rows([6], ["y"]))


FEED = {"delta.enableChangeDataFeed": "true"}


async def feed(uri: str, since: int) -> list[tuple[Any, ...]]:
    names = ("_commit_version", "_change_type", "id", "p")
    async with open_table(uri) as table:
        found = [
            tuple(row[name] for name in names)
            async for batch in changes(table, since=since)
            for row in batch.to_pylist()
        ]
    return sorted(found, key=repr)


def parquet_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def peers_feed(uri: str, since: int) -> list[tuple[Any, ...]]:
    names = ("_commit_version", "_change_type", "id", "p")
    found = pa.table(deltalake.DeltaTable(uri).load_cdf(starting_version=since))
    return sorted((tuple(row[name] for name in names) for row in found.to_pylist()), key=repr)


async def test_files_are_not_replaced_by_hand_where_a_change_data_feed_is_kept() -> None:
    uri = address()
    await create_table(uri, ROWS.schema, partition_by=["p"], properties=FEED)
    await write_table(uri, rows([5, 7], ["y", "x"]))
    with pytest.raises(UnsupportedFeatureError, match="change data files"):
        await replace_by_hand(uri)
    assert await contents(uri) == [(5, "y"), (7, "x")]


@pytest.mark.parametrize("partition_by", [[], ["p"]])
async def test_the_change_data_feed_tells_of_rows_replaced_in_files_that_keep_others(
    tmp_path: Path, partition_by: list[str]
) -> None:
    # B4-03, B4-04: a commit with change data files is read from these alone.
    uri = str(tmp_path)
    await create_table(uri, ROWS.schema, partition_by=partition_by, properties=FEED)
    await write_table(uri, rows([1, 2, 3], ["x", "x y%z", "x"]))
    await write_table(uri, rows([4], ["whole"]))
    new = rows([30, 20], ["x", None])
    await write_table(uri, new, mode="overwrite", replace_where="id >= 3 OR id = 2")
    expected = [
        (3, "delete", 2, "x y%z"),
        (3, "delete", 3, "x"),
        (3, "delete", 4, "whole"),
        (3, "insert", 20, None),
        (3, "insert", 30, "x"),
    ]
    assert await feed(uri, 3) == expected
    if not partition_by:  # deltalake does not decode the paths of change data
        assert peers_feed(uri, 3) == expected
    assert await contents(uri) == [(1, "x"), (20, None), (30, "x")]
    assert [name for name in parquet_files(tmp_path) if name.startswith("cdc-")]


async def test_no_change_data_files_are_written_where_whole_files_go(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await create_table(uri, ROWS.schema, properties=FEED)
    await write_table(uri, rows([1], ["x"]))
    await write_table(uri, rows([2], ["y"]))
    await write_table(uri, rows([3], ["x"]), mode="overwrite", replace_where="id IN (1, 3)")
    assert await feed(uri, 3) == [(3, "delete", 1, "x"), (3, "insert", 3, "x")]
    assert not (tmp_path / "_change_data").exists()


async def test_a_failure_leaves_no_change_data_behind(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await create_table(uri, ROWS.schema, properties=FEED)
    await write_table(uri, rows([1, 2], ["x", "x"]))
    before = parquet_files(tmp_path)
    with pytest.raises(InvariantViolationError):
        await write_table(uri, rows([2, 1], ["n"] * 2), mode="overwrite", replace_where="id = 2")
    assert parquet_files(tmp_path) == before


# ------------------------------------------------------------------------------- deletion vectors

VECTORS = {"delta.enableDeletionVectors": "true"}


async def test_rows_are_replaced_by_deletion_vectors_where_a_table_has_these(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path)
    await create_table(uri, ROWS.schema, properties=VECTORS | FEED)
    await write_table(uri, rows([1, 2, 3], ["x", "x", "x"]))
    done = await write_table(uri, rows([20], ["n"]), mode="overwrite", replace_where="id IN (2,20)")
    assert (done.num_files, done.num_removed_files) == (2, 0)  # as Delta Spark counts them
    assert await contents(uri) == [(1, "x"), (20, "n"), (3, "x")]
    files = (await (await open_table(uri).snapshot()).files()).to_pylist()
    (old,) = [file for file in files if file["deletion_vector"] is not None]
    assert old["deletion_vector"]["cardinality"] == 1
    assert await feed(uri, 2) == [(2, "delete", 2, "x"), (2, "insert", 20, "n")]
    assert peers_feed(uri, 2) == await feed(uri, 2)
    assert not (tmp_path / "_change_data").exists()
    # Again: what the vector held before stays gone, and the last row takes the file with it.
    await write_table(uri, rows([30], ["n"]), mode="overwrite", replace_where="id IN (3, 30)")
    assert await feed(uri, 3) == [(3, "delete", 3, "x"), (3, "insert", 30, "n")]
    await write_table(uri, rows([10], ["n"]), mode="overwrite", replace_where="id IN (1, 10)")
    assert await feed(uri, 4) == [(4, "delete", 1, "x"), (4, "insert", 10, "n")]
    files = (await (await open_table(uri).snapshot()).files()).to_pylist()
    assert [file["deletion_vector"] for file in files] == [None] * 3
    peer = pa.table(
        deltalake.QueryBuilder()
        .register("t", deltalake.DeltaTable(uri))
        .execute("SELECT id FROM t ORDER BY id")
        .read_all()
    )
    assert peer["id"].to_pylist() == [10, 20, 30]


async def test_of_two_vectors_for_one_file_the_second_is_a_conflict() -> None:
    uri = address()
    await create_table(uri, ROWS.schema, properties=VECTORS)
    await write_table(uri, rows([1, 2, 3], ["x", "x", "x"]))

    async def late() -> Any:
        yield rows([20], ["n"]).to_batches()[0]
        await write_table(uri, rows([30], ["n"]), mode="overwrite", replace_where="id IN (3, 30)")

    with pytest.raises(CommitConflictError, match="version 2"):
        await write_table(uri, late(), mode="overwrite", replace_where="id IN (2, 20)")
    assert await contents(uri) == [(1, "x"), (2, "x"), (30, "n")]


async def test_the_change_data_feed_of_appends_and_overwrites_is_read_from_their_files() -> None:
    table = await create_table(
        address(),
        ROWS.schema,
        partition_by=["p"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    await write_table(table, rows([1, 2], ["x", "y"]))
    await write_table(table, rows([3], ["x"]), mode="overwrite", replace_where="p = 'x'")
    await write_table(table, rows([4], ["z"]), mode="overwrite")
    found = [
        (row["_commit_version"], row["_change_type"], row["id"])
        async for batch in changes(table, since=0)
        for row in batch.to_pylist()
    ]
    assert sorted(found) == [
        (1, "insert", 1),
        (1, "insert", 2),
        (2, "delete", 1),
        (2, "insert", 3),
        (3, "delete", 2),
        (3, "delete", 3),
        (3, "insert", 4),
    ]


# ------------------------------------------------------------- times that Python has no values for

FAR = {
    "date": (pa.date32(), pa.int32(), [-719_529, 2_932_897, 0]),
    "timestamp": (pa.timestamp("us", "UTC"), pa.int64(), [-(10**17), 4 * 10**17, 7]),
    "timestamp_ntz": (pa.timestamp("us"), pa.int64(), [-(10**17), 4 * 10**17, 7]),
}


def far(name: str, ids: list[int], places: list[int]) -> pa.Table:
    data_type, carrier, numbers = FAR[name]
    times = pa.array([numbers[place] for place in places], carrier).cast(data_type)
    return pa.table({"id": ids, "v": times, "p": times})


async def far_contents(uri: str) -> list[tuple[int, int, int]]:
    table = await (await open_table(uri).snapshot()).scan().to_arrow()
    columns = [table["id"].to_pylist()]
    carrier = pa.int32() if pa.types.is_date(table["v"].type) else pa.int64()
    columns += [table[name].cast(carrier).to_pylist() for name in ("v", "p")]
    return sorted(zip(*columns, strict=True))


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("more", [[], ["id"]])
async def test_partitions_of_any_year_are_overwritten(name: str, more: list[str]) -> None:
    uri, numbers = address(), FAR[name][2]
    first = far(name, [1, 1, 1], [0, 1, 2]).append_column("x", pa.array([0, 0, 0]))
    await write_table(uri, first, partition_by=["p", *more])
    again = far(name, [1, 1], [0, 1]).append_column("x", pa.array([5, 6]))
    await write_table(uri, again, mode="overwrite", partition_overwrite="dynamic")
    table = await (await open_table(uri).snapshot()).scan().to_arrow()
    assert sorted(table["x"].to_pylist()) == [0, 5, 6]
    assert await far_contents(uri) == sorted((1, n, n) for n in numbers)


def number_of(text: str) -> int:
    """A constant's days or microseconds since 1970."""
    kind, shown = text.split(" ", 1)
    value = cast_values(
        pa.array([shown.strip("'")]),
        {"DATE": DATE, "TIMESTAMP": TIMESTAMP}.get(kind, TIMESTAMP_NTZ),
    )
    found: int = value.cast(pa.int32() if kind == "DATE" else pa.int64())[0].as_py()
    return found


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("date", "DATE '-0004-12-31'", "DATE '+10000-01-01'"),
        ("timestamp", "TIMESTAMP '-1199-02-15 14:13:20Z'", "TIMESTAMP '14645-06-30 15:06:40Z'"),
        ("timestamp_ntz", "TIMESTAMP_NTZ '-1199-02-15 14:13:20'", "TIMESTAMP_NTZ '14645-06-30'"),
    ],
)
async def test_conditions_name_times_of_any_year(name: str, first: str, second: str) -> None:
    uri, (data_type, carrier, _) = address(), FAR[name]
    numbers = [number_of(first), number_of(second)]
    times = pa.array(numbers, carrier).cast(data_type)
    await write_table(uri, pa.table({"id": [1, 2], "v": times, "p": times}), partition_by=["p"])
    for column in ("p", "v"):
        for place, text in enumerate((first, second)):
            one = times.slice(place, 1)
            new = pa.table({"id": [9 + place], "v": one, "p": one})
            await write_table(uri, new, mode="overwrite", replace_where=f"{column} = {text}")
    assert await far_contents(uri) == [(9, *[numbers[0]] * 2), (10, *[numbers[1]] * 2)]
    done = await update(open_table(uri), {"id": "0", "v": second}, where=f"v <= {first}")
    assert done.num_updated_rows == 1
    assert (await delete(open_table(uri), f"v = {second} AND p = {first}")).num_deleted_rows == 1
    assert await far_contents(uri) == [(10, *[numbers[1]] * 2)]


# ----------------------------------------------------------------------------------------- metrics


async def counted(uri: str) -> dict[str, int]:
    """The metrics of the latest commit, without bytes and deletion vectors."""
    (entry,) = await history(uri, limit=1)
    left_out = ("Bytes", "numDeletionVectors", "changeFile")
    found = entry.operation_metrics.items()
    return {name: int(value) for name, value in found if not any(x in name for x in left_out)}


@pytest.mark.parametrize(
    ("properties", "change_files"), [({}, 0), (FEED, 2), (VECTORS, 0), (VECTORS | FEED, 0)]
)
async def test_replace_where_reports_the_deleted_and_the_copied_rows_as_delta_spark_does(
    properties: dict[str, str], change_files: int
) -> None:
    uri = address()
    await write_table(uri, rows([1, 2, 3], ["x"] * 3), properties=properties)
    await write_table(uri, rows([4, 5], ["x"] * 2))
    new = rows([20, 21], ["x"] * 2)
    done = await write_table(uri, new, mode="overwrite", replace_where="id >= 3 AND id <= 50")
    vectors = properties.get("delta.enableDeletionVectors") == "true"
    assert await counted(uri) == {
        "numFiles": 2,  # the new one, and the one that is copied or gets a deletion vector
        "numOutputRows": 4,
        "numRemovedFiles": 1 if vectors else 2,
        "numAddedChangeFiles": change_files,
        "numDeletedRows": 3,
        "numCopiedRows": 2,
    }
    assert (done.num_files, done.num_output_rows) == (2, 4)


@pytest.mark.parametrize("properties", [{}, VECTORS])
async def test_replace_where_of_partitions_reports_the_rows_of_removed_files(
    properties: dict[str, str],
) -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"], properties=properties)
    await delete(open_table(uri), "id = 1")
    await write_table(uri, rows([7, 8], ["x"] * 2), mode="overwrite", replace_where="p = 'x'")
    assert await counted(uri) == {
        "numFiles": 1,
        "numOutputRows": 2,
        "numRemovedFiles": 1,
        "numAddedChangeFiles": 0,
        "numDeletedRows": 1,
        "numCopiedRows": 0,
    }


async def test_replace_where_does_not_report_rows_of_files_that_do_not_state_theirs() -> None:
    uri = address()
    await write_table(uri, ROWS, partition_by=["p"])
    async with open_table(uri).transaction() as tx:
        tx.add_files([AddFile("p=x/unstated.parquet", {"p": "x"}, 1, 1)])
    await write_table(uri, rows([7], ["x"]), mode="overwrite", replace_where="p = 'x'")
    metrics = await counted(uri)
    assert metrics["numRemovedFiles"] == 2
    assert metrics.keys().isdisjoint({"numDeletedRows", "numCopiedRows"})
