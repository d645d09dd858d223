"""CONVERT TO DELTA, GENERATE and ANALYZE TABLE, by the operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_folder_of_parquet_files_becomes_a_table(tmp_path: Path):
    for part in (1, 2):
        folder = tmp_path / "t" / f"p={part}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [part], "s": [f"{part}"]}), folder / "f.parquet")
    named = f"parquet.`{tmp_path / 't'}`"
    with pytest.raises(InvalidOptionError):
        await adelta.sql(f"CONVERT TO DELTA {named} PARTITIONED BY (other INT)")
    await adelta.sql(f"CONVERT TO DELTA {named} NO STATISTICS PARTITIONED BY (p INT)")
    table = {"t": str(tmp_path / "t")}
    found = await adelta.sql("SELECT id, p FROM t WHERE p = 2", tables=table)
    assert found.to_pylist() == [{"id": 2, "p": 2}]
    assert await stats(tmp_path) == [None, None]
    await adelta.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS id", tables=table)
    assert all('"id":1' in text or '"id":2' in text for text in await stats(tmp_path))
    assert not any('"s":"1"' in text for text in await stats(tmp_path))
    await adelta.sql("ANALYZE TABLE t COMPUTE DELTA STATISTICS FOR ALL COLUMNS", tables=table)
    assert any('"s":"1"' in text for text in await stats(tmp_path))
    await adelta.sql("GENERATE symlink_format_manifest FOR TABLE t", tables=table)
    manifests = list((tmp_path / "t" / "_symlink_format_manifest").rglob("manifest"))
    assert len(manifests) == 2


async def stats(folder: Path) -> list[str]:
    async with adelta.open_table(str(folder / "t")) as table:
        return (await (await table.snapshot()).files())["stats"].to_pylist()


async def test_an_iceberg_table_says_itself_which_metadata_are_current(tmp_path: Path):
    with pytest.raises(InvalidOptionError, match="its catalog knows"):
        await adelta.sql(f"CONVERT TO DELTA iceberg.`{tmp_path}`")
