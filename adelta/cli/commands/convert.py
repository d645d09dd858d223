"""Make a table of a folder of Parquet files, or of an Iceberg table, in place; no data is read.

--partitions names the columns that folders such as year=2024/month=1 hold, with their types.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_table, key_value
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, counted, size

if TYPE_CHECKING:
    import argparse

    from adelta.operations.convert import ConvertMetrics

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser, catalog=False)
    parser.add_argument(
        "--partitions", metavar="COLUMNS", help="partition columns, such as 'year INT, month INT'"
    )
    parser.add_argument(
        "--no-statistics", action="store_true", help="say nothing of the files' values"
    )
    parser.add_argument("--name", help="a name for the table")
    parser.add_argument("--description", help="what the table is for")
    parser.add_argument(
        "--property",
        dest="properties",
        metavar="KEY=VALUE",
        type=key_value,
        action="append",
        default=[],
        help="a table property; may be repeated",
    )
    parser.add_argument(
        "--iceberg",
        metavar="METADATA",
        nargs="?",
        const="",
        help="it is an Iceberg table; METADATA is the file of its current metadata below it, which "
        "its catalog knows (default: what the table says itself)",
    )
    parser.add_argument("--dry-run", action="store_true", help="look at the files, write nothing")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Convert, and say what there is now."""
    with progress_bar() as bar:
        convert = partial(adelta.convert, arguments.uri, partition_schema=arguments.partitions)
        if arguments.iceberg is not None:
            metadata = arguments.iceberg or None
            convert = partial(adelta.convert_iceberg, arguments.uri, metadata=metadata)
        done = await convert(
            collect_statistics=not arguments.no_statistics,
            name=arguments.name,
            description=arguments.description,
            properties=dict(arguments.properties),
            dry_run=arguments.dry_run,
            storage_options=dict(arguments.options),
            on_progress=bar,
        )
    if output.as_json:
        output.line(_for_programs(done))
    elif done.schema is None:
        output.say("It is a Delta table already; nothing was written.")
    else:
        files = f"{counted(done.num_converted_files, 'file')}, {size(done.num_converted_bytes)}"
        columns = counted(len(done.schema), "column")
        said = "would become" if arguments.dry_run else f"became version {done.version}:"
        output.say(f"The folder {said} a table of {files} and {columns}.")


def _for_programs(done: ConvertMetrics) -> dict[str, object]:
    return {
        "version": done.version,
        "numConvertedFiles": done.num_converted_files,
        "numConvertedBytes": done.num_converted_bytes,
        "columns": {f.name: str(f.type) for f in done.schema} if done.schema is not None else None,
        "partitionColumns": list(done.partition_columns),
    }
