"""Delete the files of a table that no version within the retention needs.

Names that begin with ``_`` or ``.`` stay, but for change data and folders of partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, interval, natural, open_table
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
        help="how long files are kept that have left the table, such as '7 days' (default: what "
        "the table says)",
    )
    parser.add_argument(
        "--lite",
        action="store_true",
        help="read the log alone, which finds what has left the table and nothing else",
    )
    parser.add_argument(
        "--no-enforce-retention",
        action="store_true",
        help="take a retention that is shorter than the table's own: nobody may use the table",
    )
    parser.add_argument(
        "--keep-version",
        dest="keep_versions",
        action="append",
        type=natural,
        default=[],
        metavar="N",
        help="keep what the version N is made of, however old it is; may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only print the paths of what would be deleted"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Delete, and say what."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            found = await adelta.vacuum(
                table,
                retention=arguments.retention,
                mode="lite" if arguments.lite else "full",
                dry_run=arguments.dry_run,
                enforce_retention=not arguments.no_enforce_retention,
                keep_versions=arguments.keep_versions,
                on_progress=on_progress,
            )
    if output.as_json:
        record = camel_case(found)
        record["files"] = found.files.column("path").to_pylist() if found.dry_run else []
        output.line(record)
        return
    if found.dry_run:
        for path in found.files.column("path"):
            output.raw(path.as_py())
    many = counted(found.num_files_to_delete if found.dry_run else found.num_deleted_files, "file")
    verb = "Would delete" if found.dry_run else "Deleted"
    output.say(f"{verb} {many} of {size(found.size_of_data_to_delete)}.")
