"""Operations on a local disk where Spark has kept checksum files beside the files of a table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, commit_path
from tests.support.hadoop_checksums import (
    checksum_of,
    contradictions,
    faults,
    keep_checksums,
    orphans,
    sums,
)
from tests.support.shared_disk import LIVES, at_once

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.mark.parametrize("life", LIVES)
async def test_no_checksum_contradicts_a_file_or_is_left_without_one(
    tmp_path: Path, life: str
) -> None:
    kept = 0

    def keep(root: Path) -> None:
        nonlocal kept
        assert not contradictions(root)
        keep_checksums(root)
        kept += 1

    await LIVES[life](tmp_path / "t", keep)
    assert kept
    assert not faults(tmp_path)
    if life == "drop":
        assert os.listdir(tmp_path / "t") == []


async def test_vacuum_counts_no_checksum_files(tmp_path: Path) -> None:
    root = tmp_path / "t"
    await adelta.write_table(root, ROWS)
    await adelta.write_table(root, ROWS, mode="overwrite")
    (root / ".gone.parquet.crc").write_bytes(sums(b""))
    keep_checksums(root)
    planned = await adelta.vacuum(root, dry_run=True, **at_once)
    done = await adelta.vacuum(root, **at_once)
    assert planned.num_files_to_delete == done.num_deleted_files == 1
    assert not orphans(root)


async def test_vacuum_leaves_a_young_checksum_without_a_file(tmp_path: Path) -> None:
    """Spark may be about to write the file."""
    root = tmp_path / "t"
    await adelta.write_table(root, ROWS)
    (root / ".young.parquet.crc").write_bytes(sums(b""))
    await adelta.vacuum(root)
    assert orphans(root) == [".young.parquet.crc"]


async def _outdated(root: Path) -> None:
    """A table whose files of the log contradict checksums, as earlier releases have left them."""
    await adelta.write_table(root, ROWS)
    await adelta.checkpoint(root)
    keep_checksums(root)
    checksum_of(root / LAST_CHECKPOINT_PATH).write_bytes(sums(b"earlier"))


async def test_fsck_reports_outdated_checksums_and_a_repair_deletes_them(tmp_path: Path) -> None:
    root = tmp_path / "t"
    await _outdated(root)
    found = await adelta.fsck(root)
    (problem,) = found.unrepaired
    assert (problem.kind, problem.path) == ("hadoop checksum", "_delta_log/._last_checkpoint.crc")
    assert "Spark cannot read" in problem.message
    repaired = await adelta.fsck(root, dry_run=False)
    assert repaired.unrepaired == ()
    assert repaired.deleted_checksums == ("_delta_log/._last_checkpoint.crc",)
    assert repaired.repaired_version is None
    assert not faults(root)
    assert checksum_of(root / commit_path(0)).exists(), "the others are right"
    assert not (await adelta.fsck(root)).problems


async def test_a_deep_fsck_keeps_data_files_and_checksums_that_disagree(tmp_path: Path) -> None:
    root = tmp_path / "t"
    await _outdated(root)
    (data,) = root.glob("*.parquet")
    checksum_of(data).write_bytes(sums(b"other bytes"))
    assert [p.path for p in (await adelta.fsck(root)).problems] == [
        "_delta_log/._last_checkpoint.crc"
    ]
    report = await adelta.fsck(root, deep=True, dry_run=False)
    (problem,) = report.unrepaired
    assert (problem.kind, problem.path) == ("hadoop checksum", checksum_of(data).name)
    assert "one of the two is damaged" in problem.message
    assert checksum_of(data).exists()
