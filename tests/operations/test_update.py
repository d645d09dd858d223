"""UPDATE: which rows change, what of them is kept, and what readers of changes are told."""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import adelta
from adelta.changes import changes
from adelta.errors import (
    ConcurrentAppendError,
    InvalidExpressionError,
    InvalidOptionError,
    InvariantViolationError,
    SchemaMismatchError,
)
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema.types import LONG, STRING, StructField, StructType
from adelta.kernel.table_configuration import TableConfiguration
from adelta.log.commit_reader import read_commit
from adelta.operations import (
    add_constraint,
    create_table,
    delete,
    history,
    merge,
    update,
    write_table,
)
from adelta.operations.matching import MatchedFile, find_matches
from adelta.operations.rewrite import RewriteResult, RewriteTask, plan_rewrites
from adelta.operations.update import Assignments, _stage
from adelta.table import Table, latest_state, open_table
from adelta.write.task_executor import IN_PROCESS
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("n", pa.int32())])


def rows(*ids: int, p: str | None = "x") -> pa.Table:
    columns = {"id": list(ids), "p": [p] * len(ids), "n": [n * 10 for n in ids]}
    return pa.table(columns, SCHEMA)


async def new_table(uri: str | None = None, **arguments: Any) -> Table:
    return await create_table(uri or f"memory://{uuid.uuid4()}/table", SCHEMA, **arguments)


async def contents(table: Table) -> list[tuple[Any, ...]]:
    found = await (await open_table(table.uri).snapshot()).scan().to_arrow()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


async def feed(table: Table, since: int) -> list[tuple[Any, ...]]:
    found = [
        (row["_change_type"], row["id"], row["p"], row["n"])
        async for batch in changes(table, since=since)
        for row in batch.to_pylist()
    ]
    return sorted(found, key=repr)


@pytest.mark.parametrize("properties", [{}, VECTORS, MAPPED, TRACKED, VECTORS | TRACKED | MAPPED])
@pytest.mark.parametrize("partition_by", [[], ["p"]])
async def test_rows_under_the_condition_get_new_values_and_no_others(
    properties: dict[str, str], partition_by: list[str]
) -> None:
    # C6-02, B4-03
    table = await new_table(partition_by=partition_by, properties=properties | FEED)
    await write_table(table, rows(1, 2, 3))
    await write_table(table, rows(4, p="y"))
    done = await update(table, {"n": "n + id", "p": "concat(p, '!')"}, "id IN (2, 4)")
    assert (done.version, done.num_updated_rows) == (3, 2)
    assert await contents(table) == [(1, "x", 10), (2, "x!", 22), (3, "x", 30), (4, "y!", 44)]
    assert await feed(table, 3) == [
        ("update_postimage", 2, "x!", 22),
        ("update_postimage", 4, "y!", 44),
        ("update_preimage", 2, "x", 20),
        ("update_preimage", 4, "y", 40),
    ]
    await update(table, {"n": 0}, "p LIKE '%!'")
    assert [row[2] for row in await contents(table)] == [10, 0, 30, 0]


async def test_the_history_and_peers_see_what_was_done(tmp_path: Path) -> None:
    table = await new_table(str(tmp_path), properties=FEED)
    await write_table(table, rows(1, 2, 3))
    done = await update(table, {"n": 7}, "id = 2")
    assert (done.num_copied_rows, done.num_added_files, done.num_removed_files) == (2, 1, 1)
    (entry, *_) = await history(table)
    assert (entry.operation, entry.operation_parameters["predicate"]) == ("UPDATE", '["id = 2"]')
    assert entry.operation_metrics["numUpdatedRows"] == "1"
    assert entry.operation_metrics["numAddedChangeFiles"] == "1"
    peer = deltalake.DeltaTable(str(tmp_path))
    assert sorted(peer.to_pyarrow_table()["n"].to_pylist()) == [7, 10, 30]
    told = pa.table(peer.load_cdf(starting_version=2)).to_pylist()
    assert sorted((row["_change_type"], row["n"]) for row in told) == [
        ("update_postimage", 7),
        ("update_preimage", 20),
    ]


