"""The rows that commits inserted, updated and deleted, from the table's change data feed.

For people the first 20, unless --limit says otherwise; with --json all.
"""

from __future__ import annotations

import argparse
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import adelta
from adelta._concurrency import in_thread
from adelta.cli.arguments import add_table, name_list, natural, open_table
from adelta.console.json_values import dumps, rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pyarrow as pa

    from adelta.console.render import Output

__all__ = ["configure", "run"]

_A_PAGE = 20
_SLICE = 4096  # rows turned into text at a time


def _bound(text: str) -> int | str:
    """A version, or a time."""
    if text.isdigit():
        return int(text)
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a version nor a time")
    return text


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument(
        "--since",
        type=_bound,
        default=0,
        metavar="N|TIME",
        help="begin with this version, or with the first one at or after this time (default: 0)",
    )
    parser.add_argument(
        "--until",
        type=_bound,
        metavar="N|TIME",
        help="end with this version, or with the last one at or before this time",
    )
    parser.add_argument(
        "--columns",
        type=name_list,
        metavar="A,B",
        help="only these columns, beside those that tell of the change",
    )
    parser.add_argument("--limit", type=natural, metavar="N", help="at most N rows")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the rows."""
    limit: int | None = arguments.limit
    if limit is None and not output.as_json:
        limit = _A_PAGE
    names: list[str] = []
    body: list[list[object]] = []
    async with open_table(arguments) as table:
        feed = adelta.changes(table, arguments.since, arguments.until, columns=arguments.columns)
        async with aclosing(_at_most(limit, feed)) as batches:
            async for batch in batches:
                found = await in_thread(_objects, batch)
                if output.as_json:
                    output.lines(found)
                    continue
                names = batch.schema.names
                body += [list(map(_cell, row.values())) for row in found]
    if output.as_json:
        return
    if not body:
        output.say("No row was changed.", "dim")
        return
    output.table(names, body)
    if arguments.limit is None and len(body) == _A_PAGE:
        output.say(f"The first {_A_PAGE} rows; --limit N shows N, --json all of them.", "dim")


async def _at_most(limit: int | None, feed: object) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches cut into slices, up to `limit` rows."""
    left = limit
    if left == 0:
        return
    async with aclosing(cast("AsyncGenerator[pa.RecordBatch, None]", feed)) as batches:
        async for batch in batches:
            for start in range(0, batch.num_rows, _SLICE):
                part = batch.slice(start, _SLICE if left is None else min(left, _SLICE))
                yield part
                if left is not None:
                    left -= part.num_rows
                    if left == 0:
                        return


def _objects(batch: pa.RecordBatch) -> list[dict[str, object]]:
    return list(rows(batch))


def _cell(value: object) -> object:
    return dumps(value) if isinstance(value, dict | list) else value
