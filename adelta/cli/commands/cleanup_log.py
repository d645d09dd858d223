"""Delete commits and checkpoints that the table's history no longer needs, and their like.

History is kept to the end of the day (UTC), for the table's own retention or the one given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, interval, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import camel_case, counted, size

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument(
        "--retention",
        type=interval,
        metavar="TIME",
        help="how long history is kept, such as '7 days' (default: what the table says)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only print the paths of what would be deleted"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Delete, and say what."""
    with progress_bar() as bar:
        async with open_table(arguments, write=True) as table:
            found = await adelta.cleanup_log(
                table,
                retention=arguments.retention,
                dry_run=arguments.dry_run,
                on_progress=bar,
            )
    if output.as_json:
        output.line(camel_case(found))
        return
    if found.dry_run:
        for path in found.paths:
            output.raw(path)
    verb = "Would delete" if found.dry_run else "Deleted"
    since = "" if found.first_version is None else f" History begins with {found.first_version}."
    output.say(f"{verb} {counted(found.num_files, 'file')} of {size(found.num_bytes)}.{since}")
