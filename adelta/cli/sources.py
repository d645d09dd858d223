"""Rows that a command is given: a file of Parquet, CSV, JSON lines or Arrow, or a table.

What the file is, its name says, or ``--format``; ``-`` is standard input. The types of CSV and JSON
are those of the table that the rows are for, where it has such columns, and are else inferred.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, asynccontextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import adelta
from adelta._concurrency import in_thread
from adelta.cli.json_rows import read_json_lines
from adelta.errors import AdeltaError, InvalidOptionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Callable, Mapping

    from adelta import Snapshot

__all__ = ["add_source", "open_source"]

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
_STANDARD_INPUT = "-"


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add ``SOURCE`` and ``--format``."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help=f"a file ({', '.join(_FORMATS)}), {_STANDARD_INPUT} for standard input, or a table's "
        "address",
    )
    parser.add_argument(
        "--format",
        choices=[*dict.fromkeys(_FORMATS.values()), "delta"],
        help="what the source is, where its name does not say so",
    )


@asynccontextmanager
async def open_source(
    source: str,
    kind: str | None,
    storage_options: Mapping[str, str],
    *,
    like: Snapshot | None = None,
) -> AsyncIterator[pa.RecordBatchReader | Snapshot]:
    """The rows of a source, or, where it is a table, its latest snapshot.

    `like` is the table that rows are for, whose types CSV and JSON are read as.

    Raises:
        InvalidOptionError: the source cannot be read.
        TableNotFoundError: there is no such table.
    """
    kind = kind or _FORMATS.get(PurePath(source).suffix.lower())
    if kind is None and source == _STANDARD_INPUT:
        raise InvalidOptionError("nothing says what standard input is; name its --format")
    if kind is None or kind == "delta":
        async with adelta.open_table(source, storage_options) as table:
            yield await table.snapshot()
        return
    with ExitStack() as stack:
        try:
            file = await in_thread(_opened, source, stack)
            yield await in_thread(_READERS[kind], file, _types(like))
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, AdeltaError):
                raise
            raise InvalidOptionError(f"{source} cannot be read as {kind}: {error}") from error


def _types(like: Snapshot | None) -> pa.Schema:
    """The types of the columns that rows have to bring."""
    if like is None:
        return pa.schema([])
    return pa.schema([pa.field(field.name, field.type) for field in like.schema])


def _opened(source: str, stack: ExitStack) -> Any:
    """The file, which is closed with `stack`. Raises: OSError."""
    if source == _STANDARD_INPUT:
        return sys.stdin.buffer
    return stack.enter_context(open(source, "rb"))


def _parquet(file: Any, _: pa.Schema) -> pa.RecordBatchReader:
    import pyarrow.parquet

    if not file.seekable():
        file = pa.BufferReader(file.read())
    found = pyarrow.parquet.ParquetFile(file)
    return pa.RecordBatchReader.from_batches(found.schema_arrow, found.iter_batches())


def _csv(file: Any, types: pa.Schema) -> pa.RecordBatchReader:
    import pyarrow.csv

    flat = {field.name: field.type for field in types if not pa.types.is_nested(field.type)}
    options = pyarrow.csv.ConvertOptions(column_types=flat, strings_can_be_null=True)
    return pyarrow.csv.open_csv(file, convert_options=options)


def _json(file: Any, types: pa.Schema) -> pa.RecordBatchReader:
    return read_json_lines(file, types)


def _arrow(file: Any, _: pa.Schema) -> pa.RecordBatchReader:
    beginning = file.peek(6)[:6] if hasattr(file, "peek") else b""
    if beginning != b"ARROW1":
        return pa.ipc.open_stream(file)
    found = pa.ipc.open_file(file if file.seekable() else pa.BufferReader(file.read()))
    batches = (found.get_batch(at) for at in range(found.num_record_batches))
    return pa.RecordBatchReader.from_batches(found.schema, batches)


_READERS: dict[str, Callable[[Any, pa.Schema], pa.RecordBatchReader]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    "arrow": _arrow,
}
