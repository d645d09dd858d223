"""Compute statistics for the files of a table that lack them, so that queries can skip files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument(
        "--column",
        dest="columns",
        metavar="NAME",
        action="append",
        help="a column to have statistics, dotted below structs; may be repeated",
    )
    parser.add_argument("--where", metavar="SQL", help="only files that may hold such rows")
    parser.add_argument("--dry-run", action="store_true", help="count the files, read nothing")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Compute them, and say of how many files."""
    async with open_table(arguments, write=True) as table:
        with progress_bar() as bar:
            done = await adelta.analyze(
                table,
                columns=arguments.columns,
                where=arguments.where,
                dry_run=arguments.dry_run,
                on_progress=bar,
            )
    if output.as_json:
        output.line(camel_case(done))
        return
    lacking = f"{done.num_files_lacking:,} of {counted(done.num_files, 'file')} lacked statistics"
    if done.version is None:
        output.say(f"{lacking}; nothing was written.")
    else:
        updated = counted(done.num_files_updated, "file")
        output.say(f"{lacking}. Version {done.version} has those of {updated}.")
