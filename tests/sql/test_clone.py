"""CREATE TABLE … CLONE, by the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import adelta
from adelta.errors import InvalidOptionError, TableAlreadyExistsError, TableNotFoundError

if TYPE_CHECKING:
    from pathlib import Path


async def ids(table: str) -> list[int]:
    found = await adelta.sql(f"SELECT id FROM {table} ORDER BY id")
    return found["id"].to_pylist()


async def test_a_clone_is_made_as_the_statement_says(tmp_path: Path) -> None:
    source, copy = f"'{tmp_path}/t'", f"delta.`{tmp_path}/copy`"
    await adelta.sql(f"CREATE TABLE {source} AS SELECT 1 AS id")
    await adelta.sql(f"INSERT INTO {source} VALUES (2)")
    done = await adelta.sql(
        f"CREATE TABLE {copy} DEEP CLONE {source} VERSION AS OF 0"
        " TBLPROPERTIES ('delta.appendOnly' = 'false', 'of' = 'mine')"
    )
    [row] = done.to_pylist()
    assert (row["source_num_of_files"], row["num_copied_files"]) == (1, 1)
    assert await ids(copy) == [1]
    with pytest.raises(TableAlreadyExistsError):
        await adelta.sql(f"CREATE TABLE {copy} CLONE {source}")
    again = await adelta.sql(f"CREATE TABLE IF NOT EXISTS {copy} CLONE {source}")
    assert (again.num_columns, await ids(copy)) == (0, [1])
    await adelta.sql(f"CREATE OR REPLACE TABLE {copy} CLONE {source}")
    assert await ids(copy) == [1, 2]
    other = f"{tmp_path}/other"
    with pytest.raises(TableNotFoundError, match="to replace"):
        await adelta.sql(f"REPLACE TABLE '{other}' SHALLOW CLONE {source}")
    with pytest.raises(InvalidOptionError, match="its location"):
        await adelta.sql(f"CREATE TABLE {copy} CLONE {source} LOCATION '{other}'")
    await adelta.sql(f"CREATE TABLE named SHALLOW CLONE {source} LOCATION '{other}'")
    async with adelta.open_table(other, allowed_roots=[str(tmp_path / "t")]) as table:
        assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 2
