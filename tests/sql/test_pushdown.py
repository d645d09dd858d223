"""Queries read what they need: columns, files and row groups; and end when they are left."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from contextlib import aclosing
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import adelta
import adelta.sync
from adelta.errors import InvalidStatementError, MissingDataFileError
from adelta.kernel.expressions.nodes import Column, Comparison, In, IsNull, Literal, Not, Or
from adelta.kernel.schema import types as t
from adelta.sql.engine.pushdown import predicate_of
from adelta.sql.engine.run import running_query
from adelta.table import Table
from tests.support.stores import CountingStore

SCHEMA = pa.schema(
    {
        "i": pa.int8(),
        "l": pa.int64(),
        "s": pa.string(),
        "f": pa.float64(),
        "d": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"),
        "m": pa.decimal128(9, 2),
        "b": pa.binary(),
        "o": pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.bool_()})}),
    }
)
MOMENT = dt.datetime(1999, 12, 31, 23, 59, 59, 5)


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        (pc.field("l") == -1, Comparison("=", Column(("l",)), Literal(-1, t.LONG))),
        (pc.field("i") != pa.scalar(3, pa.int8()),
         Comparison("!=", Column(("i",)), Literal(3, t.BYTE))),
        (pc.field("s") >= "it's\n", Comparison(">=", Column(("s",)), Literal("it's\n", t.STRING))),
        (pc.field("f") < 2.5, Comparison("<", Column(("f",)), Literal(2.5, t.DOUBLE))),
        (pc.field("d") <= dt.date(1969, 1, 1),
         Comparison("<=", Column(("d",)), Literal(dt.date(1969, 1, 1), t.DATE))),
        (pc.field("n") > pa.scalar(MOMENT, pa.timestamp("us")),
         Comparison(">", Column(("n",)), Literal(MOMENT, t.TIMESTAMP_NTZ))),
        (pc.field("at") > pa.scalar(MOMENT, pa.timestamp("us", "UTC")),
         Comparison(">", Column(("at",)), Literal(MOMENT.replace(tzinfo=dt.UTC), t.TIMESTAMP))),
        (pc.field("m") > pa.scalar(Decimal("-1.25"), pa.decimal128(9, 2)),
         Comparison(">", Column(("m",)), Literal(Decimal("-1.25"), t.DecimalType(9, 2)))),
        (pc.field("b") == b"\0a", Comparison("=", Column(("b",)), Literal(b"\0a", t.BINARY))),
        (pc.field("o", "y", "z") == True,  # noqa: E712  # an expression
         Comparison("=", Column(("o", "y", "z")), Literal(True, t.BOOLEAN))),
        (~pc.field("s").is_null(), Not(IsNull(Column(("s",))))),
    ],
)  # fmt: skip
def test_a_filter_is_read_to_the_last_value(expression, node):
    assert predicate_of(expression, SCHEMA) == (node, True)


def test_a_part_that_cannot_be_read_is_told():
    known = pc.field("l") > 1
    node, whole = predicate_of(known & (pc.field("l") + 1 > 2), SCHEMA)
    assert node == Comparison(">", Column(("l",)), Literal(1, t.LONG))
    assert not whole
    far = pa.scalar(2**62, pa.timestamp("us"))  # beyond Python's times
    assert predicate_of(pc.field("n") > far, SCHEMA) == (None, False)


def test_a_filter_that_nests_deeply_takes_time_by_its_length():
    chain = pc.field("l") == 0
    for number in range(1, 5000):
        chain = chain | (pc.field("l") == number)
    node, whole = predicate_of(chain, SCHEMA)
    assert isinstance(node, Or)
    assert len(node.operands) == 5000
    assert whole
    found = predicate_of(pc.field("l").isin(range(100_000)), SCHEMA)[0]
    assert isinstance(found, In)
    assert len(found.options) == 100_000


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("s") == 1, pc.field("at") > MOMENT, pc.field("l") == pc.field("i"),
        pc.field("l").isin([1, None]), pc.field("none") == 1, pc.field("l") == pa.scalar(None),
        pc.field("f").is_null(nan_is_null=True), pc.field("m") > 0.5,
        pc.field("l") == pa.scalar(2**63, pa.uint64()), (pc.field("l") + 1) > 2,
    ],
)  # fmt: skip
def test_what_arrow_and_adelta_understand_otherwise_is_not_read(expression):
    assert predicate_of(expression, SCHEMA) == (None, False)
    known = IsNull(Column(("l",)))
    assert predicate_of(pc.field("l").is_null() & expression, SCHEMA) == (known, False)


def test_rows_without_a_value_are_not_in_a_list_as_arrow_has_it(tmp_path):
    rows = pa.table({"l": [1, None, 3]})
    adelta.sync.write_table(tmp_path, rows)
    kept = ~pc.field("l").isin([3])
    node, whole = predicate_of(kept, rows.schema)
    assert whole
    with adelta.sync.open_table(tmp_path) as table:
        found = table.snapshot().scan(where=node).to_arrow()
    assert found.equals(rows.filter(kept))


@pytest.fixture(scope="module")
def uri() -> str:
    """A table of ten files of a hundred rows, of which `id` is ascending."""
    uri = f"memory://{uuid.uuid4()}/t"
    for part in range(10):
        ids = range(part * 100, part * 100 + 100)
        rows = {
            "id": pa.array(ids, pa.int64()),
            "wide": [f"{i:0>2000}" for i in ids],
            "f": pa.array([float("nan") if i % 100 == 0 else float(i) for i in ids]),
            "p": [str(part % 2)] * 100,
            "none": pa.nulls(100, pa.int32()),
        }
        adelta.sync.write_table(uri, pa.table(rows), partition_by=["p"])
    return uri


@pytest.fixture
def table(uri: str) -> Table:
    """A handle that counts requests."""
    return Table(uri, store=CountingStore(adelta.open_table(uri).store))


async def test_files_and_columns_that_a_query_does_not_need_are_not_read(table):
    counted = table.store.inner
    tables = {"t": table}
    await table.snapshot()
    counted.clear()
    found = await adelta.sql("SELECT f, p FROM t WHERE id BETWEEN 450 AND 451", tables=tables)
    assert found.to_pylist() == [{"f": 450.0, "p": "0"}, {"f": 451.0, "p": "0"}]
    assert len({path for path in counted.paths("get") if path.endswith(".parquet")}) == 1
    counted.clear()
    found = await adelta.sql("SELECT sum(id) AS s FROM t x WHERE x.p = '1'", tables=tables)
    assert found["s"].to_pylist() == [Decimal(274750)]
    assert len({path for path in counted.paths("get") if path.endswith(".parquet")}) == 5


@pytest.mark.parametrize(
    "condition",
    [
        "f > 998", "f >= 'NaN'::DOUBLE", "f = 'NaN'::DOUBLE", "f <> 5", "NOT f < 998",
        "f IN (1, 2)",
        "none IS NULL AND id < 3", "none IS NOT NULL", "none > 3 OR id = 7", "id IN (1, NULL, 901)",
        "p = '1' AND f > 900 AND wide LIKE '%9'", "wide >= '0' AND id % 100 = 1", "id = 1.0",
        "id > 990 AND id <> 995", "id::VARCHAR = '12'", "f BETWEEN 10 AND 12 OR isnan(f)",
    ],
)  # fmt: skip
async def test_a_filter_keeps_what_duckdb_itself_would(table, condition):
    with duckdb.connect() as plain:
        plain.register("rows", await (await table.snapshot()).scan().to_arrow())
        plain.execute("CREATE TABLE t AS SELECT * FROM rows")
        text = f"SELECT id FROM t WHERE {condition} ORDER BY id"
        expected = [row[0] for row in plain.execute(text).fetchall()]
    found = await adelta.sql(text, tables={"t": table})
    assert found["id"].to_pylist() == expected


@pytest.mark.parametrize(
    "asked",
    [
        "EXISTS (SELECT 1 FROM s WHERE s.id = t.id + 1)",
        "NOT EXISTS (SELECT 1 FROM s WHERE s.id + 1 = t.id AND s.f < t.f)",
        "p IN (SELECT p FROM s WHERE abs(s.id) = t.id)",
        "f > (SELECT max(s.f) FROM s WHERE s.id = t.id - 1)",
    ],
)
async def test_a_query_about_what_is_computed_of_each_row_is_a_join_by_hashes(table, asked):
    snapshot = await table.snapshot()
    text = f"EXPLAIN SELECT count(*) FROM t WHERE {asked}"
    async with (
        running_query(text, {"t": snapshot, "s": snapshot}, zone="UTC") as running,
        aclosing(running.batches()) as batches,
    ):
        (plan,) = [batch.column(1)[0].as_py() async for batch in batches]
    assert "HASH_JOIN" in plan
    assert "CROSS_PRODUCT" not in plan
    assert "NESTED_LOOP_JOIN" not in plan


async def test_a_query_that_is_left_or_cancelled_ends_its_scans(table):
    before = asyncio.all_tasks()
    text = "SELECT x.id FROM t x, t y, t z"  # a thousand million rows
    async with aclosing(adelta.sql_batches(text, tables={"t": table})) as batches:
        async for batch in batches:
            assert batch.num_rows
            break
    endless = asyncio.ensure_future(
        adelta.sql("SELECT sum(x.id * y.id + z.id) FROM t x, t y, t z", tables={"t": table})
    )
    await asyncio.sleep(0.3)
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(endless, 60)
    assert asyncio.all_tasks() == before
    assert (await adelta.sql("SELECT 1 AS one")).to_pylist() == [{"one": 1}]


async def test_many_queries_run_at_once(table):
    text = "SELECT count(*) AS n FROM t x JOIN t y USING (id)"
    found = await asyncio.gather(*(adelta.sql(text, tables={"t": table}) for _ in range(20)))
    assert [each["n"].to_pylist() for each in found] == [[1000]] * 20


async def test_a_query_does_not_block_the_event_loop(table):
    """A query that held up the loop would be one long pause of it."""
    pauses, over = [], asyncio.Event()

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        while not over.is_set():
            begun = loop.time()
            await asyncio.sleep(0.001)
            pauses.append(loop.time() - begun)

    watching = asyncio.ensure_future(watch())
    text = "SELECT sum(x.id * y.id + z.id) AS n FROM t x, t y, t z WHERE z.id < 100"
    await adelta.sql(text, tables={"t": table})
    over.set()
    await watching
    assert max(pauses) < sum(pauses) / 2


async def test_errors_are_those_of_adelta():
    uri = f"memory://{uuid.uuid4()}/t"
    await adelta.sql(f"CREATE TABLE '{uri}' AS SELECT 1 AS id")
    async with adelta.open_table(uri) as table:
        await table.store.delete((await (await table.snapshot()).files())["path"].to_pylist())
    with pytest.raises(MissingDataFileError):
        await adelta.sql(f"SELECT sum(id) FROM '{uri}'")
    with pytest.raises(InvalidStatementError, match="Could not convert string"):
        await adelta.sql("SELECT 'a'::INT")
