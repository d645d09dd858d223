"""`adelta changes`, over a table on the local disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import deltalake
import pyarrow as pa
import pytest

import adelta
from tests.cli.test_commands import lines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


@pytest.fixture
def fed(tmp_path: Path) -> str:
    """Two rows inserted, then replaced by one."""
    uri = str(tmp_path / "fed")
    schema = pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string())})
    feed = {"delta.enableChangeDataFeed": "true"}
    for ids, mode in (([], "append"), ([1, 2], "append"), ([3], "overwrite")):
        rows = pa.table({"id": ids, "tags": [["a"]] * len(ids)}, schema)
        deltalake.write_deltalake(uri, rows, mode=mode, configuration=feed)
    return uri


def test_every_change_is_told_in_order(run: Run, fed: str) -> None:
    status, out, err = run("changes", fed, "--json")
    assert (status, err) == (0, "")
    told = [(row["_commit_version"], row["_change_type"], row["id"]) for row in lines(out)]
    assert told[:2] == [(1, "insert", 1), (1, "insert", 2)]
    assert sorted(told[2:]) == [(2, "delete", 1), (2, "delete", 2), (2, "insert", 3)]


def test_the_range_and_the_columns_can_be_chosen(run: Run, fed: str) -> None:
    _, out, _ = run("changes", fed, "--since", 1, "--until", 1, "--columns", "id", "--json")
    assert [set(row) for row in lines(out)] == [
        {"id", "_change_type", "_commit_version", "_commit_timestamp"}
    ] * 2
    _, out, _ = run("changes", fed, "--until", "2999-01-01", "--json")
    assert out == ""


def test_a_time_begins_with_the_first_version_after_it(run: Run, fed: str) -> None:
    _, out, _ = run("changes", fed, "--since", "2001-01-01T00:00:00Z", "--json", "--limit", 1)
    assert [row["id"] for row in lines(out)] == [1]


def test_people_see_a_table(run: Run, fed: str) -> None:
    status, out, _ = run("changes", fed, "--limit", 2)
    assert status == 0
    assert out.split()[:3] == ["id", "tags", "_change_type"]
    assert out.count("insert") == 2
    assert "No row" in run("changes", fed, "--until", 0)[1]


def test_a_table_without_a_feed_says_so(run: Run, tmp_path: Path) -> None:
    anyio.run(partial(adelta.write_table, str(tmp_path / "t"), pa.table({"id": [1]})))
    status, out, err = run("changes", tmp_path / "t")
    assert (status, out) == (1, "")
    assert "delta.enableChangeDataFeed" in err


@pytest.mark.parametrize("bounds", [["--since", "yesterday"], ["--since=-1"]])
def test_a_bound_that_is_none_is_bad_usage(run: Run, fed: str, bounds: list[str]) -> None:
    assert run("changes", fed, *bounds)[0] == 2
