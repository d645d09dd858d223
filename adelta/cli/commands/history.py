"""The commits of a table that its log still holds, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta import history
from adelta.cli.arguments import add_table, open_table, positive
from adelta.console.render import Output, camel_case

if TYPE_CHECKING:
    import argparse

    from adelta.operations.history import HistoryEntry

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="only the N newest commits")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the commits."""
    async with open_table(arguments) as table:
        entries = await history(table, limit=arguments.limit)
    if output.as_json:
        output.lines(_for_programs(entry) for entry in entries)
        return
    output.table(
        ("version", "time", "operation", "parameters", "metrics", "engine"),
        [
            (
                entry.version,
                entry.timestamp,
                entry.operation,
                {name: text for name, text in entry.operation_parameters.items() if text != "[]"},
                dict(entry.operation_metrics),
                entry.engine_info,
            )
            for entry in entries
        ],
    )


def _for_programs(entry: HistoryEntry) -> dict[str, object]:
    record = camel_case(entry)
    others = entry.others
    del record["others"]
    return {**others, **record}
