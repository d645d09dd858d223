"""MERGE: what its clauses may say, what it makes of features of tables, and what it reads."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import polars
import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    InvalidExpressionError,
    InvalidOptionError,
    InvariantViolationError,
    SchemaMismatchError,
)
from adelta.kernel.schema.types import LONG, STRING, StructField, StructType
from adelta.operations import (
    add_constraint,
    create_table,
    history,
    identity_column,
    merge,
    update,
    write_table,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support.races import OvertakenStore
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
SAME = "target.id = source.id"


def uri() -> str:
    return f"memory://{uuid.uuid4()}/table"


async def table_of(data: pa.Table, **arguments: Any) -> Table:
    table = await create_table(uri(), data.schema, **arguments)
    await write_table(table, data)
    return table


async def contents(table: Table) -> list[dict[str, Any]]:
    found = await (await open_table(table.uri).snapshot()).scan().to_arrow()
    return sorted(found.to_pylist(), key=repr)


def numbers(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


# --------------------------------------------------------------------------------------- clauses


async def test_the_history_says_what_was_asked_for_in_delta_sparks_words() -> None:
    # C2-07
    table = await table_of(numbers(id=[1, 2, 3], n=[1, 2, 3]))
    done = await (
        merge(table, numbers(id=[2, 3, 4], n=[20, 30, 40]), "t.id = s.id", source_alias="s",
              target_alias="t", user_metadata="nightly")
        .when_matched_delete("s.n = 30")
        .when_matched_update({"n": "s.n"})
        .when_not_matched_insert({"id": "id", "n": "n"}, "s.n > 1")
        .when_not_matched_by_source_update({"n": 0}, "t.n = 7")
        .execute()
    )  # fmt: skip
    (entry, *_) = await history(table)
    assert entry.operation == "MERGE"
    assert entry.user_metadata == "nightly"
    said = {key: json.loads(value) for key, value in entry.operation_parameters.items()}
    assert said == {
        "predicate": ["t.id = s.id"],
        "matchedPredicates": [
            {"predicate": "s.n = 30", "actionType": "delete"},
            {"actionType": "update"},
        ],
        "notMatchedPredicates": [{"predicate": "s.n > 1", "actionType": "insert"}],
        "notMatchedBySourcePredicates": [{"predicate": "t.n = 7", "actionType": "update"}],
    }
    metrics = {name: int(value) for name, value in entry.operation_metrics.items()}
    assert metrics["numTargetRowsCopied"] == done.num_target_rows_copied == 1
    assert metrics["numOutputRows"] == done.num_output_rows == 3
    assert (metrics["numTargetFilesAdded"], metrics["numTargetFilesRemoved"]) == (2, 1)
    assert metrics["numTargetBytesAdded"] > 0 < metrics["numTargetBytesRemoved"]


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda m: m, InvalidOptionError, "no clause"),
        (
            lambda m: m.when_matched_delete().when_matched_update_all(),
            InvalidOptionError,
            "comes after WHEN MATCHED THEN DELETE",
        ),
        (
            lambda m: m.when_matched_update({"nope": 1}),
            SchemaMismatchError,
            "which the table does not have",
        ),
        (lambda m: m.when_matched_update({"n": 1, "N": 2}), InvalidOptionError, "twice"),
        (lambda m: m.when_matched_update({"n": "id"}), InvalidExpressionError, "both sides"),
        (
            lambda m: m.when_matched_update({"n": "source.x"}),
            SchemaMismatchError,
            "'n'",
        ),
        (
            lambda m: m.when_not_matched_insert({"n": "target.n"}),
            InvalidExpressionError,
            "only columns of the source",
        ),
        (
            lambda m: m.when_not_matched_by_source_delete("source.id = 1"),
            InvalidExpressionError,
            "only columns of the target",
        ),
        (lambda m: m.when_matched_update_all(), SchemaMismatchError, "needs 'm'"),
        (lambda m: m.when_matched_update({"n": "source.nope"}), InvalidExpressionError, "nope"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_read(
    build: Any, error: type[Exception], says: str
) -> None:
    # C6-03, C6-05, C6-06, C6-07
    table = await table_of(numbers(id=[1], n=[1], m=[1]))

    async def source() -> AsyncIterator[pa.RecordBatch]:
        yield numbers(id=[1], x=[["a"]], n=[1]).to_batches()[0]
        raise AssertionError("the source was read on")

    with pytest.raises(error, match=says):
        await build(merge(table, source(), SAME)).execute()


async def test_each_method_makes_a_merge_of_its_own() -> None:
    table = await table_of(numbers(id=[1, 2]))
    bare = merge(table, numbers(id=[1, 3]), SAME)
    bare.when_matched_delete()
    done = await bare.when_not_matched_insert_all().execute()
    assert (done.num_target_rows_inserted, done.num_target_rows_deleted) == (1, 0)


async def test_a_row_may_be_deleted_by_several_but_only_without_a_condition() -> None:
    # C6-04
    table = await table_of(numbers(id=[1, 2]), properties=FEED)
    twice = numbers(id=[1, 1])
    with pytest.raises(InvariantViolationError, match=r"several rows .* id = 1"):
        await merge(table, twice, SAME).when_matched_delete("source.id = 1").execute()
    done = await merge(table, twice, SAME).when_matched_delete().execute()
    assert done.num_target_rows_deleted == 1
    assert await contents(table) == [{"id": 2}]
    # two that match do no harm where one of them alone would change the row
    both = numbers(id=[2, 2], new=[None, 7])
    done = await merge(table, both, SAME).when_matched_update({"id": "new"}, "new > 0").execute()
    assert await contents(table) == [{"id": 7}]


async def test_where_nothing_changes_nothing_is_committed() -> None:
    # C6-10
    table = await table_of(numbers(id=[1]))
    done = await merge(table, numbers(id=[2]), SAME).when_matched_delete().execute()
    assert (done.version, done.num_source_rows) == (None, 1)
    assert (await open_table(table.uri).snapshot()).version == 1


# --------------------------------------------------------------------------------------- sources


async def test_rows_come_from_whatever_holds_rows(tmp_path: Path) -> None:
    rows = numbers(id=[1, 2])
    other = await table_of(rows)

    async def stream() -> AsyncIterator[pa.RecordBatch]:
        for batch in rows.to_batches():
            yield batch

    def generator() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()

    snapshot = await other.snapshot()
    for source in (
        rows,
        rows.to_reader(),
        polars.DataFrame({"id": [1, 2]}),
        stream(),
        generator(),
        snapshot,
        snapshot.scan(where="id < 9"),
    ):
        target = await table_of(numbers(id=[1]))
        await merge(target, source, SAME).when_not_matched_insert_all().execute()
        assert await contents(target) == [{"id": 1}, {"id": 2}]
    adelta.sync.write_table(tmp_path, numbers(id=[1]))
    with adelta.sync.open_table(tmp_path) as table:
        done = (
            adelta.sync.merge(table, (batch for batch in rows.to_batches()), SAME)
            .when_matched_delete()
            .when_not_matched_insert_all()
            .execute()
        )
        assert table.snapshot().scan().to_arrow().to_pylist() == [{"id": 2}]
    assert done.version == 1
    with pytest.raises(InvalidOptionError, match="cannot be written"):
        await merge(other, 7, SAME).when_matched_delete().execute()  # type: ignore[arg-type]


@pytest.mark.parametrize("on", [SAME, "target.id + 0 <= source.id AND target.id >= source.id"])
async def test_parts_of_a_large_source_are_told_apart(on: str) -> None:
    table = await table_of(numbers(id=[1, 2, 3], n=[0, 0, 0]))
    parts = [numbers(id=[n % 6], n=[n]).to_batches()[0] for n in (7, 0, 6, 8, 4, 5, 10, 9)]
    builder = merge(table, pa.Table.from_batches(parts), on)
    builder = replace(builder, _options=replace(builder._options, source_memory=1))
    builder = builder.when_matched_update({"n": "source.n"}).when_not_matched_insert_all()
    done = await builder.execute()
    assert (done.num_target_rows_updated, done.num_target_rows_inserted) == (3, 5)
    assert [(row["id"], row["n"]) for row in await contents(table)] == [
        *((0, 0), (0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (4, 4), (5, 5))
    ]


async def test_clocks_tell_when_the_merge_was_asked_for() -> None:
    table = await table_of(numbers(id=[1], at=[datetime(2024, 1, 1, tzinfo=UTC)]))
    before = datetime.now(UTC).replace(microsecond=0)
    builder = (
        merge(table, numbers(id=[1, 2]), f"{SAME} AND target.at < current_timestamp()")
        .when_matched_update({"at": "current_timestamp"}, condition="at < now()")
        .when_not_matched_insert({"id": "source.id", "at": "current_timestamp()"})
    )
    after = datetime.now(UTC)
    await builder.execute()
    (first, second) = await contents(table)
    assert first["at"] == second["at"]
    assert before <= first["at"] <= after


async def test_a_merge_that_is_done_is_not_done_again() -> None:
    table = await table_of(numbers(id=[1]))
    for _ in range(2):
        builder = merge(table, numbers(id=[2]), "false", txn=("load", 3))
        last = await builder.when_not_matched_insert_all().execute()
    assert last.version is None
    assert await contents(table) == [{"id": 1}, {"id": 2}]


# ------------------------------------------------------------------------------- what is looked at


@pytest.mark.parametrize("kind", ["upsert", "insert only"])
async def test_only_files_that_may_hold_keys_of_the_source_are_read(kind: str) -> None:
    store = CountingStore(open_table(uri()).store)
    table = Table(store.uri, store=store)
    day = pa.array(["a", "a", "b"])
    await write_table(table, pa.table({"id": [1, 2, 1], "day": day}), partition_by=["day"])
    await write_table(table, numbers(id=[100, 900], day=["a", "a"]))
    await write_table(table, pa.table({"id": pa.nulls(1, pa.int64()), "day": ["a"]}))
    assert (await (await table.snapshot()).files()).num_rows == 4
    store.clear()
    keys = [2, 7] if kind == "upsert" else [2, *range(7, 90)]
    rows = numbers(id=keys, day=["a"] * len(keys))
    builder = merge(table, rows, f"{SAME} AND target.day = source.day")
    if kind == "upsert":
        builder = builder.when_matched_update_all()
    done = await builder.when_not_matched_insert_all().execute()
    read = {path for path in store.paths("get") if path.endswith(".parquet")}
    assert len(read) == 1
    assert (done.num_target_files_removed, done.num_target_files_added) == (
        (1, 2) if kind == "upsert" else (0, 1)
    )


KEYS: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "double": (pa.float64(), pa.float64(), [None, math.nan, -0.0, 7.5, -math.inf]),
    "float": (pa.float32(), pa.float64(), [None, math.nan, 0.0, 7.5]),
    "long": (pa.int64(), pa.int8(), [None, -7, 0, 100]),
    "string": (pa.string(), pa.large_string(), [None, "", "a", "a" * 40, "ä\U0001f600"]),
    "binary": (pa.binary(), pa.binary(), [None, b"", b"a\0b", b"a" * 20]),
    "decimal": (pa.decimal128(9, 2), pa.decimal128(12, 4), [None, Decimal("1.50"), Decimal(-3)]),
    "bool": (pa.bool_(), pa.bool_(), [None, True, False]),
    "date": (pa.date32(), pa.date32(), [None, date(1500, 1, 1), date(2024, 2, 29)]),
    "time": (
        pa.timestamp("us", "UTC"),
        pa.timestamp("ms", "UTC"),
        [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, 1, 1, 999000, UTC)],
    ),
}
"""Types of a key on either side, and values of it."""


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("kind", KEYS)
async def test_no_file_is_left_out_that_holds_a_match(kind: str, partitioned: bool) -> None:
    ours, theirs, values = KEYS[kind]
    if partitioned and kind in ("binary", "string"):
        values = [value for value in values if value]  # an empty one is null there
    schema = pa.schema([("k", ours), ("n", pa.int64())])
    table = await create_table(uri(), schema, partition_by=["k"] if partitioned else [])
    for number, value in enumerate(values):
        await write_table(table, pa.table({"k": [value], "n": [number]}, schema))
    memory = 1 if partitioned else 1 << 20
    for number, value in enumerate(values):
        source = pa.table({"k": pa.array([value], theirs), "m": [number + 100]})
        for op, count in (("<=>", 1), ("=", 0 if value is None else 1)):
            builder = merge(table, source, f"target.k {op} source.k")
            builder = replace(builder, _options=replace(builder._options, source_memory=memory))
            done = await builder.when_matched_update({"n": "m"}).execute()
            assert done.num_target_rows_updated == count, value
    found = sorted(row["n"] for row in await contents(table))
    assert found == [100 + number for number in range(len(values))]
    whole = pa.table({"k": pa.array(values, theirs)})
    done = await merge(table, whole, "target.k <=> source.k").when_matched_delete().execute()
    assert done.num_target_rows_deleted == len(values)


async def test_progress_is_told_in_files() -> None:
    table = await table_of(numbers(id=[1]))
    await write_table(table, numbers(id=[2]))
    told: list[adelta.progress.Progress] = []
    builder = merge(table, numbers(id=[1, 2]), SAME, on_progress=told.append)
    await builder.when_matched_delete("source.id = 3").execute()
    assert [(each.phase, each.total) for each in told][-1] == ("rewriting", 0)
    assert max(each.done for each in told if each.phase == "matching") == 2


# ------------------------------------------------------------------------------------- conflicts


async def overtaken(
    kind: str, winner: Callable[[Table], Awaitable[object]], isolation: Any = None
) -> int | None:
    """The version of a merge of the keys 2 and 4, which `winner` comes before."""
    inner = MemoryStore()
    table = Table(inner.uri, store=inner)
    await write_table(table, numbers(id=[1, 2, 3]))
    await write_table(table, numbers(id=[8]))
    store = OvertakenStore(inner, lambda: winner(Table(inner.uri, store=inner)))
    other = Table(inner.uri, store=store)
    builder = merge(other, numbers(id=[2, 4]), SAME, isolation=isolation)
    if kind == "upsert":
        builder = builder.when_matched_update({"id": "target.id"})
    return (await builder.when_not_matched_insert_all().execute()).version


@pytest.mark.parametrize("kind", ["upsert", "insert only"])
async def test_only_what_could_have_matched_is_a_conflict(kind: str) -> None:
    # C3-01, C3-02
    async def move(table: Table) -> None:
        async with table.transaction("OPTIMIZE") as tx:
            files = [file for file in await tx.read() if '"id":1' in (file.stats or "")]
            tx.remove_files(files, data_change=False)
            await tx.append(numbers(id=[1, 2, 3]), data_change=False)

    def append(*ids: int) -> Callable[[Table], Awaitable[object]]:
        return lambda table: write_table(table, numbers(id=list(ids)))

    assert await overtaken(kind, append(9)) == 3
    assert await overtaken(kind, append(3), isolation="WriteSerializable") == 3
    assert await overtaken(kind, lambda table: adelta.delete(table, "id = 8")) == 3
    with pytest.raises(ConcurrentAppendError, match="id"):
        await overtaken(kind, append(3, 4))
    with pytest.raises(ConcurrentDeleteReadError):
        await overtaken(kind, lambda table: adelta.delete(table, "id < 4"))
    if kind == "insert only":
        assert await overtaken(kind, move) == 3
    else:
        with pytest.raises(ConcurrentDeleteDeleteError):
            await overtaken(kind, move)


# -------------------------------------------------------------------------------------- features


@pytest.mark.parametrize("properties", [{}, VECTORS])
async def test_rules_of_the_table_hold_for_what_a_merge_writes(properties: dict[str, str]) -> None:
    schema = StructType(
        (
            StructField("id", LONG, nullable=False),
            StructField("n", LONG, metadata={"CURRENT_DEFAULT": "7"}),
            StructField("twice", LONG, metadata={"delta.generationExpression": "n * 2"}),
            StructField("name", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
        )
    )
    properties = {**properties, "delta.feature.allowColumnDefaults": "supported"}
    table = await create_table(uri(), schema, properties=properties)
    await write_table(table, numbers(id=[1, 2], n=[1, 2]))
    await add_constraint(table, "small", "n < 100")
    source = numbers(id=[2, 3], n=[20, 30])
    await (
        merge(table, source, SAME)
        .when_matched_update({"n": "source.n"})
        .when_not_matched_insert({"id": "id", "name": "'new'"})
        .when_not_matched_by_source_update({"n": "DEFAULT"})
        .execute()
    )
    assert await contents(table) == [
        {"id": 1, "n": 7, "twice": 14, "name": None},
        {"id": 2, "n": 20, "twice": 40, "name": None},
        {"id": 3, "n": 7, "twice": 14, "name": "new"},
    ]
    before = (await open_table(table.uri).snapshot()).version
    for clause, says in (
        ({"n": "source.n * 5"}, "small"),
        ({"id": None}, "may not be null"),
        ({"name": "'long'"}, "varchar"),
        ({"twice": 1}, "generation expression"),
    ):
        with pytest.raises(InvariantViolationError, match=says):
            await merge(table, source, SAME).when_matched_update(clause).execute()
    with pytest.raises(InvariantViolationError, match="small"):
        await (
            merge(table, numbers(id=[9], n=[100]), SAME)
            .when_not_matched_insert({"id": "id", "n": "n"})
            .execute()
        )
    assert (await open_table(table.uri).snapshot()).version == before


async def test_values_are_cast_to_the_columns_or_refused() -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int8())])
    table = await create_table(uri(), schema)
    await write_table(table, pa.table({"id": [1], "n": [1]}, schema))
    await merge(table, numbers(id=[1], n=[5]), SAME).when_matched_update_all().execute()
    assert await contents(table) == [{"id": 1, "n": 5}]
    with pytest.raises(SchemaMismatchError, match="'n'"):
        await merge(table, numbers(id=[1], n=[300]), SAME).when_matched_update_all().execute()


async def test_identity_columns_number_new_rows_and_keep_those_there_are() -> None:
    schema = pa.schema([identity_column("number"), ("id", pa.int64())])
    table = await create_table(uri(), schema)
    await write_table(table, numbers(id=[1, 2]))
    source = numbers(id=[2, 3, 4])
    await merge(table, source, SAME).when_matched_delete().when_not_matched_insert_all().execute()
    await merge(table, numbers(id=[5]), SAME).when_not_matched_insert({"id": "id"}).execute()
    found = await contents(table)
    assert {row["id"] for row in found} == {1, 3, 4, 5}
    assert sorted(row["number"] for row in found) == [1, 3, 4, 5]
    with pytest.raises(SchemaMismatchError, match="identity"):
        await merge(table, source, SAME).when_matched_update({"number": 1}).execute()
    with pytest.raises(SchemaMismatchError, match="GENERATED ALWAYS"):
        await merge(table, source, SAME).when_not_matched_insert({"number": "source.id"}).execute()


async def test_append_only_tables_take_new_rows_alone() -> None:
    table = await table_of(numbers(id=[1]), properties={"delta.appendOnly": "true"})
    await merge(table, numbers(id=[1, 2]), SAME).when_not_matched_insert_all().execute()
    assert await contents(table) == [{"id": 1}, {"id": 2}]
    with pytest.raises(InvariantViolationError, match="append-only"):
        await merge(table, numbers(id=[1]), SAME).when_matched_delete().execute()


async def test_a_vector_takes_in_what_an_earlier_one_has() -> None:
    table = await table_of(numbers(id=[1, 2, 3, 4], n=[1, 2, 3, 4]), properties=VECTORS)
    await adelta.delete(table, "id = 2")
    await update(table, {"n": 30}, "id = 3")
    builder = merge(table, numbers(id=[2, 3, 4], n=[0, 0, 0]), SAME)
    done = await builder.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (done.num_target_rows_updated, done.num_target_rows_inserted) == (2, 1)
    assert done.num_target_deletion_vectors_updated == 1
    assert [row["n"] for row in await contents(table)] == [1, 0, 0, 0]


async def test_deltalake_makes_the_same_of_the_same_merge(tmp_path: Path) -> None:
    target = pa.table({"id": [1, 2, 3, None], "n": [1, 2, 3, 4], "p": ["a", "a", "b", "b"]})
    source = pa.table({"id": [2, 3, 9, None], "n": [20, 30, 90, 40], "p": ["b", "b", "c", "c"]})
    adelta.sync.write_table(tmp_path / "ours", target, partition_by=["p"])
    adelta.sync.write_table(tmp_path / "theirs", target, partition_by=["p"])
    (
        deltalake.DeltaTable(str(tmp_path / "theirs"))
        .merge(source, SAME, source_alias="source", target_alias="target")
        .when_matched_delete("source.n = 30")
        .when_matched_update({"n": "source.n", "p": "source.p"})
        .when_not_matched_insert({"id": "source.id", "n": "source.n", "p": "source.p"})
        .when_not_matched_by_source_update({"n": "target.n + 1"})
        .execute()
    )
    (
        adelta.sync.merge(tmp_path / "ours", source, SAME)
        .when_matched_delete("source.n = 30")
        .when_matched_update({"n": "source.n", "p": "source.p"})
        .when_not_matched_insert({"id": "source.id", "n": "source.n", "p": "source.p"})
        .when_not_matched_by_source_update({"n": "target.n + 1"})
        .execute()
    )
    found = [
        sorted(deltalake.DeltaTable(str(tmp_path / side)).to_pyarrow_table().to_pylist(), key=repr)
        for side in ("ours", "theirs")
    ]
    assert found[0] == found[1]
