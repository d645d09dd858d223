"""`adelta lake`, over tables on the local disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from tests.cli.test_commands import lines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

ROWS = pa.table({"id": [1]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two tables: one with a commit after its checkpoint, one without a checkpoint."""

    async def make() -> None:
        for name in ("sales/orders", "trips"):
            await adelta.write_table(tmp_path / name, ROWS)
        await adelta.write_table(tmp_path / "trips", ROWS)
        async with adelta.open_table(tmp_path / "trips") as table:
            await adelta.checkpoint(table)
        await adelta.write_table(tmp_path / "trips", ROWS)

    asyncio.run(make())
    return tmp_path


def test_each_table_is_told_with_how_far_it_is_behind_its_log(run: Run, lake: Path) -> None:
    status, out, err = run("lake", lake, "--json")
    assert (status, err) == (0, "")
    told = [
        (each["name"], each["version"], each["checkpointVersion"], each["commitsSinceCheckpoint"])
        for each in lines(out)
    ]
    assert told == [("sales/orders", 0, None, 1), ("trips", 2, 1, 1)]
    assert [each["location"] for each in lines(out)] == [
        (lake / name).as_uri() for name in ("sales/orders", "trips")
    ]
    status, out, _ = run("lake", lake)
    assert status == 0
    assert "trips" in out
    status, out, _ = run("lake", lake, "--depth", 1, "--json")
    assert [each["name"] for each in lines(out)] == ["trips"]


def test_a_folder_without_tables_says_so_and_a_table_is_refused(run: Run, lake: Path) -> None:
    (lake / "empty").mkdir()
    status, out, _ = run("lake", lake / "empty")
    assert (status, "No table below" in out) == (0, True)
    assert run("lake", lake / "empty", "--json")[1] == ""
    status, _, err = run("lake", lake / "trips")
    assert (status, "is a table" in err) == (1, True)


def test_changes_are_followed_from_all_tables_that_are_there_on(run: Run, lake: Path) -> None:
    _, out, _ = run("lake", lake, "--follow", "--poll", 0.01, "--limit", 2, "--json")
    told = [(each["kind"], each["name"], each["version"]) for each in lines(out)]
    assert told == [("added", "sales/orders", 0), ("added", "trips", 2)]
    _, out, _ = run("lake", lake, "--follow", "--limit", 1)
    assert "added  sales/orders: version 0" in out


def test_every_table_that_fails_is_told_after_the_others(run: Run, lake: Path) -> None:
    for name in ("bad", "worse"):
        (lake / name).mkdir()
        (lake / name / "_delta_log").symlink_to("/etc")  # leads out of the lake
    status, out, err = run("lake", lake, "--json")
    found = lines(out)
    assert [each["name"] for each in found] == ["sales/orders", "trips", "bad", "worse"]
    assert {each["kind"] for each in found[2:]} == {"failed"}
    assert status != 0
    assert "allowed_roots" in err


@pytest.mark.parametrize("poll", ["0", "-1", "soon", "inf", "nan"])
def test_a_time_between_looks_that_is_none_is_bad_usage(run: Run, lake: Path, poll: str) -> None:
    assert run("lake", lake, "--follow", f"--poll={poll}")[0] == 2
