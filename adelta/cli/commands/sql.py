"""Run a statement of Delta Spark's SQL: for people the first 100 rows it gives; with --json all.

Tables are named by their address, delta.`lake/sales` or 's3://bucket/sales', or by names that
--table gives them. Queries are run by DuckDB: pip install 'adelta[sql]'.
"""

from __future__ import annotations

import argparse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import adelta
from adelta._concurrency import in_thread
from adelta.cli.arguments import add_storage, key_value
from adelta.console.json_values import dumps, rows

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.console.render import Output

__all__ = ["configure", "run"]

_A_PAGE = 100
_SLICE = 4096  # rows turned into text at a time


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("text", metavar="TEXT", help="the statement")
    parser.add_argument(
        "--table",
        dest="tables",
        metavar="NAME=URI",
        type=key_value,
        action="append",
        default=[],
        help="a name for a table; may be repeated",
    )
    parser.add_argument("--zone", default="UTC", help="the zone of times that name none")
    add_storage(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Run the statement, and print what it answers."""
    answer = adelta.sql_batches(
        arguments.text,
        tables=dict(arguments.tables),
        zone=arguments.zone,
        storage_options=dict(arguments.options),
    )
    names: list[str] = []
    body: list[list[object]] = []
    async with aclosing(answer) as batches:
        async for batch in batches:
            names = batch.schema.names
            for start in range(0, batch.num_rows, _SLICE):
                found = await in_thread(_objects, batch.slice(start, _SLICE))
                if output.as_json:
                    output.lines(found)
                else:
                    body.extend(list(row.values()) for row in found)
            if not output.as_json and len(body) > _A_PAGE:
                break
    if output.as_json:
        return
    if not names:
        output.say("Done.")
        return
    shown = [
        [dumps(value) if isinstance(value, dict | list) else value for value in row]
        for row in body[:_A_PAGE]
    ]
    output.table(names, shown)
    if len(body) > _A_PAGE:
        output.say(f"The first {_A_PAGE} rows; say LIMIT, or --json for all of them.", "dim")


def _objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return list(rows(batch))
