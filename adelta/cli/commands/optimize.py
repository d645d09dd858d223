"""Write files of a table anew, larger or in a better order; no row changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, interval, open_table, positive
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted, size

if TYPE_CHECKING:
    import argparse

    from adelta import OptimizeMetrics

__all__ = ["configure", "run", "tell"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("--where", metavar="PREDICATE", help="these partitions alone")
    parser.add_argument(
        "--zorder-by",
        action="append",
        metavar="COLUMN",
        help="sort all rows by this column, and others that are named likewise, at once",
    )
    parser.add_argument(
        "--full", action="store_true", help="cluster files again that other columns clustered"
    )
    parser.add_argument(
        "--target-size", type=positive, metavar="BYTES", help="how large files become"
    )
    parser.add_argument(
        "--min-file-size", type=positive, metavar="BYTES", help="files from this size on stay"
    )
    parser.add_argument(
        "--max-commit-interval",
        type=interval,
        metavar="TIME",
        help="commit what is done whenever so much time has passed, such as '10 minutes' (default: "
        "one commit at the end)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be written anew, and write nothing"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Write the files, and say how many there were and are."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            done = await adelta.optimize(
                table,
                where=arguments.where,
                zorder_by=arguments.zorder_by,
                full=arguments.full,
                target_size=arguments.target_size,
                min_file_size=arguments.min_file_size,
                max_commit_interval=arguments.max_commit_interval,
                dry_run=arguments.dry_run,
                on_progress=on_progress,
            )
    tell(done, output)


def tell(done: OptimizeMetrics, output: Output) -> None:
    """Print what was done."""
    if output.as_json:
        output.line(camel_case(done))
        return
    before = f"{counted(done.num_files_removed, 'file')} of {size(done.files_removed.total_size)}"
    if not done.num_files_removed:
        output.say("Nothing to do: there are no files that are worth writing anew.")
    elif done.dry_run:
        output.say(f"Would write {before} anew, in {counted(done.num_bins, 'group')}.")
    else:
        after = f"{counted(done.num_files_added, 'file')} of {size(done.files_added.total_size)}"
        output.say(f"Version {done.versions[-1]}: {before} became {after}.")
    if done.num_bins_lost:
        output.say(
            f"{counted(done.num_bins_lost, 'group')} of files stayed as they were, since other "
            "commits took rows from them meanwhile."
        )
