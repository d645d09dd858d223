"""Write a checkpoint of the latest version, so that the table opens without the commits before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted, size

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Write it, and say what is in it."""
    with progress_bar() as bar:
        async with open_table(arguments, write=True) as table:
            written = await adelta.checkpoint(table, on_progress=bar)
    if output.as_json:
        output.line(camel_case(written))
        return
    output.say(
        f"Version {written.version}: wrote a checkpoint of {counted(written.num_files, 'file')}, "
        f"{counted(written.num_actions, 'action')} in {size(written.num_bytes)}."
    )
