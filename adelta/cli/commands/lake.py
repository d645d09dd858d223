"""The tables below a folder: versions, and how many commits each has after its last checkpoint.

With ``--follow``, what becomes of them, one line each, until interrupted: the first look tells of
all tables that are there.
"""

from __future__ import annotations

import argparse
from contextlib import aclosing
from typing import TYPE_CHECKING

import adelta
from adelta.cli.arguments import add_storage, positive
from adelta.console.render import Output, counted, plain
from adelta.errors import AdeltaError

if TYPE_CHECKING:
    from adelta import Lake, LakeTable, TableChange

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "uri", metavar="URI", help="what the tables are below: a folder, file://... or s3://..."
    )
    add_storage(parser)
    parser.add_argument(
        "--depth", type=positive, default=3, metavar="N", help="levels of folders (default: 3)"
    )
    parser.add_argument("--follow", action="store_true", help="tell of changes as they happen")
    parser.add_argument(
        "--poll",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="with --follow: between the beginnings of two looks (default: 10)",
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="with --follow: stop after N changes"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines, for programs")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above zero")
    return seconds


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """List the tables, or tell what becomes of them until told to stop."""
    options = dict(arguments.options)
    async with adelta.Lake(arguments.uri, options, max_depth=arguments.depth) as lake:
        if arguments.follow:
            await _follow(lake, arguments.poll, arguments.limit, output)
        else:
            await _list(lake, output)


async def _list(lake: Lake, output: Output) -> None:
    found: list[LakeTable] = []
    failure: AdeltaError | None = None
    try:
        async with aclosing(lake.tables()) as tables:
            async for table in tables:
                found.append(table)  # noqa: PERF401  # kept where the next one fails
    except AdeltaError as error:
        if not found:
            raise
        failure = error
    if output.as_json:
        output.lines(
            {
                "name": table.name,
                "location": table.uri,
                "version": table.version,
                "timestamp": table.timestamp,
                "checkpointVersion": table.checkpoint_version,
                "commitsSinceCheckpoint": _behind(table),
            }
            for table in found
        )
    elif found:
        output.table(
            ("table", "version", "since checkpoint", "written"),
            [(table.name, table.version, _behind(table), table.timestamp) for table in found],
        )
    else:
        output.say(f"No table below {lake.uri}.")
    if failure is not None:
        for change in await lake.refresh():
            if change.kind == "failed":
                _print(change, output)
        raise failure


def _behind(table: LakeTable) -> int:
    """How many commits a reader has to read beside the newest checkpoint."""
    checkpoint = -1 if table.checkpoint_version is None else table.checkpoint_version
    return table.version - checkpoint


async def _follow(lake: Lake, poll: float, limit: int | None, output: Output) -> None:
    remaining = limit
    async with aclosing(lake.changes(poll=poll)) as changes:
        async for change in changes:
            _print(change, output)
            if remaining is not None:
                remaining -= 1
                if not remaining:
                    return


def _print(change: TableChange, output: Output) -> None:
    if output.as_json:
        output.line(
            {
                "kind": change.kind,
                "name": change.name,
                "version": change.version,
                "previousVersion": change.previous_version,
                "timestamp": change.timestamp,
                "error": None if change.error is None else str(change.error),
            }
        )
        return
    moment = "" if change.timestamp is None else f"  {plain(change.timestamp)}"
    output.say(f"{change.kind:>8}  {change.name}{_told(change)}{moment}")


def _told(change: TableChange) -> str:
    if change.error is not None:
        return f": {change.error}"
    if change.kind == "dropped":
        return f": it was at version {change.previous_version}"
    if change.kind == "updated":
        new = (change.version or 0) - (change.previous_version or 0)
        return f": version {change.version}, {counted(new, 'commit')} later"
    return f": version {change.version}"
