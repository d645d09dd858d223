"""Statistics that are parsed once, however often they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.kernel.data_skipping import known_statistics, stats_parse
from adelta.kernel.data_skipping.known_statistics import KnownStatistics
from adelta.kernel.data_skipping.statistic import Statistic
from adelta.kernel.schema import types as t
from adelta.storage.memory import MemoryStore
from adelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = Statistic(("minValues", "a"), ("minValues", "a"), t.LONG)
MOST = Statistic(("maxValues", "a"), ("maxValues", "a"), t.STRING)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of how many files how many statistics were parsed, each time."""
    seen: list[tuple[int, int]] = []
    parse = stats_parse.parse_stats

    def counted(texts: Any, statistics: Sequence[Statistic]) -> Any:
        seen.append((len(texts), len(statistics)))
        return parse(texts, statistics)

    monkeypatch.setattr(stats_parse, "parse_stats", counted)
    return seen


def texts(*numbers: int) -> pa.ChunkedArray[Any]:
    made = [f'{{"minValues":{{"a":{n}}},"maxValues":{{"a":"{n}"}}}}' for n in numbers]
    return pa.chunked_array([[one] for one in made], pa.string())


def test_each_is_parsed_once(parsed: list[tuple[int, int]]) -> None:
    known = KnownStatistics(texts(1, 2, 3))
    for _ in range(2):
        assert known.columns([LEAST])[LEAST.path].to_pylist() == [1, 2, 3]
    for _ in range(2):
        found = known.columns([LEAST, MOST])
        assert found[LEAST.path].to_pylist() == [1, 2, 3]
        assert found[MOST.path].to_pylist() == ["1", "2", "3"]
    assert parsed == [(3, 1), (3, 1)]


def test_of_a_longer_list_only_the_rest_is_parsed(parsed: list[tuple[int, int]]) -> None:
    known = KnownStatistics(texts(1, 2, 3))
    known.columns([LEAST])
    longer = known.continued(texts(1, 2, 3, 4)).continued(texts(1, 2, 3, 4, 5))
    found = longer.columns([MOST, LEAST])
    assert found[LEAST.path].to_pylist() == [1, 2, 3, 4, 5]
    assert found[MOST.path].to_pylist() == ["1", "2", "3", "4", "5"]
    assert known.columns([LEAST])[LEAST.path].to_pylist() == [1, 2, 3]
    assert parsed == [(3, 1), (5, 1), (2, 1)]


def test_what_takes_much_memory_is_not_kept(
    parsed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_statistics, "_MOST_BYTES", 30)
    known = KnownStatistics(texts(1, 2, 3))
    for _ in range(2):
        assert known.columns([LEAST])[LEAST.path].to_pylist() == [1, 2, 3]
        assert known.columns([MOST])[MOST.path].to_pylist() == ["1", "2", "3"]
    assert parsed == [(3, 1), (3, 1), (3, 1)]


def test_of_no_files_there_are_none() -> None:
    known = KnownStatistics(pa.chunked_array([], pa.string()))
    assert known.columns([LEAST])[LEAST.path].to_pylist() == []


async def test_a_read_parses_what_came_since_the_read_before(parsed: list[tuple[int, int]]) -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)

    async def append(number: int) -> None:
        await adelta.write_table(table, pa.table({"a": [number]}))

    async def find(number: int) -> list[int]:
        snapshot = await table.snapshot()
        assert (await snapshot.scan(where=f"a = {number}").files()).num_rows <= 1
        found = await snapshot.scan(where=f"a = {number}").to_arrow()
        return list(found.column("a").to_pylist())

    for number in range(5):
        await append(number)
    assert [await find(number) for number in (0, 4, 9)] == [[0], [4], []]
    assert parsed == [(5, 4)]
    await append(9)
    assert [await find(number) for number in (0, 9)] == [[0], [9]]
    assert parsed == [(5, 4), (1, 4)]
    await adelta.delete(table, "a = 2")
    await append(7)
    assert [await find(number) for number in (2, 3, 7, 9)] == [[], [3], [7], [9]]
    assert parsed[2:] == [(6, 4)], "the list does not begin as before"
