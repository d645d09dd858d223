"""The blocking face over real tables."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync as adelta
from adelta.errors import InvalidUseError, TableNotFoundError, VersionNotFoundError
from tests.sync.test_exit import WARNINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    InChild = Callable[[Callable[[], Any]], Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(snapshot: adelta.Snapshot) -> list[int]:
    return sorted(snapshot.scan().to_arrow()["n"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the rows 1 and 2 in version 0, and 3 in version 1."""
    uri = str(tmp_path / "table")
    adelta.write_table(uri, rows(1, 2))
    adelta.write_table(uri, rows(3))
    return uri


def test_a_table_is_created_written_and_read_without_await(tmp_path: Path) -> None:
    with adelta.create_table(str(tmp_path / "t"), rows().schema, properties={}) as table:
        assert isinstance(table, adelta.Table)
        with table.transaction() as tx:
            tx.append(rows(1, 2, 3))
            tx.set_transaction("app", 7)
        assert tx.version == 1
        snapshot = table.snapshot()
        assert (snapshot.version, snapshot.schema) == (1, rows().schema)
        assert snapshot.files().num_rows == 1
        assert snapshot.scan(where="n > 1").count() == 2
        with snapshot.scan(columns=["n"], limit=2).batches() as batches:
            assert sum(batch.num_rows for batch in batches) == 2
        assert [entry.operation for entry in adelta.history(table)] == ["WRITE", "CREATE TABLE"]
        assert adelta.detail(table).num_files == 1


def test_errors_are_those_of_the_async_face(uri: str, tmp_path: Path) -> None:
    with adelta.open_table(uri) as table, pytest.raises(VersionNotFoundError):
        table.snapshot(version=9)
    with adelta.open_table(str(tmp_path / "none")) as table, pytest.raises(TableNotFoundError):
        table.snapshot()
    with pytest.raises(InvalidUseError, match="closed"):
        table.snapshot()


def test_tables_need_no_block(uri: str) -> None:
    assert numbers(adelta.open_table(uri).snapshot()) == [1, 2, 3]
    assert numbers(adelta.open_table(uri).snapshot(version=0)) == [1, 2]


def test_rows_flow_from_one_table_into_another_through_a_generator(
    uri: str, tmp_path: Path
) -> None:
    def doubled() -> Iterator[pa.RecordBatch]:
        for batch in adelta.open_table(uri).snapshot().scan().batches():
            yield pa.record_batch({"n": pa.array([2 * n for n in batch["n"].to_pylist()])})

    def copy(index: int) -> list[int]:
        target = str(tmp_path / f"copy{index}")
        adelta.write_table(target, doubled())
        adelta.write_table(target, adelta.open_table(uri).snapshot().scan().batches())
        return numbers(adelta.open_table(target).snapshot())

    # More of them at once than there are worker threads for decoding.
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(copy, range(8))) == [[1, 2, 2, 3, 4, 6]] * 8


def test_an_error_of_a_generator_of_rows_leaves_the_table_as_it_was(uri: str) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(4).to_batches()
        raise ZeroDivisionError("in the generator")

    with adelta.open_table(uri) as table:
        with pytest.raises(ZeroDivisionError, match="in the generator"):
            adelta.write_table(table, broken())
        assert table.snapshot().version == 1


def test_the_log_is_tailed_without_await(uri: str) -> None:
    seen: list[int] = []
    caught_up = threading.Event()

    def follow() -> None:
        for commit in commits:
            seen.append(commit.version)
            if commit.version == 2:
                caught_up.set()

    with adelta.open_table(uri) as table:
        commits = adelta.tail(table, since=1, poll=0.05)
        thread = threading.Thread(target=follow)
        thread.start()
        adelta.write_table(table, rows(4))
        assert caught_up.wait(60)
        commits.close()
        thread.join(60)
        assert not thread.is_alive()
    assert seen == [1, 2]


def test_32_threads_append_to_one_table_that_they_share(uri: str) -> None:
    barrier = threading.Barrier(32)
    with adelta.open_table(uri) as table:

        def append(number: int) -> int:
            barrier.wait()
            with table.transaction() as tx:
                tx.append(rows(number))
            assert number in numbers(table.snapshot())
            return tx.version or 0

        with ThreadPoolExecutor(32) as threads:
            versions = list(threads.map(append, range(100, 132)))
        assert sorted(versions) == list(range(2, 34))
        assert numbers(table.snapshot()) == [1, 2, 3, *range(100, 132)]


def test_handles_made_before_a_fork_work_in_parent_and_child(uri: str, in_child: InChild) -> None:
    with adelta.open_table(uri) as table:
        snapshot = table.snapshot(version=0)
        scan = snapshot.scan(where="n = 2")

        def use() -> Any:
            adelta.write_table(table, rows(4))
            return (
                scan.to_arrow()["n"].to_pylist(),
                numbers(snapshot),
                table.snapshot().version,
                table.uri,
            )

        assert in_child(use) == ([2], [1, 2], 2, table.uri)
        assert table.snapshot().version == 2
        assert numbers(table.snapshot()) == [1, 2, 3, 4]


def _count(scan: adelta.Scan) -> tuple[int, int]:
    return os.getpid(), scan.count()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_handles_are_sent_to_worker_processes(uri: str, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform has no {method}")
    scan = adelta.open_table(uri).snapshot(version=0).scan()
    adelta.write_table(uri, rows(4))
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as processes:
        results = list(processes.map(_count, [scan] * 4))
    assert {count for _, count in results} == {2}
    assert os.getpid() not in {process for process, _ in results}


def test_a_pickled_table_carries_its_address_and_options_alone(uri: str) -> None:
    table = adelta.open_table(uri, {"timeout": "30s"})
    table.snapshot()
    copy = pickle.loads(pickle.dumps(table))
    assert (copy.uri, copy.storage_options) == (table.uri, table.storage_options)
    assert copy.snapshot().version == 1


def test_a_program_that_leaves_everything_open_exits_in_silence(uri: str) -> None:
    script = f"""
import adelta.sync as adelta, threading
table = adelta.open_table({uri!r})
batches = table.snapshot().scan().batches()
next(batches)
tx = table.transaction()
tx.__enter__()
tail = adelta.tail  # loaded here: what a thread still loads at the exit, Python reports
threading.Thread(target=lambda: list(tail(table)), daemon=True).start()
print(table.snapshot().version)
"""
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", script],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


async def test_the_face_works_inside_a_running_loop(uri: str) -> None:
    assert numbers(adelta.open_table(uri).snapshot()) == [1, 2, 3]