async def test_all_rows_change_without_a_condition() -> None:
    for properties in ({}, VECTORS):
        table = await new_table(properties=properties)
        await write_table(table, rows(1, 2))
        done = await update(table, {"p": "'z'", "n": None})
        assert (done.num_updated_rows, done.num_copied_rows, done.num_removed_files) == (2, 0, 1)
        assert done.num_added_files == 1
        assert await contents(table) == [(1, "z", None), (2, "z", None)]
        said = (await history(table))[0].operation_parameters
        assert said["predicate"] == "[]"  # as Delta Spark has it, which says more of a DELETE


async def test_expressions_see_the_row_as_it_was_and_values_are_stored_as_a_write_stores_them() -> (
    None
):
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("d", pa.date32())])
    table = await create_table(f"memory://{uuid.uuid4()}/t", schema)
    await write_table(table, pa.table({"a": [1], "b": [2], "d": [None]}, schema))
    await update(table, {"a": "b", "b": "a", "d": date(2024, 5, 6)})
    assert await contents(table) == [(2, 1, date(2024, 5, 6))]
    with pytest.raises(SchemaMismatchError, match="'a'"):
        await update(table, {"a": "b + 3000000000"})
    assert await contents(table) == [(2, 1, date(2024, 5, 6))]


async def test_an_expression_is_not_computed_for_rows_that_do_not_match() -> None:
    table = await new_table()
    await write_table(table, rows(0, 1, 2))
    await update(table, {"n": "CAST(100 / id AS INT)"}, "id > 0")
    assert [row[2] for row in await contents(table)] == [0, 100, 50]


async def test_updated_rows_keep_their_ids_and_get_a_new_version() -> None:
    # B9-04
    for properties in (TRACKED, TRACKED | VECTORS):
        table = await new_table(properties=properties)
        await write_table(table, rows(1, 2, 3))
        for _ in range(2):
            await update(table, {"n": "n + 1"}, "id = 2")
        found = (await (await table.snapshot()).scan(with_row_ids=True).to_arrow()).to_pylist()
        told = {r["id"]: (r["_row_id"], r["_row_commit_version"], r["n"]) for r in found}
        assert told == {1: (0, 1, 10), 2: (1, 3, 22), 3: (2, 1, 30)}


async def test_constraints_hold_for_updated_rows() -> None:
    table = await new_table()
    await write_table(table, rows(1, 2))
    await add_constraint(table, "small", "n < 100")
    with pytest.raises(InvariantViolationError, match="small"):
        await update(table, {"n": 100}, "id = 2")
    assert await contents(table) == [(1, "x", 10), (2, "x", 20)]
    await update(table, {"n": 99}, "id = 2")


async def test_generated_columns_follow_what_they_are_generated_from() -> None:
    fields = (
        StructField("a", LONG),
        StructField("b", LONG, metadata={"delta.generationExpression": "a * 2"}),
    )
    table = await create_table(f"memory://{uuid.uuid4()}/t", StructType(fields))
    await write_table(table, pa.table({"a": [1, 2]}))
    await update(table, {"a": "a + 10"}, "a = 2")
    assert await contents(table) == [(1, 2), (12, 24)]
    with pytest.raises(InvariantViolationError, match="generation"):
        await update(table, {"b": 5})


async def test_a_row_moves_to_the_partition_of_its_new_value() -> None:
    table = await new_table(partition_by=["p"])
    await write_table(table, rows(1, 2))
    await update(table, {"p": "'other'"}, "id = 2")
    files = (await (await table.snapshot()).files()).to_pylist()
    assert sorted(dict(file["partition_values"])["p"] for file in files) == ["other", "x"]


async def test_numbers_that_a_table_gave_to_rows_stay() -> None:
    schema = pa.schema([adelta.identity_column("id"), ("n", pa.int64())])
    table = await create_table(f"memory://{uuid.uuid4()}/t", schema)
    await write_table(table, pa.table({"n": [5, 6]}))
    await update(table, {"n": 0}, "id = 2")
    assert await contents(table) == [(1, 5), (2, 0)]
    with pytest.raises(SchemaMismatchError, match="identity"):
        await update(table, {"id": 9})


