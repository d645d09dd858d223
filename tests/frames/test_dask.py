"""Tables in Dask: read by a task a group of files, written in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync
from adelta.errors import TableNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("adelta.dask")


def test_a_table_is_read_and_written(tmp_path: Path) -> None:
    uri, target = str(tmp_path / "table"), str(tmp_path / "target")
    for start in range(0, 9, 3):
        rows = pa.table({"id": range(start, start + 3), "s": ["a", None, "c"]})
        adelta.sync.write_table(uri, rows)
    frame = dask.read_delta(uri, where="id > 1", part_bytes=1)
    assert frame.npartitions == 3
    with_scheduler = {"scheduler": "sync"}
    assert sorted(frame["id"].compute(**with_scheduler)) == list(range(2, 9))
    assert list(dask.read_delta(uri, ["s"], version=0).columns) == ["s"]
    for mode, count in (("append", 7), ("append", 14), ("overwrite", 7)):
        dask.to_delta(frame, target, mode=mode)
        with adelta.sync.open_table(target) as table:
            snapshot = table.snapshot()
            assert snapshot.scan().count() == count
            assert snapshot.schema.field("s").type == pa.string()
    assert snapshot.version == 2, "a commit each"
    with pytest.raises(TableNotFoundError):
        dask.read_delta(f"{uri}-none")


def test_a_task_that_fails_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for start in range(2):
        adelta.sync.write_table(uri, pa.table({"id": [start]}))
    frame = dask.read_delta(uri, part_bytes=1)
    broken = frame.map_partitions(_break, meta=frame._meta)
    with pytest.raises(ZeroDivisionError):
        dask.to_delta(broken, uri)
    with adelta.sync.open_table(uri) as table:
        assert table.snapshot().version == 1


def _break(rows: object) -> object:
    return 1 / 0
