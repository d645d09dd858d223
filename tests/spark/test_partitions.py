"""How the files of a scan become tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adelta.spark.source.partitions import OPEN_COST_BYTES, pack_files

MIB = 1 << 20


def test_no_files_are_no_tasks():
    assert pack_files([], max_bytes=MIB, min_partitions=4) == []


def test_small_files_share_a_task():
    assert pack_files([MIB] * 10, max_bytes=128 * MIB) == [list(range(10))]


def test_a_file_larger_than_a_task_is_a_task_of_its_own():
    assert sorted(pack_files([300 * MIB, MIB, MIB], max_bytes=128 * MIB)) == [[0], [1, 2]]


def test_small_tables_are_spread_over_the_cores():
    assert pack_files([MIB] * 4, max_bytes=128 * MIB, min_partitions=2) == [[0, 2], [1, 3]]
    assert len(pack_files([MIB], max_bytes=128 * MIB, min_partitions=8)) == 1


@given(
    st.lists(st.integers(0, 400 * MIB), max_size=60),
    st.integers(1, 300 * MIB),
    st.integers(1, 16),
)
def test_every_file_is_read_once_and_no_task_is_too_large(sizes, max_bytes, min_partitions):
    tasks = pack_files(sizes, max_bytes=max_bytes, min_partitions=min_partitions)
    assert sorted(i for task in tasks for i in task) == list(range(len(sizes)))
    assert len(tasks) >= min(min_partitions, len(sizes))
    for task in tasks:
        load = sum(sizes[i] + OPEN_COST_BYTES for i in task)
        assert task
        assert len(task) == 1 or load <= max_bytes
