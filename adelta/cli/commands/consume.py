"""Consume a table from where the consumer of this name has stopped, and keep how far it has got.

With --to every row is copied into another table exactly once; with --exec a command gets each batch
on its standard input, at least once, and one that fails stops the consumer before the batch. With
neither the rows are printed as JSON lines.

adelta consume s3://lake/orders --to s3://lake/orders-copy
adelta consume s3://lake/orders --positions positions --exec "python load.py"
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa

import adelta
from adelta._concurrency import in_thread
from adelta.cli.arguments import add_table, interval, key_value, open_table, positive
from adelta.console.json_values import dumps, rows
from adelta.console.render import Output, counted
from adelta.errors import AdeltaError, InvalidOptionError, TableNotFoundError

if TYPE_CHECKING:
    from anyio.abc import Process

    from adelta import Batch, Consumer, Table

__all__ = ["configure", "run"]

_GRACE = 5.0  # seconds that a command has to end in when it is asked to
_LOOK = 0.05  # seconds between two looks whether what it has started is still there
_CHANGE_COLUMNS = (
    pa.field("_change_type", pa.string()),
    pa.field("_commit_version", pa.int64()),
    pa.field("_commit_timestamp", pa.timestamp("us", "UTC")),
)


def _start(text: str) -> int | str | adelta.Position:
    """A version, a position, a time, ``snapshot`` or ``latest``."""
    if text.isdigit():
        return int(text)
    with suppress(InvalidOptionError):
        return adelta.Position.parse(text)
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is no place to start from")
    return text


def _share(text: str) -> tuple[str, int, int]:
    """``COLUMN:NUMBER/COUNT``."""
    column, _, part = text.rpartition(":")
    number, _, count = part.partition("/")
    if not column or not number.isdigit() or not count.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form COLUMN:NUMBER/COUNT")
    return column, int(number), int(count)


def _seconds(text: str) -> float:
    """A number of seconds."""
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from error


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_table(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--exec", metavar="CMD", dest="command_line", help="run it for each batch")
    what.add_argument("--to", metavar="URI2", help="copy the rows into this table, exactly once")
    what.add_argument("--lag", action="store_true", help="only say how far the consumer is behind")
    parser.add_argument("--name", default="consume", help="the consumer's name (default: consume)")
    parser.add_argument(
        "--positions",
        metavar="PLACE",
        help="where positions are kept: a folder, s3://..., or postgresql://...; with --to it is "
        "the table that is written to",
    )
    parser.add_argument(
        "--of", choices=("rows", "changes", "commits"), default="rows", help="what is read"
    )
    parser.add_argument(
        "--start",
        type=_start,
        metavar="N|TIME|snapshot|latest",
        help="where a consumer begins that has no position yet (default: snapshot)",
    )
    parser.add_argument(
        "--seek",
        type=_start,
        metavar="N|TIME|POSITION|snapshot|latest",
        help="go on from there, whatever was read before",
    )
    parser.add_argument("--columns", type=_names, metavar="A,B", help="only these columns")
    parser.add_argument(
        "--share",
        type=_share,
        metavar="COLUMN:NUMBER/COUNT",
        help="only the rows of which the column's hash falls to this one of COUNT consumers",
    )
    for name, of_what in (("rows", "rows"), ("files", "files"), ("bytes", "bytes")):
        parser.add_argument(
            f"--max-{name}", type=positive, metavar="N", help=f"{of_what} of a batch at most"
        )
    parser.add_argument(
        "--max-delay", type=_seconds, metavar="SECONDS", help="fill batches up for so long"
    )
    parser.add_argument(
        "--on-rewrite",
        choices=("fail", "skip", "read"),
        help="what commits that delete or change rows are (default: fail)",
    )
    parser.add_argument(
        "--on-lost",
        choices=("fail", "skip", "resnapshot"),
        help="what commits are that were cleaned up before they were read (default: fail)",
    )
    parser.add_argument(
        "--hold", type=interval, metavar="INTERVAL", help="keep the log for so long, as '7 days'"
    )
    parser.add_argument(
        "--format",
        choices=("json", "arrow"),
        default="json",
        help="how --exec gets rows: as JSON lines, or as an Arrow stream (default: json)",
    )
    parser.add_argument(
        "--no-follow", action="store_true", help="stop when everything that is there was read"
    )
    parser.add_argument(
        "--to-option",
        dest="to_options",
        metavar="KEY=VALUE",
        type=key_value,
        action="append",
        default=[],
        help="a storage option of --to, or of --positions, where it differs from --option",
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Consume."""
    command = None if arguments.command_line is None else shlex.split(arguments.command_line)
    if command == []:
        raise InvalidOptionError("--exec names no command")
    wanted: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in (
            *("start", "columns", "share", "max_rows", "max_files", "max_bytes", "max_delay"),
            *("on_rewrite", "on_lost", "hold"),
        )
        if getattr(arguments, name) is not None
    }
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(open_table(arguments))
        places = await _positions(arguments, source, stack)
        consumer = await stack.enter_async_context(
            adelta.Consumer(
                source,
                arguments.name,
                places,
                of=arguments.of,
                follow=not arguments.no_follow,
                **wanted,
            )
        )
        if arguments.seek is not None:
            await consumer.seek(arguments.seek)
        if arguments.lag:
            await _print_lag(consumer, output)
            return
        async for batch in consumer:
            if arguments.to is not None:
                await consumer.append(batch)
            elif command is not None:
                await _execute(command, batch, arguments)
                await consumer.acknowledge(batch)
            else:
                output.lines(_objects(batch))
                output.console.file.flush()
                await consumer.acknowledge(batch)
            if arguments.to is not None or command is not None:
                _tell(batch, output)


