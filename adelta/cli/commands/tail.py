"""The commits of a table as they happen, one line each, until interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

import adelta
from adelta.cli.arguments import add_table, natural, open_table, positive
from adelta.console.render import Output, counted, plain, size

if TYPE_CHECKING:
    import argparse

    from adelta import Commit

__all__ = ["configure", "run"]


def _since(text: str) -> int | str:
    return text if text == "latest" else natural(text)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    parser.add_argument(
        "--since",
        type=_since,
        default=0,
        metavar="N",
        help="begin with version N (default: 0); or 'latest', to begin with the next commit",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="stop after N commits")
    parser.add_argument(
        "--no-follow", action="store_true", help="stop at the version that is the latest now"
    )


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print commits until told to stop."""
    remaining: int | None = arguments.limit
    async with open_table(arguments) as table:
        last: int | None = None
        if arguments.no_follow:
            last = (await table.snapshot()).version
            if arguments.since == "latest" or arguments.since > last:
                return
        async for commit in adelta.tail(table, since=arguments.since):
            _print(commit, output)
            if remaining is not None:
                remaining -= 1
            if remaining == 0 or commit.version == last:
                return


def _print(commit: Commit, output: Output) -> None:
    added = int(pc.sum(commit.adds.column("size")).as_py() or 0)
    info = commit.info
    if output.as_json:
        output.line(
            {
                "version": commit.version,
                "timestamp": commit.timestamp,
                "operation": info.operation,
                "operationParameters": dict(info.operation_parameters),
                "operationMetrics": dict(info.operation_metrics),
                "engineInfo": info.engine_info,
                "addedFiles": commit.adds.num_rows,
                "addedBytes": added,
                "removedFiles": commit.removes.num_rows,
                "changeFiles": commit.cdc.num_rows,
            }
        )
        return
    output.say(
        f"{commit.version:>8}  {plain(commit.timestamp)}  {info.operation or 'commit'}: "
        f"added {counted(commit.adds.num_rows, 'file')} ({size(added)}), "
        f"removed {counted(commit.removes.num_rows, 'file')}"
    )
