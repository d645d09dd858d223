"""A table on a local disk that Spark and adelta write in turns, in many orders.

Spark is here what its file system leaves: files with checksums beside them. The same runs with
Hadoop's own classes in `tests/spark/test_hadoop_checksums.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import adelta.sync
from tests.support.depth import cases
from tests.support.hadoop_checksums import checksum_of, faults, keep_checksums, sums
from tests.support.shared_disk import Turns

if TYPE_CHECKING:
    from pathlib import Path

STEPS = cases(200, 30)


class CheckedFiles:
    """Files with checksums beside them."""

    def write(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        checksum_of(path).write_bytes(sums(data))

    def replace(self, path: Path, data: bytes) -> None:
        fresh = path.with_name(f".{path.name}.tmp")
        self.write(fresh, data)
        os.replace(fresh, path)
        os.replace(checksum_of(fresh), checksum_of(path))

    def delete(self, path: Path) -> None:
        checksum_of(path).unlink(missing_ok=True)
        path.unlink()

    def keep_checksums(self, root: Path) -> None:
        keep_checksums(root)


@pytest.mark.parametrize("seed", range(cases(20, 3)))
def test_no_order_of_writers_leaves_a_file_beside_the_checksum_of_another(
    tmp_path: Path, seed: int
) -> None:
    turns = Turns(CheckedFiles(), tmp_path / "t", seed)
    for _ in range(STEPS):
        turns.take()
        assert not faults(turns.root), turns.last
        assert turns.found() == turns.ids, turns.last
    assert not adelta.sync.fsck(turns.root, deep=True).problems
    adelta.sync.drop_table(turns.root)
    assert os.listdir(turns.root) == []