async def _positions(
    arguments: argparse.Namespace, source: Table, stack: AsyncExitStack
) -> Table | adelta.PositionStore | str:
    options = dict(arguments.options) | dict(arguments.to_options)
    if arguments.to is not None:
        if arguments.positions is not None or arguments.of == "commits":
            raise InvalidOptionError(
                "--to keeps the position in the table that it writes rows to; leave out "
                "--positions, and read rows or changes"
            )
        target = adelta.open_table(arguments.to, storage_options=options)
        await stack.enter_async_context(target)
        await _create_where_missing(target, options, source, arguments)
        return target
    if arguments.positions is None:
        raise InvalidOptionError("say by --positions where the consumer's position is to be kept")
    if "://" in arguments.positions and arguments.positions.startswith("postgres"):
        return str(arguments.positions)
    return adelta.FilePositions(arguments.positions, options)


async def _create_where_missing(
    target: Table, options: dict[str, str], source: Table, arguments: argparse.Namespace
) -> None:
    try:
        await target.snapshot()
    except TableNotFoundError:
        snapshot = await source.snapshot()
        schema = snapshot.scan(columns=arguments.columns).schema
        if arguments.of == "changes":
            schema = pa.schema([*schema, *_CHANGE_COLUMNS])
        partitions = [name for name in snapshot.partition_columns if name in schema.names]
        made = await adelta.create_table(
            arguments.to, schema, partition_by=partitions, storage_options=options
        )
        await made.aclose()


async def _execute(command: list[str], batch: Batch, arguments: argparse.Namespace) -> None:
    """Run the command with the batch on its standard input.

    Raises:
        AdeltaError: it cannot be run, or has failed.
    """
    data = await in_thread(_arrow if arguments.format == "arrow" else _json_lines, batch)
    change, lost = batch.schema_change, batch.lost
    told = {
        "ADELTA_TABLE": arguments.uri,
        "ADELTA_FIRST": str(batch.first),
        "ADELTA_POSITION": str(batch.position),
        "ADELTA_ROWS": str(batch.num_rows),
        "ADELTA_SCHEMA_CHANGED": "" if change is None else str(change.version),
        "ADELTA_LOST": "" if lost is None else f"{lost[0]}-{lost[1]}",
        "ADELTA_RESTARTED": "1" if batch.restarted else "",
    }
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=None,
            stderr=None,
            env={**os.environ, **told},
            start_new_session=True,  # so that what it starts in turn can be ended with it
        )
    except OSError as error:
        raise AdeltaError(f"{command[0]} cannot be run: {error}") from error
    async with process:
        assert process.stdin is not None
        try:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                await process.stdin.send(data)  # which it need not read
            with suppress(anyio.BrokenResourceError, OSError):
                await process.stdin.aclose()
            status = await process.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _end(process)  # else leaving the block waits until it ends by itself
            raise
    if status:
        raise AdeltaError(
            f"{command[0]} ended with {status} at the batch that begins with {batch.first}; it "
            "gets the batch again when the consumer is started again"
        )


async def _end(process: Process) -> None:
    """End a process and all that it has started: at their own pace within `_GRACE` seconds."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError):  # where none of its group is left
        os.killpg(process.pid, signal.SIGTERM)
        with anyio.move_on_after(_GRACE):
            await process.wait()
            while True:
                os.killpg(process.pid, 0)
                await anyio.sleep(_LOOK)
        os.killpg(process.pid, signal.SIGKILL)


def _objects(batch: Batch) -> list[dict[str, Any]]:
    found = [
        {
            "version": commit.version,
            "timestamp": commit.timestamp,
            "operation": commit.info.operation,
            "addedFiles": commit.adds.num_rows,
            "removedFiles": commit.removes.num_rows,
        }
        for commit in batch.commits
    ]
    return found + [row for part in batch.data.to_batches() for row in rows(part)]


def _json_lines(batch: Batch) -> bytes:
    return "".join(f"{dumps(value)}\n" for value in _objects(batch)).encode()


def _arrow(batch: Batch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.data.schema) as stream:
        stream.write_table(batch.data)
    return sink.getvalue().to_pybytes()


def _tell(batch: Batch, output: Output) -> None:
    if output.as_json:
        found = {"first": str(batch.first), "position": str(batch.position)}
        output.line({**found, "rows": batch.num_rows, "commits": len(batch.commits)})
        return
    what = (
        counted(len(batch.commits), "commit") if batch.commits else counted(batch.num_rows, "row")
    )
    output.say(f"{what}, up to {str(batch.position).partition('@')[0]}")


async def _print_lag(consumer: Consumer, output: Output) -> None:
    lag = await consumer.lag()
    output.record(
        {
            "versions": lag.versions,
            "seconds": lag.seconds,
            "position": str(lag.position),
            "latestVersion": lag.latest_version,
        }
    )
