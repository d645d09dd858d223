"""Set columns of a table's rows, by a condition.

adelta update lake/trips --set "km=km * 1.609" --set "unit='km'" --where "unit = 'mile'"
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import (
    add_dry_run,
    add_rows,
    add_table,
    add_user_metadata,
    key_value,
    open_table,
)
from adelta.console.progress_bar import progress_bar
from adelta.console.render import camel_case, counted

if TYPE_CHECKING:
    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_table(parser)
    parser.add_argument(
        "--set",
        dest="values",
        metavar="COLUMN=EXPRESSION",
        type=key_value,
        action="append",
        required=True,
        help="a column and a Spark SQL expression over the row as it was; may be repeated",
    )
    add_rows(parser)
    add_dry_run(parser)
    parser.add_argument("--zone", default="UTC", help="the zone of times that name none")
    add_user_metadata(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Update, and say how many rows have other values."""
    with progress_bar() as on_progress:
        async with open_table(arguments, write=True) as table:
            done = await adelta.update(
                table,
                dict(arguments.values),
                arguments.where,
                zone=arguments.zone,
                dry_run=arguments.dry_run,
                user_metadata=arguments.user_metadata,
                on_progress=on_progress,
            )
    if output.as_json:
        output.line(camel_case(done))
    elif arguments.dry_run:
        output.say(f"Would update {counted(done.num_updated_rows, 'row')}.")
    elif done.version is None:
        output.say("There are no such rows.")
    else:
        output.say(f"Version {done.version}: {counted(done.num_updated_rows, 'row')} updated.")
