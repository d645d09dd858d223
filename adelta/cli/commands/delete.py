"""Delete rows of a table, by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_dry_run, add_rows, add_table, add_user_metadata, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_rows(parser)
    add_dry_run(parser)
    add_user_metadata(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Delete, and say how many rows are gone."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            done = await adelta.delete(
                table,
                arguments.where,
                dry_run=arguments.dry_run,
                user_metadata=arguments.user_metadata,
                on_progress=on_progress,
            )
    if output.as_json:
        output.line(camel_case(done))
    elif arguments.dry_run:
        rows = done.num_deleted_rows
        output.say(f"Would delete {'whole files' if rows is None else counted(rows, 'row')}.")
    elif done.version is None:
        output.say("There are no such rows.")
    elif done.num_deleted_rows is None:
        output.say(f"Version {done.version}: whole files are gone, which did not count their rows.")
    else:
        output.say(f"Version {done.version}: {counted(done.num_deleted_rows, 'row')} deleted.")
