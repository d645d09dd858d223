"""DELETE and UPDATE with queries in them: DuckDB's own tables come to the same rows."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    ConcurrentAppendError,
    InvalidExpressionError,
    InvalidOptionError,
    InvalidStatementError,
)
from adelta.sql.execute import by_query

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, None], pa.int32()),
        "x": [0.0, -0.0, float("nan"), float("nan"), 1.5, None],
        "name": ["a", "b", "it's", "b", None, ""],
        "day": pa.array([dt.date(2024, 1, day) for day in (1, 1, 2, 2, 3, 3)]),
        "sum": pa.array([Decimal("1.10"), Decimal("2.20")] * 3, pa.decimal128(38, 2)),
        "then": pa.array([dt.datetime(2024, 1, 1, hour) for hour in range(6)], pa.timestamp("us")),
        "raw": [b"\x00", b"\xff", b"", None, b"\x00", b"a"],
        "place": [{"city": c, "n": n} for c, n in zip("aabbcc", [1, 2, 1, 2, 1, 2], strict=True)],
    }
)
OTHERS = pa.table(
    {
        "id": pa.array([2, 3, 3, 9], pa.int32()),
        "name": ["b", "z", None, "a"],
        "x": [-0.0, 2.5, float("nan"), 1.5],
        "rate": [2, 3, 4, 5],
    }
)
STATEMENTS = (
    "DELETE FROM t WHERE id IN (SELECT id FROM s)",
    "DELETE FROM t WHERE id NOT IN (SELECT id FROM s)",
    "DELETE FROM t WHERE name NOT IN (SELECT name FROM s)",  # which holds NULL
    "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.id = t.id)",
    "DELETE FROM t AS o WHERE EXISTS (SELECT * FROM s WHERE s.id = o.id AND s.name = o.name)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE rate > 4)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE rate > 5)",
    "DELETE FROM t WHERE id = (SELECT max(id) FROM t)",
    "DELETE FROM t WHERE id > (SELECT avg(o.id) FROM t AS o WHERE o.day = t.day)",
    "DELETE FROM t WHERE x IN (SELECT x FROM s) AND day < '2024-01-03'",
    "DELETE FROM t WHERE raw = (SELECT max(raw) FROM t) OR sum IN (SELECT min(sum) FROM t)",
    "DELETE FROM t WHERE `then` >= (WITH m AS (SELECT max(`then`) AS n FROM t) SELECT n FROM m)",
    "DELETE FROM t WHERE place.city = 'b' AND place.n < (SELECT count(*) FROM s)",
    "UPDATE t SET name = (SELECT min(name) FROM s WHERE s.id = t.id)",
    "UPDATE t SET name = 'new', id = id + 1 WHERE id IN (SELECT id FROM s)",
    "UPDATE t SET id = (SELECT max(rate) FROM s) + id, name = 'x' WHERE day = '2024-01-02'",
    "UPDATE t SET x = id, id = NULL WHERE (id, name) IN (SELECT id, name FROM s)",
    "UPDATE t SET sum = sum * (SELECT 2), raw = raw WHERE CAST(x AS STRING) IN (SELECT '-0.0')",
    "UPDATE t SET id = CASE WHEN id IN (SELECT id FROM s) THEN -1 ELSE id END",
)
SETTINGS = {
    "copies": {},
    "vectors": {
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.columnMapping.mode": "name",
    },
}


async def lake_of(root: str, properties: dict[str, str]) -> dict[str, str]:
    tables = {"t": f"{root}/t", "s": f"{root}/s"}
    await adelta.write_table(tables["t"], ROWS.slice(0, 3), properties=properties)
    await adelta.write_table(tables["t"], ROWS.slice(3))
    await adelta.write_table(tables["s"], OTHERS)
    return tables


@pytest.fixture
async def tables() -> dict[str, str]:
    return await lake_of(f"memory://{uuid.uuid4()}", SETTINGS["vectors"])


async def rows_of(tables: dict[str, str], name: str = "t") -> pa.Table:
    async with adelta.open_table(tables[name]) as table:
        return await (await table.snapshot()).scan().to_arrow()


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order; a text tells NaN and -0.0 from what they are equal to, or not."""
    return sorted(map(repr, rows))


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("settings", SETTINGS)
async def test_rows_become_what_a_database_makes_of_them(statement: str, settings: str):
    tables = await lake_of(f"memory://{uuid.uuid4()}", SETTINGS[settings])
    with duckdb.connect() as database:
        for name, rows in (("t", ROWS), ("s", OTHERS)):
            database.register("given", rows)
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        counted = database.execute(
            statement.replace("STRING", "VARCHAR").replace("`", '"')
        ).fetchall()
        expected = database.execute("SELECT * FROM t").to_arrow_table().to_pylist()
    done = await adelta.sql(statement, tables=tables)
    assert done.to_pylist() == [{"num_affected_rows": counted[0][0]}]
    assert texts((await rows_of(tables)).to_pylist()) == texts(expected)


