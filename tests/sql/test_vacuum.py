"""VACUUM and RESTORE, by the operations."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
async def table(tmp_path: Path) -> Path:
    """A table of three versions, of which the last one has no rows; and a file of nobody's."""
    here = tmp_path / "t"
    await adelta.sql(f"CREATE TABLE '{here}' AS SELECT 1 AS id")
    await adelta.sql(f"INSERT INTO '{here}' VALUES (2)")
    await adelta.sql(f"DELETE FROM '{here}'")
    (here / "orphan.parquet").write_bytes(b"left")
    return here


async def test_files_that_nothing_needs_are_named_and_deleted(table):
    property = "delta.deletedFileRetentionDuration = 'interval 0 hours'"
    with pytest.raises(InvalidOptionError):
        await adelta.sql(f"VACUUM '{table}' RETAIN 0 HOURS")
    assert (await adelta.sql(f"VACUUM '{table}' RETAIN 168 HOURS DRY RUN")).num_rows == 0
    await adelta.sql(f"ALTER TABLE '{table}' SET TBLPROPERTIES ({property})")
    found = await adelta.sql(f"VACUUM '{table}' LITE DRY RUN")
    gone = {path.rpartition("/")[2] for path in found["path"].to_pylist()}
    assert gone >= {path.name for path in table.glob("part-*.parquet")}
    orphan = {
        "path": [f"{table}/orphan.parquet"],
        "length": [4],
        "isDir": [False],
        "modificationTime": [0],
    }
    text = "VACUUM t USING INVENTORY {} RETAIN 0 HOURS DRY RUN"
    tables = {"t": str(table), "files": pa.table(orphan)}
    for source in ("files", "(SELECT * FROM files)"):
        found = await adelta.sql(text.format(source), tables=tables)
        assert [path.rpartition("/")[2] for path in found["path"].to_pylist()] == ["orphan.parquet"]
    assert (await adelta.sql(f"VACUUM '{table}'"))["path"].to_pylist() == [f"file:{table}"]
    assert list(table.glob("*.parquet")) == []


async def test_a_table_becomes_what_it_was(table):
    moment = (await adelta.sql(f"DESCRIBE HISTORY '{table}'"))["timestamp"][1].as_py()
    done = await adelta.sql(f"RESTORE TABLE '{table}' TO VERSION AS OF 0")
    assert done["num_restored_files"].to_pylist() == [1]
    local = moment.astimezone(dt.timezone(dt.timedelta(hours=2))).replace(tzinfo=None)
    await adelta.sql(f"RESTORE '{table}' TIMESTAMP AS OF '{local}'", zone="+02:00")
    found = await adelta.sql(f"SELECT id FROM '{table}' ORDER BY id")
    assert found["id"].to_pylist() == [1, 2]
