"""An empty text as partition value, as other writers store it, is null wherever it is read."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import CommitConflictError, InvariantViolationError
from adelta.kernel.log_path import checkpoint_path
from adelta.kernel.schema import types as t
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.data_tables import described, put_data
from tests.support.logs import Line, put_commit

if TYPE_CHECKING:
    from pyarrow import Schema

ON = {"delta.enableChangeDataFeed": "true"}
KINDS = [pa.string(), pa.binary(), pa.int32(), pa.date32()]
VALUES: dict[Any, str] = {
    pa.string(): "x",
    pa.binary(): "x",
    pa.int32(): "7",
    pa.date32(): "2020-02-29",
}


def schema(kind: pa.DataType = KINDS[0]) -> Schema:
    return pa.schema([("id", pa.int64()), ("p", kind)])


async def file(store: MemoryStore, number: int, p: str | None) -> Line:
    data = pa.table({"id": pa.array([number], pa.int64())})
    return await put_data(store, f"{number}.parquet", data, action={"partitionValues": {"p": p}})


async def table(kind: pa.DataType = KINDS[0], **properties: str) -> Table:
    """Rows 0 to 2, of an empty text, null, and a value as partition values."""
    store = MemoryStore()
    head = described(
        schema(kind),
        partition_by=["p"],
        writer_features=("changeDataFeed",),
        configuration=ON | properties,
    )
    texts = ["", None, VALUES[kind]]
    adds = [await file(store, number, p) for number, p in enumerate(texts)]
    await put_commit(store, 0, *head, *adds)
    return Table("memory://empty", store=store)


async def ids(opened: Table, where: str | None = None) -> list[int]:
    rows = await (await opened.snapshot()).scan(["id"], where=where).to_arrow()
    return sorted(rows.column("id").to_pylist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checkpointed", [False, True])
async def test_rows_files_and_counts_have_null(kind: pa.DataType, checkpointed: bool) -> None:
    opened = await table(kind)
    if checkpointed:
        await adelta.checkpoint(opened)
        opened = Table(opened.uri, store=opened.store)
    snapshot = await opened.snapshot()
    rows = (await snapshot.scan().to_arrow()).sort_by("id")
    assert [p is None for p in rows.column("p").to_pylist()] == [True, True, False]
    assert await ids(opened, "p IS NULL") == [0, 1]
    assert await ids(opened, "p IS NOT NULL") == [2]
    assert await ids(opened, "p <=> NULL") == [0, 1]
    assert await snapshot.scan(where="p IS NULL").count() == 2
    listed = (await snapshot.files("p IS NULL")).sort_by("path")
    assert listed.column("partition_values").to_pylist() == [[("p", None)]] * 2
    assert (await snapshot.scan(where="p IS NULL").files()).sort_by("path") == listed
    batches = [batch async for batch in snapshot.files_batches("p IS NULL")]
    assert pa.Table.from_batches(batches).sort_by("path") == listed
    if kind == pa.string():
        assert await ids(opened, "p = ''") == []
        assert (await snapshot.files("p = ''")).num_rows == 0


async def test_typed_values_of_a_checkpoint_are_null() -> None:
    opened = await table(**{"delta.checkpoint.writeStatsAsStruct": "true"})
    await adelta.checkpoint(opened)
    data = await opened.store.get(checkpoint_path(0))
    adds = pq.read_table(pa.BufferReader(data)).column("add").to_pylist()
    typed = {add["path"]: add["partitionValues_parsed"]["p"] for add in adds if add}
    assert typed == {"0.parquet": None, "1.parquet": None, "2.parquet": "x"}
    assert (await adelta.fsck(opened)).problems == ()


async def test_the_change_feed_has_null() -> None:
    opened = await table()
    await adelta.delete(opened, "p IS NULL")
    found = [row async for batch in adelta.changes(opened) for row in batch.to_pylist()]
    assert sorted((row["id"], row["_change_type"], row["p"]) for row in found if row["id"] < 2) == [
        (0, "delete", None),
        (0, "insert", None),
        (1, "delete", None),
        (1, "insert", None),
    ]
    assert await ids(opened) == [2]


async def test_a_change_of_rows_writes_null() -> None:
    opened = await table(**{"delta.enableDeletionVectors": "false"})
    await adelta.update(opened, {"id": "id + 10"}, "p IS NULL")
    assert await ids(opened) == [2, 10, 11]
    files = await (await opened.snapshot()).files("p IS NULL")
    assert [dict(values)["p"] for values in files.column("partition_values").to_pylist()] == [
        None
    ] * files.num_rows


async def test_replacing_the_partition_of_null_replaces_both() -> None:
    opened = await table()
    rows = pa.table({"id": pa.array([9], pa.int64()), "p": pa.array([None], pa.string())})
    await adelta.write_table(opened, rows, mode="overwrite", partition_overwrite="dynamic")
    assert await ids(opened) == [2, 9]


@pytest.mark.parametrize(("read", "conflicts"), [("p IS NULL", True), ("p = ''", False)])
async def test_a_file_of_an_empty_text_meets_those_who_read_nulls(
    read: str, conflicts: bool
) -> None:
    opened = await table()
    tx = opened.transaction("READ")
    rows = pa.table({"id": pa.array([9], pa.int64()), "p": ["y"]})
    raised = False
    try:
        async with tx:
            await tx.read(read)
            await put_commit(opened.store, 1, await file(opened.store, 3, ""))  # type: ignore[arg-type]
            await tx.append(rows)
    except CommitConflictError:
        raised = True
    assert raised is conflicts


@pytest.mark.parametrize("empty", ["", b""])
async def test_an_empty_value_is_null_to_the_rules_of_the_table_too(empty: str | bytes) -> None:
    """As Spark has it: no null comes into a column that must have none by way of its partition."""
    other = type(empty)(b"x", *["ascii"] * isinstance(empty, str))
    data = pa.table({"id": [1], "p": [empty]})
    uri = f"memory://{uuid.uuid4()}/t"
    required = pa.schema([data.schema.field("id"), data.schema.field("p").with_nullable(False)])
    opened = await adelta.create_table(uri, required, partition_by=["p"])
    with pytest.raises(InvariantViolationError, match="'p' may not be null"):
        await adelta.write_table(opened, data)
    await adelta.write_table(opened, data.set_column(1, "p", pa.array([other])))
    clauses = adelta.merge(opened, data, "target.id = source.id")
    for change in (
        adelta.update(opened, {"p": empty if isinstance(empty, bytes) else "''"}),
        clauses.when_matched_update_all().execute(),
        clauses.when_not_matched_by_source_delete().when_matched_update_all().execute(),
    ):
        with pytest.raises(InvariantViolationError, match="'p' may not be null"):
            await change
    assert await ids(opened, "p IS NULL") == []


async def test_an_empty_value_is_held_to_constraints_as_the_null_that_it_becomes() -> None:
    computed = t.StructField("g", t.STRING, metadata={"delta.generationExpression": "concat(p, p)"})
    fields = (t.StructField("id", t.LONG), t.StructField("p", t.STRING), computed)
    uri = f"memory://{uuid.uuid4()}/t"
    opened = await adelta.create_table(uri, t.StructType(fields), partition_by=["p", "g"])
    rows = pa.table({"id": [1, 2], "p": ["", "x"]})
    await adelta.write_table(opened, rows)
    found = await (await opened.snapshot()).scan().to_arrow()
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "p": None, "g": None},
        {"id": 2, "p": "x", "g": "xx"},
    ]
    await adelta.write_table(opened, rows[:1], mode="overwrite", replace_where="p IS NULL")
    await adelta.delete(opened, "p IS NULL")
    await adelta.add_constraint(opened, "short", "length(p) < 9")
    with pytest.raises(InvariantViolationError, match="'short'"):
        await adelta.write_table(opened, rows)
