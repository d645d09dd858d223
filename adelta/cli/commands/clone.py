"""Make another table with the rows of a table, at its latest version or an earlier one.

A deep clone copies files, a shallow one names them where they are. Storage options go for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, key_value, natural, open_table
from adelta.console.progress_bar import progress_bar
from adelta.console.render import camel_case, counted, size

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("target", metavar="TARGET", help="the address of the clone")
    parser.add_argument(
        "--shallow", action="store_true", help="name the files where they are, and copy none"
    )
    parser.add_argument(
        "--replace", action="store_true", help="make a table that is there the clone"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=natural, metavar="N", help="clone the version N")
    which.add_argument("--timestamp", metavar="TIME", help="clone what it was at a time")
    parser.add_argument(
        "--format",
        choices=("delta", "parquet", "iceberg"),
        default="delta",
        help="what the source is: a folder of Parquet files, or an Iceberg table (default: delta)",
    )
    parser.add_argument(
        "--partitions",
        metavar="COLUMNS",
        help="partition columns of a folder of Parquet files, such as 'year INT, month INT'",
    )
    parser.add_argument(
        "--metadata",
        metavar="PATH",
        help="the file of an Iceberg table's current metadata below it, which its catalog knows "
        "(default: what the table says itself)",
    )
    parser.add_argument(
        "--target-option",
        dest="target_options",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a storage option of the target, which then has these instead of the source's",
    )
    parser.add_argument(
        "--property",
        dest="properties",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a table property of the clone, where it is not to be the source's; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be copied")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Clone, and say what was copied."""
    with progress_bar() as on_progress:
        async with open_table(arguments) as table:
            done = await adelta.clone(
                table,
                arguments.target,
                shallow=arguments.shallow,
                version=arguments.version,
                timestamp=arguments.timestamp,
                source_format=arguments.format,
                partition_schema=arguments.partitions,
                iceberg_metadata=arguments.metadata,
                replace=arguments.replace,
                properties=dict(arguments.properties),
                dry_run=arguments.dry_run,
                on_progress=on_progress,
                target_storage_options=dict(arguments.target_options or arguments.options),
            )
    if output.as_json:
        output.line(camel_case(done))
        return
    version = done.source_version
    what = "what is there" if version is None else f"version {version}"
    verb, copied = ("Would clone", "would copy") if done.dry_run else ("Cloned", "copied")
    output.say(
        f"{verb} {what}, {counted(done.source_num_of_files, 'file')} of "
        f"{size(done.source_table_size)}; {copied} {counted(done.num_copied_files, 'file')} of "
        f"{size(done.copied_files_size)}."
    )
    if done.reads_from is not None:
        output.say(f"Readers have to allow its source: --option allowed_roots={done.reads_from}")
