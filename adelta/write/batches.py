"""What users hand over to be written → record batches of bounded size, one after the other.

Whatever may block or compute while it makes its next batch is asked for it in a worker thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from adelta._concurrency import ItemsInThread, in_thread
from adelta.errors import InvalidOptionError
from adelta.progress import Meter

if TYPE_CHECKING:
    from adelta.progress import OnProgress

__all__ = ["ArrowStream", "Data", "metered", "open_batches", "record_batches"]

_PIECE_BYTES = 16 * 1024 * 1024
_PIECE_ROWS = 128 * 1024


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that exports Arrow data: tables and readers of pyarrow, polars, pandas, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The data as a capsule of the Arrow C stream interface."""
        ...


Data = ArrowStream | AsyncIterable[pa.RecordBatch] | Iterable[pa.RecordBatch]
"""Rows to be written: an Arrow stream, or batches from an iterable of either kind."""


async def record_batches(data: Data) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of `data` as batches small enough to be worked on one at a time.

    Raises:
        InvalidOptionError: `data` is nothing that holds rows.
    """
    if isinstance(data, pa.Table):
        for batch in data.to_batches():
            for piece in _pieces(batch):
                yield piece
    elif isinstance(data, pa.RecordBatch):
        for piece in _pieces(data):
            yield piece
    elif isinstance(data, AsyncIterable):
        async for item in data:
            for piece in await _item_batches(item):
                yield piece
    elif isinstance(data, ArrowStream):
        reader = await in_thread(_reader, data)
        async for batch in ItemsInThread(reader):
            for piece in _pieces(batch):
                yield piece
    elif _is_iterable(data):
        async for item in ItemsInThread(data):
            for piece in await _item_batches(item):
                yield piece
    else:
        raise _not_rows(data)


async def _item_batches(item: object) -> list[pa.RecordBatch]:
    """The pieces of one item of an iterator, which is itself of a bounded size."""
    if isinstance(item, pa.RecordBatch):
        return list(_pieces(item))
    if isinstance(item, ArrowStream):
        reader = await in_thread(_reader, item)
        return [piece for batch in await in_thread(list, reader) for piece in _pieces(batch)]
    raise _not_rows(item)


def _reader(data: ArrowStream) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidOptionError(
            f"the Arrow stream of a {type(data).__name__} holds no rows of columns: {error}"
        ) from error


def _is_iterable(data: object) -> bool:
    return isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if not rows:
        return
    size = max(1, batch.nbytes)
    step = max(1, min(_PIECE_ROWS, rows * _PIECE_BYTES // size))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


_INSTEAD: dict[type, str] = {
    dict: "; pyarrow.table makes a table of columns, pyarrow.Table.from_pylist one of rows",
    str: "; pyarrow.csv, pyarrow.parquet and their like read files",
}


def _not_rows(data: Any) -> InvalidOptionError:
    kind = type(data)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return InvalidOptionError(
        f"a {name} cannot be written: hand over an Arrow table or reader, a data frame that "
        f"exports Arrow streams, or an iterator of pyarrow.RecordBatch{_INSTEAD.get(kind, '')}"
    )


async def open_batches(
    data: Data,
) -> tuple[pa.Schema | None, AsyncGenerator[pa.RecordBatch, None]]:
    """The schema of `data`, and its rows as `record_batches` gives them.

    The schema is None where `data` is an iterator without a single row.

    Raises:
        InvalidOptionError: `data` is nothing that holds rows.
    """
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data.schema, record_batches(data)
    if not isinstance(data, AsyncIterable) and isinstance(data, ArrowStream):
        reader = await in_thread(_reader, data)
        return reader.schema, record_batches(reader)
    rest = record_batches(data)
    first = await anext(rest, None)
    return (None, rest) if first is None else (first.schema, _after(first, rest))


async def metered(
    batches: AsyncGenerator[pa.RecordBatch, None], on_progress: OnProgress | None
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches, of whose rows `on_progress` is told as they are taken."""
    meter = Meter(on_progress, "writing", unit="rows")
    async with aclosing(batches):
        async for batch in batches:
            yield batch
            meter.advance(batch.num_rows)


async def _after(
    first: pa.RecordBatch, rest: AsyncGenerator[pa.RecordBatch, None]
) -> AsyncGenerator[pa.RecordBatch, None]:
    async with aclosing(rest):
        yield first
        async for batch in rest:
            yield batch