async def test_what_cannot_be_set_is_refused() -> None:
    table = await new_table()
    await write_table(table, rows(1))
    with pytest.raises(SchemaMismatchError, match="nope"):
        await update(table, {"nope": 1})
    with pytest.raises(InvalidOptionError, match="twice"):
        await update(table, {"n": 1, "N": 2})
    with pytest.raises(InvalidOptionError, match="nothing"):
        await update(table, {})
    with pytest.raises(InvalidExpressionError):
        await update(table, {"n": "1 +"})
    with pytest.raises(InvariantViolationError, match="append-only"):
        await update(await new_table(properties={"delta.appendOnly": "true"}), {"n": 1})
    assert (await update(table, {"n": 1}, "id = 77")).version is None
    assert (await table.snapshot()).version == 1


async def test_rows_that_others_add_under_the_condition_are_a_conflict() -> None:
    table = await new_table()
    await write_table(table, rows(1, 2))

    async def late() -> None:
        tx = table.transaction("UPDATE")
        async with tx:
            await _stage(table, tx._core, {"n": parse_expression("0")}, to_predicate("id >= 2"))
            await write_table(open_table(table.uri), rows(5))

    with pytest.raises(ConcurrentAppendError):
        await late()
    assert await contents(table) == [(1, "x", 10), (2, "x", 20), (5, "x", 50)]


async def test_a_failure_leaves_no_files_behind() -> None:
    table = await new_table(properties=FEED | VECTORS)
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3, 0))
    before = [meta.path async for page in table.store.list() for meta in page]
    with pytest.raises(InvalidExpressionError):
        await update(table, {"n": "CAST(100 / id AS INT)"})
    assert [meta.path async for page in table.store.list() for meta in page] == before


async def test_tasks_can_be_sent_elsewhere_and_are_independent() -> None:
    table = await new_table(properties=FEED | TRACKED)
    for number in (1, 2, 3):
        await write_table(table, rows(number, number + 10))
    snapshot = await table.snapshot()
    configuration = TableConfiguration(snapshot.protocol, snapshot.metadata)
    where = to_predicate("id < 10")
    assert where is not None
    files = list((await (await latest_state(table)).files()).rows())
    matched = await find_matches(IN_PROCESS, table._roots, configuration, files, where)
    assignments = Assignments.of(configuration, {"n": parse_expression("n + 1")}, "UTC")
    task = RewriteTask(configuration, tuple(matched), update=assignments, tells=True)
    tasks = plan_rewrites(task, 1, at_once=2)
    assert [len(each.files) for each in tasks] == [1, 1, 1]
    assert len(plan_rewrites(task, 1 << 30, at_once=2)) == 1
    sent = [pickle.loads(pickle.dumps(each)) for each in tasks]
    done = sum(await IN_PROCESS.run(table._roots, sent), RewriteResult())
    assert (len(done.adds), len(done.cdc), done.num_copied_rows) == (3, 3, 3)


async def test_files_that_would_fit_one_task_are_shared_among_those_that_run_at_once() -> None:
    table = await new_table()
    await write_table(table, rows(1, 11))
    snapshot = await table.snapshot()
    configuration = TableConfiguration(snapshot.protocol, snapshot.metadata)
    (file,) = (await (await latest_state(table)).files()).rows()
    mib = 1024 * 1024

    def shares(*sizes: int, copies: bool = True) -> list[int]:
        files = (replace(file, path=f"{n}", size=size * mib) for n, size in enumerate(sizes))
        matched = tuple(MatchedFile(each, BitMap64([0]), 2, 2) for each in files)
        tasks = plan_rewrites(
            RewriteTask(configuration, matched, tells=True, copies=copies), 128 * mib, at_once=2
        )
        return [len(each.files) for each in tasks]

    assert shares(3, 3) == [2]
    assert shares(*[3] * 8) == [4, 4]
    assert shares(*[3] * 8, copies=False) == [8]
    assert shares(4, 4, 4, 4, 3, 3, 3, 3) == [4, 4]
    assert shares(100) == [1]
    assert shares(*[60] * 5) == [2, 2, 1]


async def test_a_file_is_read_once_to_find_its_rows_and_once_to_write_them_anew() -> None:
    store = CountingStore(open_table(f"memory://{uuid.uuid4()}/table").store)
    table = Table(store.uri, store=store)
    await new_table(store.uri, properties=FEED)
    await write_table(table, rows(1, 2, 3))
    store.requests.clear()
    await update(table, {"n": 0}, "id = 2")
    made = Counter((r.kind, r.path.partition("-")[0]) for r in store.requests)
    assert made[("get", "part")] == 2
    assert sum(made.values()) <= 9


