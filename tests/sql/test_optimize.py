"""OPTIMIZE and REORG, by the operations."""

from __future__ import annotations

import uuid

import pytest

import adelta
from adelta.errors import InvalidOptionError, InvalidStatementError


@pytest.fixture
async def uri() -> str:
    uri = f"memory://{uuid.uuid4()}/t"
    await adelta.sql(f"CREATE TABLE '{uri}' (id BIGINT, p INT) PARTITIONED BY (p)")
    for number in range(4):
        await adelta.sql(f"INSERT INTO '{uri}' VALUES ({number}, {number % 2})")
    return uri


async def test_small_files_of_some_partitions_become_one(uri):
    found = await adelta.sql("OPTIMIZE t WHERE t.p = 1", tables={"t": uri})
    [row] = found.to_pylist()
    assert row["path"] == uri
    metrics = row["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 2)
    assert metrics["filesRemoved"]["totalFiles"] == 2
    assert (metrics["partitionsOptimized"], metrics["zOrderStats"]) == (1, None)
    found = await adelta.sql(f"OPTIMIZE '{uri}' ZORDER BY (id)")
    assert found["metrics"][0]["zOrderStats"]["numOutputCubes"].as_py() == 2
    history = await adelta.sql(f"DESCRIBE HISTORY '{uri}' LIMIT 2")
    assert history["operation"].to_pylist() == ["OPTIMIZE", "OPTIMIZE"]
    with pytest.raises(InvalidOptionError):
        await adelta.sql(f"OPTIMIZE '{uri}' WHERE id = 1")


async def test_what_was_deleted_is_purged(uri):
    await adelta.sql(f"ALTER TABLE '{uri}' SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    await adelta.sql(f"OPTIMIZE '{uri}'")
    await adelta.sql(f"DELETE FROM '{uri}' WHERE id = 1")
    found = await adelta.sql(f"REORG TABLE delta.`{uri}` APPLY (PURGE)")
    [row] = found.to_pylist()
    assert row["metrics"]["deletionVectorStats"]["numDeletionVectorRowsRemoved"] == 1
    with pytest.raises(InvalidStatementError, match="expected APPLY"):
        await adelta.sql(
            f"REORG TABLE '{uri}' APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))"
        )
