"""Rows of a table: for people the first 20, unless --limit says otherwise; with --json all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread
from adelta.cli.arguments import (
    add_table,
    add_version,
    name_list,
    natural,
    open_snapshot,
    open_table,
)
from adelta.console.json_values import dumps, rows

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from adelta import Scan
    from adelta.console.render import Output

__all__ = ["configure", "run"]

_A_PAGE = 20
_SLICE = 4096  # rows turned into text at a time


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_version(parser)
    parser.add_argument(
        "--columns",
        type=name_list,
        metavar="A,B",
        help="only these columns, in this order",
    )
    parser.add_argument(
        "--where", metavar="EXPRESSION", help="only rows where this Spark SQL expression is true"
    )
    parser.add_argument("--limit", type=natural, metavar="N", help="at most N rows")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the rows."""
    limit: int | None = arguments.limit
    if limit is None and not output.as_json:
        limit = _A_PAGE
    async with open_table(arguments) as table:
        snapshot = await open_snapshot(table, arguments)
        scan = snapshot.scan(columns=arguments.columns, where=arguments.where, limit=limit)
        if output.as_json:
            await _print_lines(scan, output)
            return
        found = await scan.to_arrow()
    body = [
        [dumps(value) if isinstance(value, dict | list) else value for value in row.values()]
        for batch in found.to_batches()
        for row in rows(batch)
    ]
    output.table(found.schema.names, body)
    if arguments.limit is None and len(body) == _A_PAGE:
        output.say(f"The first {_A_PAGE} rows; --limit N shows N, --json all of them.", "dim")


async def _print_lines(scan: Scan, output: Output) -> None:
    async for batch in scan.batches():
        for start in range(0, batch.num_rows, _SLICE):
            part = batch.slice(start, _SLICE)
            output.lines(await in_thread(_objects, part))


def _objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return list(rows(batch))
