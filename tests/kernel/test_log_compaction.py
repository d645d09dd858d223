"""Which files stand for a run of commits, and which only look as if they did."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.actions.json import decode_actions
from adelta.kernel.log_compaction import files_to_read, is_reconciled
from adelta.kernel.log_path import LogPath, commit_path, compaction_path, parse_log_path
from tests.support.logs import Line, add, metadata, protocol, remove, txn

ROOT = "memory://lake/t"


def commits(first: int, last: int) -> list[LogPath]:
    found = [parse_log_path(commit_path(v), 1) for v in range(first, last + 1)]
    return [path for path in found if path]


def compactions(*ranges: tuple[int, int]) -> list[LogPath]:
    found = [parse_log_path(compaction_path(*one), 1) for one in ranges]
    return [path for path in found if path]


def spans(files: tuple[LogPath, ...]) -> list[tuple[int, int]]:
    return [
        (file.version if file.start_version is None else file.start_version, file.version)
        for file in files
    ]


def test_the_longest_compaction_stands_for_its_commits() -> None:
    chosen = files_to_read(commits(3, 9), compactions((4, 6), (4, 8)))
    assert spans(chosen) == [(3, 3), (4, 8), (9, 9)]


@pytest.mark.parametrize("outside", [(1, 4), (8, 12), (0, 20)])
def test_a_compaction_that_straddles_an_end_of_the_range_is_not_read(
    outside: tuple[int, int],
) -> None:
    assert spans(files_to_read(commits(3, 9), compactions(outside))) == [
        (v, v) for v in range(3, 10)
    ]


def test_nothing_stands_for_no_commits() -> None:
    assert files_to_read([], compactions((0, 3))) == ()


@given(
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 25), st.integers(1, 10)).map(lambda r: (r[0], sum(r)))),
)
def test_every_version_is_read_once(first: int, length: int, ranges: list[tuple[int, int]]) -> None:
    chosen = files_to_read(commits(first, first + length), compactions(*ranges))
    covered = [v for start, end in spans(chosen) for v in range(start, end + 1)]
    assert covered == list(range(first, first + length + 1))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([protocol(), metadata(), add("a"), remove("b"), txn("x", 1)], True),
        ([remove("b")], True),
        ([txn("x", 1)], True),
        ([protocol()], True),
        ([], False),
        ([add("a"), remove("a")], False),
        ([add("a b"), add("a%20b")], False),
        ([txn("x", 1), txn("x", 2)], False),
        ([metadata(), metadata()], False),
    ],
)
def test_a_compaction_names_something_and_each_once(lines: list[Line], expected: bool) -> None:
    data = b"\n".join(map(orjson.dumps, lines))
    assert is_reconciled(decode_actions(data, 7, "x.compacted.json"), ROOT) is expected