async def test_the_history_says_what_was_done_and_the_feed_which_rows(tables: dict[str, str]):
    where = "id IN (SELECT id FROM s WHERE rate = 2)"
    await adelta.sql(f"DELETE FROM t WHERE {where}", tables=tables, user_metadata="late")
    await adelta.sql("UPDATE t SET name = (SELECT 'n') WHERE id = 5", tables=tables)
    updated, deleted = await adelta.history(tables["t"], limit=2)
    assert (deleted.operation, updated.operation) == ("DELETE", "UPDATE")
    assert deleted.operation_parameters == {"predicate": f'["{where}"]'}
    assert deleted.operation_metrics["numDeletedRows"] == "1"
    assert deleted.user_metadata == "late"
    assert updated.operation_metrics["numUpdatedRows"] == "1"
    changed = []
    async for batch in adelta.changes(tables["t"], since=2):
        changed += [(row["_change_type"], row["id"], row["name"]) for row in batch.to_pylist()]
    assert changed == [
        ("delete", 2, "b"),
        ("update_preimage", 5, None),
        ("update_postimage", 5, "n"),
    ]


async def test_a_statement_without_rows_that_it_is_about_is_no_commit(tables: dict[str, str]):
    for verb in ("DELETE FROM t", "UPDATE t SET id = 1"):
        done = await adelta.sql(f"{verb} WHERE id IN (SELECT 77)", tables=tables)
        assert done.to_pylist() == [{"num_affected_rows": 0}]
    assert (await adelta.open_table(tables["t"]).snapshot()).version == 1


async def test_a_query_in_it_may_be_about_an_earlier_version(tables: dict[str, str]):
    done = await adelta.sql(
        "DELETE FROM t WHERE id IN (SELECT id FROM t VERSION AS OF 0)", tables=tables
    )
    assert done.to_pylist() == [{"num_affected_rows": 3}]
    path = tables["t"]
    await adelta.sql(f"DELETE FROM delta.`{path}` WHERE id = (SELECT 4)", storage_options={})
    assert (await rows_of(tables))["id"].to_pylist() == [5, None]


async def test_rows_that_others_append_meanwhile_are_a_conflict(
    tables: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    merged = by_query.run_merge

    async def late(*arguments: Any) -> Any:
        await adelta.write_table(tables["t"], ROWS.slice(5))
        return await merged(*arguments)

    monkeypatch.setattr(by_query, "run_merge", late)
    with pytest.raises(ConcurrentAppendError):
        await adelta.sql("DELETE FROM t WHERE id = (SELECT max(id) FROM t)", tables=tables)
    assert (await rows_of(tables)).num_rows == 7


async def test_what_cannot_be_done_is_said(tables: dict[str, str], tmp_path: Path):
    refused = {
        "DELETE FROM t WHERE id IN (SELECT nothing FROM s)": InvalidStatementError,
        "UPDATE t SET id = (SELECT 1), ID = 2": InvalidOptionError,
        "MERGE INTO t USING s ON t.id IN (SELECT 1) WHEN MATCHED THEN DELETE": (
            InvalidExpressionError
        ),
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = (SELECT 'a')": (
            InvalidExpressionError
        ),
    }
    for statement, error in refused.items():
        with pytest.raises(error):
            await adelta.sql(statement, tables=tables)
    maps = pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    await adelta.write_table(str(tmp_path), maps)
    with pytest.raises(InvalidExpressionError, match="'m' is a map"):
        await adelta.sql("DELETE FROM m WHERE m IN (SELECT m FROM m)", tables={"m": str(tmp_path)})
