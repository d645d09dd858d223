"""Delete a table: its rows, its history, and every file below its root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import camel_case, counted, size

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say how much would be deleted")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Delete, and say how much."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            done = await adelta.drop_table(
                table, dry_run=arguments.dry_run, on_progress=on_progress
            )
    if output.as_json:
        output.line(camel_case(done))
        return
    verb = "Would delete" if done.dry_run else "Deleted"
    output.say(
        f"{verb} {counted(done.num_files, 'file')} of {size(done.num_bytes)}, and "
        f"{counted(done.num_log_files, 'file')} of the log."
    )
