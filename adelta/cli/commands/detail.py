"""A table's detail, under the names that Spark's DESCRIBE DETAIL uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta import detail
from adelta.cli.arguments import add_table, open_table
from adelta.console.render import Output, camel_case

if TYPE_CHECKING:
    import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the record."""
    async with open_table(arguments) as table:
        output.record(camel_case(await detail(table)))
