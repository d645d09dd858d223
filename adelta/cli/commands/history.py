"""The commits of a table that its log still holds, newest first."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from adelta import history
from adelta.cli.arguments import add_table, open_table, positive
from adelta.console.render import Output, Unbroken, camel_case, plain

if TYPE_CHECKING:
    import argparse

    from adelta.operations.history import HistoryEntry

__all__ = ["configure", "run"]

_NUMBERS = {
    **dict.fromkeys(("numFiles", "numAddedFiles", "numTargetFilesAdded"), "+{} files"),
    **dict.fromkeys(("numRemovedFiles", "numTargetFilesRemoved"), "-{} files"),
    "numConvertedFiles": "{} files",
    "numOutputRows": "{} rows",
    "numTargetRowsInserted": "{} inserted",
    **dict.fromkeys(("numUpdatedRows", "numTargetRowsUpdated"), "{} updated"),
    **dict.fromkeys(("numDeletedRows", "numTargetRowsDeleted"), "{} deleted"),
}
"""What is told of the metrics; all of them are in --json."""

_LONGEST = 120  # characters of a parameter; the whole of it is in --json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="only the N newest commits")
    parser.add_argument(
        "--operation",
        dest="operations",
        metavar="NAME",
        action="append",
        help="only commits of this operation, such as MERGE; may be repeated",
    )
    parser.add_argument("--user", metavar="NAME", help="only commits of this user, by name or id")
    parser.add_argument("--since", metavar="TIME", help="only commits from this ISO-8601 time on")
    parser.add_argument("--until", metavar="TIME", help="only commits up to this ISO-8601 time")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the commits."""
    async with open_table(arguments) as table:
        entries = await history(
            table,
            limit=arguments.limit,
            operation=arguments.operations,
            since=arguments.since,
            until=arguments.until,
            user=arguments.user,
        )
    if output.as_json:
        output.lines(_for_programs(entry) for entry in entries)
        return
    output.table(
        ("version", "time (UTC)", "operation", "user", "client", "what"),
        [
            (
                entry.version,
                Unbroken(f"{entry.timestamp:%Y-%m-%d %H:%M:%S}"),
                entry.operation,
                entry.user_name or entry.user_id,
                entry.engine_info,
                _what(entry),
            )
            for entry in entries
        ],
        spare=("client", "user"),
    )


def _what(entry: HistoryEntry) -> str:
    """How it was done and what that came to, on as little space as will do."""
    parameters = [(name, _said(value)) for name, value in entry.operation_parameters.items()]
    told = [f"{name}={value}" for name, value in parameters if value]
    for metric, sign in _NUMBERS.items():
        number = str(entry.operation_metrics.get(metric, "0"))
        if number != "0":
            told.append(sign.format(number))
    return ", ".join(told)


def _said(parameter: object) -> str:
    """A parameter as it was given; Delta's lists and objects are texts of JSON."""
    text = plain(parameter)
    if text[:1] in ("[", "{"):
        with suppress(orjson.JSONDecodeError):
            text = plain(orjson.loads(text))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _for_programs(entry: HistoryEntry) -> dict[str, object]:
    record = camel_case(entry)
    others = entry.others
    del record["others"]
    return {**others, **record}
