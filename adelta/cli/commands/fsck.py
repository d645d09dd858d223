"""Whether everything is there that a table's log speaks of; exit status 1 where something is not.

Nothing is changed without --repair, which removes missing files from the table, and deletes
outdated checksum files of Hadoop's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, counted
from adelta.errors import InvalidTableError

if TYPE_CHECKING:
    import argparse

    from adelta.operations.fsck import FsckReport

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument(
        "--deep", action="store_true", help="read every page of every file, and every commit"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="remove missing files from the table, and delete outdated checksum files of Hadoop",
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print what was looked at and what is wrong.

    Raises:
        InvalidTableError: problems are left.
    """
    with progress_bar() as bar:
        async with open_table(arguments, write=arguments.repair) as table:
            report = await adelta.fsck(
                table, dry_run=not arguments.repair, deep=arguments.deep, on_progress=bar
            )
    if output.as_json:
        output.line(_for_a_program(report))
    else:
        _for_people(report, output)
    if left := len(report.unrepaired):
        missing = report.missing_files and report.repaired_version is None
        advice = "; --repair takes the missing files out of the table" if missing else ""
        if report.outdated_checksums and not arguments.repair:
            advice += "; --repair deletes outdated checksum files"
        raise InvalidTableError(f"{table.uri}: {counted(left, 'problem')} left{advice}")


def _for_a_program(report: FsckReport) -> dict[str, object]:
    return {
        "version": report.version,
        "numCommits": report.num_commits,
        "numCheckpoints": report.num_checkpoints,
        "numFiles": report.num_files,
        "numDeletionVectors": report.num_deletion_vectors,
        **({} if report.num_pages is None else _pages(report)),
        "problems": [
            {"kind": p.kind, "path": p.path, "message": p.message} for p in report.problems
        ],
        "repairedVersion": report.repaired_version,
        "deletedChecksums": list(report.deleted_checksums),
    }


def _pages(report: FsckReport) -> dict[str, int | None]:
    return {"numPages": report.num_pages, "numPagesUnchecked": report.num_pages_unchecked}


def _for_people(report: FsckReport, output: Output) -> None:
    if report.problems:
        output.table(
            ("problem", "path", "what is wrong"),
            [(p.kind, p.path, p.message) for p in report.problems],
        )
    output.say(
        f"Version {report.version}: looked at {counted(report.num_commits, 'commit')}, "
        f"{counted(report.num_checkpoints, 'checkpoint')}, "
        f"{counted(report.num_files, 'file')} and "
        f"{counted(report.num_deletion_vectors, 'deletion vector')}; "
        f"found {counted(len(report.problems), 'problem')}."
    )
    if report.num_pages is not None and report.num_pages_unchecked is not None:
        output.say(
            f"Read {counted(report.num_pages, 'page')}; "
            f"{report.num_pages_unchecked:,} of them have no checksum."
        )
    if report.deleted_checksums:
        output.say(f"Deleted {counted(len(report.deleted_checksums), 'outdated checksum file')}.")
    if report.repaired_version is not None:
        output.say(
            f"Version {report.repaired_version} takes "
            f"{counted(len(report.missing_files), 'missing file')} out of the table."
        )
