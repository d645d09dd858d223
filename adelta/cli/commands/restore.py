"""Make a table what it was at an earlier version, by a commit of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, natural, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import camel_case, counted, size

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--version", type=natural, metavar="N", help="restore the version N")
    which.add_argument("--timestamp", metavar="TIME", help="restore what it was at a time")
    parser.add_argument(
        "--ignore-missing", action="store_true", help="leave out files that are gone"
    )
    parser.add_argument(
        "--allow-protocol-downgrade",
        action="store_true",
        help="give the table the protocol of that version, too: clients that know no more than it "
        "come upon later versions in its history",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would come and go, and what is gone"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Restore, and say what came and went."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            done = await adelta.restore(
                table,
                version=arguments.version,
                timestamp=arguments.timestamp,
                ignore_missing=arguments.ignore_missing,
                protocol_downgrade_allowed=arguments.allow_protocol_downgrade,
                dry_run=arguments.dry_run,
                on_progress=on_progress,
            )
    if output.as_json:
        output.line(camel_case(done))
        return
    for path in done.missing_files:
        output.raw(path)
    verb = "Would restore" if done.dry_run else "Restored"
    came, went = counted(done.num_restored_files, "file"), counted(done.num_removed_files, "file")
    left = f" {counted(len(done.missing_files), 'file')} gone." if done.missing_files else ""
    output.say(
        f"{verb} version {done.restored_version}: {came} of {size(done.restored_files_size)} back, "
        f"{went} of {size(done.removed_files_size)} out.{left}"
    )
