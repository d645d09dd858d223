"""One exit status for one kind of mistake, whichever command it is made with."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adelta import errors
from adelta.cli.exit_status import STATUSES, exit_status
from adelta.cli.main import command_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Run

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
ROW = re.compile(r"^\| (\d+) \| .* \| (.*) \|$", re.MULTILINE)
NEEDED = {
    "create": ["--like", "{trips}"],
    "delete": ["--all"],
    "update": ["--set", "km=1", "--all"],
    "write": ["{trips}"],
    "alter": ["set-properties", "delta.appendOnly=false"],
    "clone": ["elsewhere"],
    "consume": ["--to", "{trips}-copy", "--no-follow"],
    "merge": ["{trips}", "--on", "true", "--insert-all"],
    "replace-matching": ["{trips}", "--using", "km"],
    "restore": ["--version", "0"],
}
"""What a command asks for beside the address, where a table is."""


def commands() -> Iterator[tuple[str, set[str]]]:
    """Every command that takes a table's address, and its options."""
    parser = command_parser()
    (subparsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for name, subparser in subparsers.choices.items():
        if any(action.dest == "uri" for action in subparser._actions):
            yield name, {o for action in subparser._actions for o in action.option_strings}


COMMANDS = dict(commands())
NEEDS_NO_TABLE = {"convert", "create", "lake", "write"}


def needed(command: str, trips: Path) -> list[str]:
    return [text.format(trips=trips) for text in NEEDED.get(command, [])]


def with_option(option: str) -> list[str]:
    return [name for name, options in COMMANDS.items() if option in options]


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - NEEDS_NO_TABLE))
def test_a_table_that_is_not_there_is_1(
    run: Run, trips: Path, tmp_path: Path, command: str
) -> None:
    status, out, err = run(command, tmp_path / "nothing", *needed(command, trips))
    assert (status, out, err.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("command", with_option("--option"))
def test_a_storage_option_that_is_not_known_is_2(run: Run, trips: Path, command: str) -> None:
    misspelt = ["--option", "aws_regoin=eu-west-1"]
    status, out, err = run(command, trips, *misspelt, *needed(command, trips))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "aws_region" in err  # what may have been meant


@pytest.mark.parametrize("command", with_option("--version"))
def test_a_version_that_is_not_there_is_1(run: Run, trips: Path, command: str) -> None:
    beside = [] if command == "restore" else needed(command, trips)
    status, out, err = run(command, trips, *beside, "--version", 9)
    assert (status, out, err.count("\n")) == (1, "", 1)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (command, option)
        for option in ("--columns", "--where", "--zorder-by")
        for command in with_option(option)
        if command != "create"
    ],
)
def test_a_column_that_is_not_there_is_2(run: Run, trips: Path, command: str, option: str) -> None:
    given = "nope = 1" if option == "--where" else "nope"
    beside = [text for text in needed(command, trips) if text != "--all"]
    status, out, err = run(command, trips, *beside, option, given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "nope" in err


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        ("selec 1", 2),
        ("DELETE FROM delta.`{trips}` WHERE nope = 1", 2),
        ("DELETE FROM delta.`{trips}/no`", 1),
    ],
)
def test_statements_have_the_same(run: Run, trips: Path, statement: str, status: int) -> None:
    assert run("sql", statement.format(trips=trips))[0] == status


def test_every_error_has_a_status_which_the_page_tells() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    direct = {kind for kind in kinds if errors.AdeltaError in kind.__bases__}
    assert direct | {errors.AdeltaError} == set(STATUSES)
    told = {
        name: int(status)
        for status, names in ROW.findall(PAGE.read_text(encoding="utf-8"))
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told == {kind.__name__: status for kind, status in STATUSES.items()}
    assert exit_status(errors.ConcurrentAppendError("x")) == 1
    assert exit_status(errors.CommitNotDurableError("x")) == 1
