"""Write files anew that hold deleted rows or dropped columns, so that no live file does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, open_table
from adelta.cli.commands.optimize import tell
from adelta.console.progress_bar import progress_bar

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("--where", metavar="PREDICATE", help="these partitions alone")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be written anew, and write nothing"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Write the files, and say how many there were and are."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            done = await adelta.reorg_purge(
                table, arguments.where, dry_run=arguments.dry_run, on_progress=on_progress
            )
    tell(done, output)
