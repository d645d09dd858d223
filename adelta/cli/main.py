"""The `adelta` command: arguments in, one event loop, an exit status out.

The exit status says what kind of mistake was made (`adelta.cli.exit_status`). An error is one line
on standard error. A reader that closes the pipe early (``adelta read ... | head``) has seen enough,
which is no failure.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

__all__ = ["COMMANDS", "command_parser", "main"]

COMMANDS = {
    "show": "one page about a table",
    "files": "a table's data files",
    "schema": "a table's columns and their types",
    "detail": "one record about a table, as DESCRIBE DETAIL has it",
    "history": "who did what to a table, newest first",
    "read": "rows of a table",
    "query": "query tables in SQL",
    "sql": "run a statement of Delta Spark's SQL",
    "changes": "rows that commits changed",
    "tail": "a table's commits as they happen",
    "consume": "copy a table's rows, or hand them to a command, from a kept position on",
    "snapshots": "versions of several tables, of one moment",
    "lake": "the tables below a folder, and what becomes of them",
    "create": "create an empty table, or replace one",
    "write": "write rows of a file or another table into a table",
    "delete": "delete rows",
    "update": "set columns of rows",
    "merge": "merge rows of a file or another table into a table",
    "replace-matching": "put rows in the place of those that match them",
    "convert": "make a table of a folder of Parquet files",
    "alter": "change a table's properties, columns, constraints or features",
    "optimize": "write files anew, larger or in a better order",
    "reorg": "write files anew without deleted rows and dropped columns",
    "generate-manifest": "name a table's files for engines that read no log",
    "analyze": "compute statistics for files that lack them",
    "checkpoint": "write a checkpoint of the latest version",
    "compact-log": "compact the commits after the last checkpoint into one file",
    "cleanup-log": "delete expired commits and checkpoints",
    "vacuum": "delete files that no version within the retention needs",
    "restore": "make a table what it was at an earlier version",
    "clone": "make another table with the rows of one",
    "drop": "delete a table with all of its files",
    "serve": "run a commit owner, which decides on the commits of managed tables",
    "owner": "look after a commit owner: its tables, its backfill and its tokens",
    "cache": "look after the disk cache: what is in it, filling it, emptying it",
    "fsck": "check a table's log and files",
    "ui": "show tables in a browser",
    "completion": "what lets bash, zsh or fish complete arguments",
    "demo": "a Spark pipeline, an async service and a consumer over one lake of TPC-H data",
}
"""What each module of `adelta.cli.commands` is for; one alone is loaded, when it is asked for."""


def command_parser(asked: Container[str] = frozenset(COMMANDS)) -> argparse.ArgumentParser:
    """The parser; it knows the arguments of those commands that are `asked` for, by default all."""
    parser = argparse.ArgumentParser(
        prog="adelta", description="Look into Delta tables, and change them."
    )
    parser.add_argument("-V", "--version", action=_ShowVersion)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary)
        if name in asked:
            command = import_module(f"adelta.cli.commands.{name.replace('-', '_')}")
            subparser.description = command.__doc__
            command.configure(subparser)
            subparser.set_defaults(command=command)
    return parser


class _ShowVersion(argparse.Action):
    """Print the version, and leave: as argparse's own, but it is looked up only when asked."""

    def __init__(self, option_strings: Sequence[str], **_: object) -> None:
        nowhere = argparse.SUPPRESS
        super().__init__(
            option_strings, nowhere, nargs=0, default=nowhere, help="show the version and exit"
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from adelta._version import __version__

        print(f"adelta {__version__}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Bad usage ends in `SystemExit` with status 2, as argparse does it.
    """
    given = sys.argv[1:] if argv is None else argv
    asked = next((argument for argument in given if not argument.startswith("-")), None)
    arguments = command_parser(() if asked is None else (asked,)).parse_args(given)
    from adelta.cli.process import run_command  # the libraries, which help does without

    return run_command(arguments)
