"""`current_timestamp` and the like in statements, and in the defaults of columns."""

from __future__ import annotations

import datetime as dt
import uuid

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidExpressionError


@pytest.fixture
async def uri() -> str:
    uri = f"memory://{uuid.uuid4()}/t"
    await adelta.sql(
        f"CREATE TABLE '{uri}' (id BIGINT, at TIMESTAMP DEFAULT current_timestamp(),"
        " day DATE DEFAULT current_date())"
    )
    return uri


async def times(uri: str, where: str | None = None) -> list[dt.datetime]:
    async with adelta.open_table(uri) as table:
        rows = await (await table.snapshot()).scan(columns=["at", "day"], where=where).to_arrow()
    assert all(row["day"] == row["at"].date() for row in rows.to_pylist())
    return rows["at"].to_pylist()


async def test_rows_of_a_statement_have_one_time_and_those_of_the_next_another(uri: str) -> None:
    began = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=1)
    await adelta.sql(f"INSERT INTO '{uri}' (id) VALUES (1), (2)")
    await adelta.sql(f"INSERT INTO '{uri}' (id, at) VALUES (3, DEFAULT), (4, current_timestamp)")
    await adelta.write_table(uri, pa.table({"id": [5, 6]}))
    first, second, third = [await times(uri, f"id in ({ids})") for ids in ("1, 2", "3, 4", "5, 6")]
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert third[0] == third[1]
    assert began <= first[0] < second[0] < third[0] <= dt.datetime.now(dt.UTC)


async def test_statements_that_change_rows_know_the_time(uri: str) -> None:
    old = dt.datetime(2020, 5, 5, tzinfo=dt.UTC)
    day = pa.array([old.date()] * 4)
    await adelta.write_table(uri, pa.table({"id": range(4), "at": [old] * 4, "day": day}))
    await adelta.sql(
        f"UPDATE '{uri}' SET at = DEFAULT, day = current_date()"
        " WHERE id = 0 AND at < current_timestamp() - INTERVAL 1 DAY"
    )
    await adelta.sql(
        f"MERGE INTO '{uri}' t USING new s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET at = now(), day = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        tables={"new": pa.table({"id": [1, 9]})},
    )
    changed = await times(uri, "id in (0, 1, 9)")
    assert len(changed) == 3
    assert min(changed) > dt.datetime.now(dt.UTC) - dt.timedelta(minutes=5)
    assert await times(uri, "id in (2, 3)") == [old, old]


async def test_a_column_gets_such_a_default_and_a_constraint_may_not_have_one(uri: str) -> None:
    await adelta.change_column(uri, "at", default="now() - INTERVAL 1 HOUR")
    await adelta.write_table(uri, pa.table({"id": [1], "day": [dt.date(2020, 1, 1)]}))
    async with adelta.open_table(uri) as table:
        (at,) = (await (await table.snapshot()).scan(columns=["at"]).to_arrow())["at"].to_pylist()
    ago = dt.datetime.now(dt.UTC) - at
    assert dt.timedelta(hours=1) <= ago < dt.timedelta(hours=1, minutes=5)
    with pytest.raises(InvalidExpressionError, match="another one from call to call"):
        await adelta.sql(f"ALTER TABLE '{uri}' ADD CONSTRAINT past CHECK (at < now())")
