"""Every command, over a real table on the local disk."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import adelta

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def lines(out: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in out.splitlines()]


def test_show_tells_where_a_table_stands(run: Run, trips: Path) -> None:
    status, out, err = run("show", trips)
    assert (status, err) == (0, "")
    for expected in ("version", "rows", "4", "partitioned by", "city", "double", "partition"):
        assert expected in out


def test_show_tells_a_program_the_same(run: Run, trips: Path) -> None:
    status, out, _ = run("show", trips, "--json")
    (page,) = lines(out)
    assert status == 0
    assert (page["version"], page["numRows"], page["numFiles"]) == (2, 4, 4)
    assert page["partitionColumns"] == ["city"]
    assert page["location"].endswith("/trips")


def test_show_takes_an_earlier_version(run: Run, trips: Path) -> None:
    _, out, _ = run("show", trips, "--version", 0, "--json")
    assert lines(out)[0]["numRows"] == 2


def test_show_takes_a_time(run: Run, trips: Path) -> None:
    _, out, _ = run("history", trips, "--json")
    newest, *_ = lines(out)
    _, out, _ = run("show", trips, "--timestamp", newest["timestamp"], "--json")
    assert lines(out)[0]["version"] == 2


def test_files_lists_every_live_file(run: Run, trips: Path) -> None:
    status, out, _ = run("files", trips, "--json")
    files = lines(out)
    assert status == 0
    assert sorted(file["partitionValues"]["city"] for file in files) == [
        "Bern", "Bern", "Oslo", "Rome",
    ]  # fmt: skip
    assert sum(file["stats"]["numRecords"] for file in files) == 4
    assert all((trips / file["path"]).stat().st_size == file["size"] for file in files)


def test_files_keeps_those_that_may_match(run: Run, trips: Path) -> None:
    _, out, _ = run("files", trips, "--where", "city = 'Oslo'")
    assert "city=Oslo" in out
    assert "city=Bern" not in out
    assert "1 file\n" in out


def test_files_says_how_many_it_left_out(run: Run, trips: Path) -> None:
    _, out, _ = run("files", trips, "--limit", 1)
    assert "1 of 4 files" in out


def test_schema_lists_the_columns(run: Run, trips: Path) -> None:
    _, out, _ = run("schema", trips)
    assert [line.split() for line in out.strip().splitlines()[-2:]] == [
        ["city", "string", "partition"],
        ["km", "double", "-"],
    ]


def test_schema_tells_a_program_what_the_log_holds(run: Run, trips: Path) -> None:
    _, out, _ = run("schema", trips, "--json")
    (schema,) = lines(out)
    assert schema["type"] == "struct"
    assert [field["name"] for field in schema["fields"]] == ["city", "km"]


def test_detail_bears_the_names_of_describe_detail(run: Run, trips: Path) -> None:
    _, out, _ = run("detail", trips, "--json")
    (detail,) = lines(out)
    assert detail["format"] == "delta"
    assert detail["numFiles"] == 4
    assert detail["partitionColumns"] == ["city"]
    assert run("detail", trips)[0] == 0


def test_history_is_newest_first(run: Run, trips: Path) -> None:
    _, out, _ = run("history", trips, "--json")
    assert [commit["version"] for commit in lines(out)] == [2, 1, 0]
    _, out, _ = run("history", trips, "--limit", 1)
    assert "WRITE" in out


def test_read_shows_a_page_to_people(run: Run, trips: Path) -> None:
    _, out, _ = run("read", trips, "--columns", "km,city", "--where", "city <> 'Rome'")
    heading = out.splitlines()[1].split()
    assert heading == ["km", "city"]
    assert "Rome" not in out
    assert "12.0" in out


def test_read_gives_a_program_every_row(run: Run, trips: Path) -> None:
    _, out, _ = run("read", trips, "--json")
    assert sorted(lines(out), key=str) == sorted(
        [
            {"city": "Bern", "km": 3.5},
            {"city": "Bern", "km": 7.25},
            {"city": "Oslo", "km": 12.0},
            {"city": "Rome", "km": None},
        ],
        key=str,
    )


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (3, 3), (9, 4)])
def test_read_stops_at_the_limit(run: Run, trips: Path, limit: int, rows: int) -> None:
    _, out, _ = run("read", trips, "--json", "--limit", limit)
    assert len(lines(out)) == rows


def test_tail_tells_of_every_commit_in_order(run: Run, trips: Path) -> None:
    _, out, _ = run("tail", trips, "--since", 0, "--no-follow", "--json")
    commits = lines(out)
    assert [commit["version"] for commit in commits] == [0, 1, 2]
    assert [commit["addedFiles"] for commit in commits] == [2, 1, 1]
    _, out, _ = run("tail", trips, "--since", 1, "--limit", 1)
    assert out.split()[0] == "1"


def test_tail_of_what_has_happened_already_says_nothing(run: Run, trips: Path) -> None:
    assert run("tail", trips, "--since", "latest", "--no-follow") == (0, "", "")


def test_tail_begins_where_it_does_in_python(run: Run, trips: Path) -> None:
    _, out, _ = run("tail", trips, "--no-follow", "--json")
    begins = inspect.signature(adelta.tail).parameters["since"].default
    assert lines(out)[0]["version"] == begins == 0


@pytest.mark.parametrize(
    "command", ["show", "files", "schema", "detail", "history", "read", "tail"]
)
def test_a_table_that_is_not_there_is_one_line_and_status_1(
    run: Run, tmp_path: Path, command: str
) -> None:
    status, out, err = run(command, tmp_path / "nothing")
    assert status == 1
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("adelta: ")
    assert "nothing" in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["paint", "x"],
        ["show"],
        ["show", "x", "--version", "-1"],
        ["show", "x", "--version", "1", "--timestamp", "2024-01-01"],
        ["show", "x", "--option", "novalue"],
        ["read", "x", "--limit", "many"],
        ["demo", "--scale", "0"],
    ],
)
def test_bad_usage_is_status_2(run: Run, arguments: list[str]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "usage: adelta" in err


def test_a_scheme_that_is_not_known_is_bad_usage(run: Run) -> None:
    status, _, err = run("show", "gopher://lake/table")
    assert status == 2
    assert "gopher" in err


def test_an_expression_that_does_not_fit_is_bad_usage(run: Run, trips: Path) -> None:
    status, _, err = run("read", trips, "--where", "speed > 3")
    assert status == 2
    assert "speed" in err


def test_a_version_that_is_not_there_is_status_1(run: Run, trips: Path) -> None:
    status, _, err = run("show", trips, "--version", 9)
    assert status == 1
    assert "9" in err
