"""Put rows of a file, of standard input or of another table in the place of rows that match them.

All in one commit; where there are no rows, nothing goes:

adelta replace-matching lake/city monday.parquet --using day
adelta replace-matching lake/city new.parquet --on "target.id <=> source.id"
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import (
    add_application,
    add_table,
    add_user_metadata,
    name_list,
    open_table,
)
from adelta.cli.sources import add_source, open_source
from adelta.console.progress_bar import progress_bar
from adelta.console.render import Output, camel_case, counted

if TYPE_CHECKING:
    from typing import Any

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_table(parser)
    add_source(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--using", type=name_list, metavar="A,B", help="rows match where these columns are equal"
    )
    which.add_argument("--on", metavar="CONDITION", help="rows match where this is true")
    parser.add_argument(
        "--merge-schema", action="store_true", help="add columns that only the source has"
    )
    add_application(parser)
    add_user_metadata(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Replace, and say what became of rows.

    Raises:
        InvalidOptionError: the source cannot be read.
    """
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            like = await table.snapshot()
            source: Any = open_source(
                arguments.source, arguments.format, table.storage_options, like=like
            )
            async with source as rows:
                done = await adelta.replace_matching(
                    table,
                    rows,
                    using=arguments.using,
                    on=arguments.on,
                    schema_mode="merge" if arguments.merge_schema else None,
                    txn=arguments.txn,
                    user_metadata=arguments.user_metadata,
                    on_progress=on_progress,
                )
    if output.as_json:
        output.line(camel_case(done))
    elif done.version is None:
        output.say(f"{counted(done.num_source_rows, 'source row')}, and nothing to change.")
    else:
        output.say(
            f"Version {done.version}: {counted(done.num_target_rows_inserted, 'row')} inserted, "
            f"{done.num_target_rows_deleted:,} deleted."
        )
