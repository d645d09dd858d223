"""What people and programs see."""

from __future__ import annotations

import datetime as dt

import pytest

from adelta.console.render import Output, counted, plain, size


def test_a_control_character_in_the_data_never_reaches_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output()
    output.table(["na\x1bme"], [["\x1b[31mred\x1b[0m"], ["two\nlines"]])
    output.record({"key\x07": "\x9b31m"})
    output.say("\x1b]0;title\x07")
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\x9b" not in printed
    assert "\x07" not in printed
    assert "\\x1b[31mred\\x1b[0m" in printed
    assert "two\\nlines" in printed


def test_brackets_in_the_data_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.table(["[bold]"], [["[red]x[/red]"]])
    output.say("[link=x]")
    printed = capsys.readouterr().out
    assert "[bold]" in printed
    assert "[red]x[/red]" in printed
    assert "[link=x]" in printed


def test_a_line_is_not_folded_where_nobody_looks_at_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().table(["path"], [["x" * 500]])
    assert "x" * 500 in capsys.readouterr().out


def test_a_missing_value_is_a_dash_and_an_empty_text_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().table(["a", "b"], [[None, ""]])
    assert capsys.readouterr().out.splitlines()[-2].split() == ["-"]


def test_a_record_for_a_program_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).record({"at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "n": None})
    assert capsys.readouterr().out == '{"at":"2024-01-02T00:00:00Z","n":null}\n'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "yes"),
        (1234567, "1234567"),
        ({"a": 1, "b": ["x", "y"]}, "a=1, b=x, y"),
        (dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2024-01-02 03:04:05 UTC"),
    ],
)
def test_a_value_is_written_as_a_person_would(value: object, expected: str) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 files"), (1, "1 file"), (12345, "12,345 files")]
)
def test_things_are_counted_as_a_person_would(number: int, expected: str) -> None:
    assert counted(number, "file") == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (None, None),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**30, "5.0 GiB"),
        (3 * 2**50, "3072.0 TiB"),
    ],
)
def test_a_size_is_said_in_the_unit_that_suits_it(count: int | None, expected: str | None) -> None:
    assert size(count) == expected
