"""Write symlink manifests, by which engines that read no log find a table's files."""

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


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Write them, and say how many there are."""
    with progress_bar() as bar:
        async with open_table(arguments, write=True) as table:
            done = await adelta.generate_manifest(table, on_progress=bar)
    if output.as_json:
        output.line(camel_case(done))
        return
    output.say(
        f"Version {done.version}: wrote {counted(done.num_manifests, 'manifest')} of "
        f"{counted(done.num_files, 'file')}, and removed {done.num_removed}."
    )