@pytest.mark.parametrize("dry_run", [False, True])
async def test_updates_count_files_with_a_new_deletion_vector_as_removed_ones(
    dry_run: bool,
) -> None:
    table = await new_table(properties=VECTORS)
    await write_table(table, rows(1, 2, 3))
    await write_table(table, rows(4, 5))
    await write_table(table, rows(6))
    done = await update(table, {"p": "'z'"}, "id IN (1, 4, 5)", dry_run=dry_run)
    assert (done.num_removed_files, done.num_updated_rows) == (2, 3)
    assert done.num_deletion_vectors_added == 1


async def test_rows_are_told_apart_across_row_groups_and_vectors() -> None:
    table = await new_table(properties=FEED | VECTORS)
    many = pa.table({"id": range(5000), "p": ["x"] * 5000, "n": [0] * 5000}, SCHEMA)
    options = adelta.WriterOptions(row_group_rows=700)
    await write_table(table, many, writer_options=options)
    await adelta.delete(table, "id % 3 = 0")
    await adelta.set_properties(table, {"delta.enableDeletionVectors": "false"})
    done = await update(table, {"n": "id"}, "id % 7 = 1 OR id BETWEEN 2000 AND 3000")
    expected = [(i, "x", i if i % 7 == 1 or 2000 <= i <= 3000 else 0) for i in range(5000) if i % 3]
    assert sorted(await contents(table)) == expected
    assert done.num_updated_rows + done.num_copied_rows == len(expected)
    assert len(await feed(table, done.version or 0)) == 2 * done.num_updated_rows


async def test_a_struct_is_set_as_a_whole_and_by_its_fields() -> None:
    inner = StructType((StructField("a", LONG), StructField("b", STRING)))
    outer = StructType((StructField("in", inner), StructField("c.d", LONG)))
    table = await create_table(
        f"memory://{uuid.uuid4()}/t", StructType((StructField("s", outer), StructField("i", LONG)))
    )
    row = {"in": {"a": 1, "b": "x"}, "c.d": 5}
    await write_table(table, pa.table({"s": [row, None], "i": [1, 2]}))
    await update(table, {"S.in.A": "s.`c.d` + i", "s.`c.d`": 7}, "i = 1")
    found = {i: s for s, i in await contents(table)}
    assert found == {1: {"in": {"a": 6, "b": "x"}, "c.d": 7}, 2: None}
    await update(table, {"s.in.b": "'y'"}, "i = 2")
    found = {i: s for s, i in await contents(table)}
    assert found[2] == {"in": {"a": None, "b": "y"}, "c.d": None}
    for twice in (
        {"s": None, "s.in.a": 1},
        {"s.in.a": 1, "s.in": None},
        {"s.in.a": 1, "S.in.a": 2},
    ):
        with pytest.raises(InvalidOptionError, match=r"twice|part of"):
            await update(table, twice)
    for wrong in ("s.x", "i.x", "s.in.a.x"):
        with pytest.raises(SchemaMismatchError, match="no column"):
            await update(table, {wrong: 1})
    await update(table, {"s": None})
    assert sorted(await contents(table), key=str) == [(None, 1), (None, 2)]


@pytest.mark.parametrize("verb", ["update", "delete", "merge", "overwrite"])
async def test_rows_are_changed_as_the_table_asks_by_now_whatever_the_handle_knows_of_it(
    verb: str, tmp_path: Path
) -> None:
    table = await new_table(str(tmp_path))
    await write_table(table, rows(1, 2, 3))
    other = deltalake.DeltaTable(tmp_path)
    other.alter.set_table_properties(FEED)
    other.alter.add_constraint({"small": "n < 31"})
    match verb:
        case "update":
            with pytest.raises(InvariantViolationError, match="small"):
                await update(table, {"n": "n + 1"}, "id = 3")
            done: Any = await update(table, {"n": "n + 1"}, "id = 1")
        case "delete":
            done = await delete(table, "id = 1")
        case "merge":
            on = "target.id = source.id"
            merged = merge(table, rows(1), on=on).when_matched_update({"n": "target.n + 1"})
            done = await merged.execute()
        case _:
            done = await write_table(table, rows(1), mode="overwrite", replace_where="id = 1")
    found = await read_commit(table.store, done.version)
    assert found.cdc.num_rows > 0
