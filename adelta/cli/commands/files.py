"""The data files of a table's version: path, partition values, rows, size and age."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import orjson

from adelta._concurrency import in_thread
from adelta.cli.arguments import add_table, add_version, natural, open_snapshot, open_table
from adelta.console.render import Output, counted, size

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa


__all__ = ["configure", "run"]

_SLICE = 4096  # files turned into text at a time


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_table(parser)
    add_version(parser)
    parser.add_argument(
        "--where", metavar="EXPRESSION", help="only files that may hold rows where this is true"
    )
    parser.add_argument("--limit", type=natural, metavar="N", help="at most N files")


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Print the files."""
    async with open_table(arguments) as table:
        snapshot = await open_snapshot(table, arguments)
        files = await snapshot.files(where=arguments.where)
    total = files.num_rows
    if arguments.limit is not None:
        files = files.slice(0, arguments.limit)
    if output.as_json:
        for start in range(0, files.num_rows, _SLICE):
            part = files.slice(start, _SLICE)
            output.lines(await in_thread(_for_programs, part))
        return
    output.table(
        ("partition", "rows", "deleted", "size", "modified", "path"),
        [_for_people(file) for file in files.to_pylist()],
        right=("size",),
        spare=("deleted", "modified"),
    )
    shown = "" if files.num_rows == total else f"{files.num_rows:,} of "
    output.say(shown + counted(total, "file"), "dim")


def _for_programs(files: pa.Table) -> list[dict[str, object]]:
    return [_for_a_program(file) for file in files.to_pylist()]


def _for_a_program(file: dict[str, Any]) -> dict[str, object]:
    stats = file["stats"]
    return {
        "path": file["path"],
        "partitionValues": dict(file["partition_values"] or ()),
        "size": file["size"],
        "modificationTime": file["modification_time"],
        "stats": None if _statistics(stats) is None else orjson.Fragment(stats),
        "tags": None if file["tags"] is None else dict(file["tags"]),
        "deletionVector": file["deletion_vector"],
    }


def _for_people(file: dict[str, Any]) -> tuple[object, ...]:
    statistics = _statistics(file["stats"]) or {}
    modified = dt.datetime.fromtimestamp((file["modification_time"] or 0) / 1000, dt.UTC)
    vector = file["deletion_vector"]
    return (
        dict(file["partition_values"] or ()) or None,
        statistics.get("numRecords"),
        vector and vector["cardinality"],
        size(file["size"]),
        modified,
        unquote(file["path"]),
    )


def _statistics(text: str | None) -> dict[str, Any] | None:
    """A file's statistics; None where it has none, or none that can be read."""
    if text is None:
        return None
    try:
        statistics = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return statistics if isinstance(statistics, dict) else None
