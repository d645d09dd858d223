"""Write what a run of commits leaves into one file, which readers may read instead of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, natural, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted, size

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("--start", type=natural, metavar="N", help="the first version to compact")
    parser.add_argument("--end", type=natural, metavar="N", help="the last version to compact")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Write the file, and say what it stands for."""
    with progress_bar() as bar:
        async with open_table(arguments, write=True) as table:
            written = await adelta.compact_log(
                table,
                start_version=arguments.start,
                end_version=arguments.end,
                on_progress=bar,
            )
    if output.as_json:
        output.line(camel_case(written))
    elif written.path is None:
        output.say(
            "There are no two commits, of those to be compacted, that leave anything: nothing to "
            "compact."
        )
    else:
        output.say(
            f"Compacted {counted(written.num_commits, 'commit')}, versions "
            f"{written.start_version} to {written.end_version}, into "
            f"{counted(written.num_actions, 'action')} of {size(written.num_bytes)}."
        )
