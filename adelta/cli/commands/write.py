"""Write rows of a file, of standard input or of another table into a table.

A table that is not there is created with the rows' columns. This copies rows:
adelta read lake/trips --json | adelta write elsewhere - --format json
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import adelta
from adelta.cli.arguments import (
    add_application,
    add_definition,
    add_table,
    add_user_metadata,
    open_table,
    positive,
)
from adelta.cli.sources import add_source, open_source
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted, size
from adelta.errors import TableNotFoundError
from adelta.operations.write import SchemaMode, WriteMode

if TYPE_CHECKING:
    import argparse

    from adelta import Snapshot, Table

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_source(parser)
    parser.add_argument(
        "--mode",
        choices=get_args(WriteMode),
        default="append",
        help="what to do where there is a table (default: append)",
    )
    parser.add_argument(
        "--schema-mode",
        choices=get_args(SchemaMode),
        help="merge: take in columns that only the rows have; overwrite: take over their columns",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--replace-where",
        metavar="EXPRESSION",
        help="with --mode overwrite: replace the rows where this is true",
    )
    which.add_argument(
        "--dynamic",
        action="store_true",
        help="with --mode overwrite: replace the partitions that the rows are in",
    )
    add_definition(parser)
    parser.add_argument("--target-file-size", type=positive, metavar="BYTES", help="of data files")
    parser.add_argument(
        "--optimize-write",
        action="store_true",
        default=None,
        help="few large files a partition, whatever order the rows come in",
    )
    add_application(parser)
    add_user_metadata(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Write, and say what has been written."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            source = open_source(
                arguments.source,
                arguments.format,
                table.storage_options,
                like=await _there(table),
            )
            async with source as rows:
                done = await adelta.write_table(
                    table,
                    rows.scan().batches() if isinstance(rows, adelta.Snapshot) else rows,
                    mode=arguments.mode,
                    schema_mode=arguments.schema_mode,
                    replace_where=arguments.replace_where,
                    partition_overwrite="dynamic" if arguments.dynamic else "static",
                    partition_by=arguments.partition_by,
                    cluster_by=arguments.cluster_by,
                    properties=dict(arguments.properties),
                    target_file_size=arguments.target_file_size,
                    optimize_write=arguments.optimize_write,
                    txn=arguments.txn,
                    user_metadata=arguments.user_metadata,
                    on_progress=on_progress,
                )
    if output.as_json:
        output.line(camel_case(done))
    elif done.version is None:
        why = "it has been before" if done.skipped else "there is a table"
        output.say(f"Nothing was written, for {why}.")
    else:
        output.say(
            f"Version {done.version}: {counted(done.num_output_rows, 'row')} in "
            f"{counted(done.num_files, 'file')} of {size(done.num_output_bytes)}; "
            f"{counted(done.num_removed_files, 'file')} out."
        )


async def _there(table: Table) -> Snapshot | None:
    """What is in the table, if there is one."""
    try:
        return await table.snapshot()
    except TableNotFoundError:
        return None
