"""What adelta writes, other engines read the same: every kind of table and log, by each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync
from tests.interoperability.conftest import check_reading, ours
from tests.interoperability.engines import ENGINES
from tests.interoperability.limits import LIMITS
from tests.interoperability.rows import counted
from tests.interoperability.tables import KINDS
from tests.support.second_opinion import compare_readers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interoperability.conftest import Engines

EARLIER = {"log compactions": 5, "log compactions after a checkpoint": 10, "change data feed": 4}
FEEDS = ("change data feed", "change data feed with deletion vectors")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_what_adelta_reads(
    engine: str,
    kind: str,
    engines: Engines,
    answers: dict[str, dict[str, pa.Table | str]],
    expected: dict[str, pa.Table],
) -> None:
    check_reading(engines[engine], kind, answers[engine][kind], expected[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_reader_reads_what_adelta_reads(kind: str, tables: dict[str, Path]) -> None:
    compare_readers(tables[kind])


@pytest.mark.parametrize("kind", EARLIER)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_an_earlier_version_as_adelta_does(
    engine: str, kind: str, engines: Engines, tables: dict[str, Path]
) -> None:
    version = EARLIER[kind]
    expected = ours(tables[kind], version)
    assert expected.num_rows != ours(tables[kind]).num_rows
    found = engines[engine].read(tables[kind], version)
    assert counted(found, expected.schema) == counted(expected, expected.schema)


@pytest.mark.parametrize("kind", FEEDS)
@pytest.mark.parametrize("engine", ["ClickHouse", "deltalake"])
def test_an_engine_reads_the_change_data_feed_as_adelta_does(
    engine: str, kind: str, engines: Engines, tables: dict[str, Path]
) -> None:
    with adelta.sync.open_table(str(tables[kind])) as table:
        feed = pa.Table.from_batches(list(adelta.sync.changes(table, 0)))
    told = feed.drop_columns(["_commit_timestamp"])
    found = engines[engine].changes(tables[kind]).select(told.column_names)
    assert counted(found, told.schema) == counted(told, told.schema)
    assert set(told["_change_type"].to_pylist()) == {
        "insert",
        "update_preimage",
        "update_postimage",
        "delete",
    }


def test_limits_are_of_engines_and_kinds_that_there_are() -> None:
    assert LIMITS.keys() <= set(ENGINES)
    turns = {f"turns with {engine}" for engine in ENGINES}
    turns |= {"turns of all", *(f"{turn} and deletion vectors" for turn in turns)}
    assert {kind for limits in LIMITS.values() for kind in limits} <= {*KINDS, *turns}
