"""Tables in Ray Data: read by a task a group of files, written in one commit.

Ray takes some seconds to start, and is not among what the tests install: where it is not there,
which is so in CI, these are skipped. They run behind ``pip install 'adelta[ray]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync
from adelta.errors import InvalidOptionError, SchemaMismatchError, TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ray: Any = pytest.importorskip("ray")
pytest.importorskip("ray.data")
delta: Any = pytest.importorskip("adelta.ray")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray itself, of one node, without what it shows."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def _table(path: Path) -> str:
    """A table of three files, whose ids are 0 to 8."""
    for start in range(0, 9, 3):
        rows = pa.table({"id": range(start, start + 3), "s": ["a", None, "c"]})
        adelta.sync.write_table(str(path), rows)
    return str(path)


def _rows(uri: str) -> list[dict[str, Any]]:
    with adelta.sync.open_table(uri) as table:
        return sorted(table.snapshot().scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_a_table_is_read_by_a_task_for_each_group_of_files(tmp_path: Path) -> None:
    uri = _table(tmp_path / "table")
    found = delta.read_delta(uri, ["id"], "id > 2", part_bytes=1)
    assert sorted(row["id"] for row in found.take_all()) == list(range(3, 9))
    source = delta.DeltaDatasource(uri, ["id"], "id > 2", part_bytes=1)
    tasks = source.get_read_tasks(1)
    assert len(tasks) == 2, "the file whose ids are too small is left out"
    assert [task.metadata.num_rows for task in tasks] == [None, None], "a predicate is not counted"
    assert source.estimate_inmemory_data_size() == sum(task.metadata.size_bytes for task in tasks)
    assert {task.schema for task in tasks} == {pa.schema([("id", pa.int64())])}
    with pytest.raises(TableNotFoundError):
        delta.read_delta(f"{uri}-none")


def test_rows_are_counted_without_being_read(tmp_path: Path) -> None:
    uri = _table(tmp_path / "table")
    assert delta.read_delta(uri, version=1).count() == 6
    (task,) = delta.DeltaDatasource(uri).get_read_tasks(1)
    assert task.metadata.num_rows == 9
    with adelta.sync.open_table(uri) as table:
        adelta.sync.set_properties(table, {"delta.enableDeletionVectors": "true"})
        adelta.sync.delete(table, "id = 4")
    (task,) = delta.DeltaDatasource(uri).get_read_tasks(1)
    assert task.metadata.num_rows == 8


def test_a_data_set_becomes_one_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    rows = ray.data.from_items(
        [{"id": n, "s": str(n % 2)} for n in range(10)], override_num_blocks=3
    )
    delta.write_delta(rows, uri, partition_by=["s"])
    assert [row["id"] for row in _rows(uri)] == list(range(10))
    delta.write_delta(rows.map_batches(_doubled, batch_format="pandas"), uri, mode="overwrite")
    assert [row["id"] for row in _rows(uri)] == list(range(0, 20, 2))
    with adelta.sync.open_table(uri) as table:
        assert table.snapshot().version == 1
        assert table.snapshot().partition_columns == ("s",)


def test_a_write_that_is_there_is_not_done_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    rows = ray.data.from_arrow(pa.table({"id": [1, 2]}))
    for version in (7, 7, 6):
        delta.write_delta(rows, uri, txn=("loader", version))
    broken = rows.map_batches(_break, batch_format="pyarrow")
    delta.write_delta(broken, uri, txn=("loader", 7), schema=pa.schema([("id", pa.int64())]))
    assert [row["id"] for row in _rows(uri)] == [1, 2]


def test_a_task_that_fails_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    uri = _table(tmp_path / "table")
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    broken = delta.read_delta(uri, part_bytes=1).map_batches(_break, batch_format="pyarrow")
    with pytest.raises(Exception, match="division by zero"):
        delta.write_delta(broken, uri, schema=schema)
    short = delta.read_delta(uri, ["id"])
    with pytest.raises(SchemaMismatchError, match="pass schema="):
        delta.write_delta(short, uri, schema=schema)
    with pytest.raises(InvalidOptionError, match="pass schema="):
        delta.write_delta(ray.data.from_items([]), uri)
    assert len(_rows(uri)) == 9


def _doubled(rows: Any) -> Any:
    return rows.assign(id=rows["id"] * 2)


def _break(rows: pa.Table) -> pa.Table:
    if rows.num_rows:
        1 / 0  # noqa: B018
    return rows
