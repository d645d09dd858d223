"""The versions of several tables of one commit owner, all of one moment."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_storage

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("uris", metavar="URI", nargs="+", help="the tables")
    add_storage(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print a version for each table."""
    options = dict(arguments.options)
    async with AsyncExitStack() as stack:
        opened = [adelta.open_table(uri, storage_options=options) for uri in arguments.uris]
        tables = [await stack.enter_async_context(table) for table in opened]
        found = await adelta.snapshots(*tables)
    rows = [(t.uri, s.version, s.timestamp) for t, s in zip(tables, found, strict=True)]
    if output.as_json:
        names = ("location", "version", "timestamp")
        output.lines(dict(zip(names, row, strict=True)) for row in rows)
    else:
        output.table(("table", "version", "timestamp"), rows)
