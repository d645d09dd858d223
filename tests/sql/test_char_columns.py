"""Statements of sessions that compare columns of char(n) as Spark does."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import adelta
from adelta.sql.parse import parse_statement
from adelta.sql.run import run_statement
from adelta.sql.session import Session

FOUND = {
    "DELETE FROM t WHERE c = 'a'": 2,
    "UPDATE t SET v = 'x' WHERE t.c IN ('a', 'b')": 3,
    "MERGE INTO t USING s ON t.c = 'a' AND s.c = 'a' WHEN MATCHED THEN UPDATE SET v = 'y'": 2,
    "MERGE INTO t USING s ON t.c = s.c WHEN MATCHED THEN DELETE": 0,  # which is no char(n)
}


@pytest.mark.parametrize("statement", FOUND)
async def test_blanks_behind_texts_do_not_count(statement: str):
    place = f"memory://{uuid.uuid4()}"
    tables = {"t": f"{place}/t", "s": pa.table({"c": ["a"]})}
    await adelta.sql("CREATE TABLE t (c CHAR(3), v STRING)", tables=tables)
    await adelta.write_table(tables["t"], pa.table({"c": ["a", "a  ", "b", None]}))
    done = await run_statement(parse_statement(statement), Session(tables, pads_chars=True))
    assert done.to_pylist()[0]["num_affected_rows"] == FOUND[statement]
