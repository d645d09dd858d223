"""Tables in polars: `scan_delta` reads lazily, by columns and predicates; `sink_delta` writes.

The same is by the namespace ``adelta`` of lazy frames: ``frame.adelta.sink_delta("lake/orders")``.
It needs ``adelta[polars]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from adelta.errors import InvalidOptionError
from adelta.frames.polars_predicates import polars_predicate
from adelta.sync import Snapshot, Table, open_table, write_table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from adelta.operations.write import WriteMetrics

__all__ = ["scan_delta", "sink_delta"]


def scan_delta(
    source: str | os.PathLike[str] | Table | Snapshot,
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pl.LazyFrame:
    """A lazy frame of a version of a table, by default of the latest one at this moment.

    `source` is a table's address, or a `Table` or `Snapshot` of `adelta.sync`. Columns that a query
    does not need are not read, nor files and row groups that its filters exclude. The frame is read
    in batches, so that polars' streaming engine needs no more memory than that.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the version does not exist, or is no longer kept.
        InvalidOptionError: a version is asked for, and `source` is one.
    """
    if isinstance(source, Snapshot):
        if version is not None or timestamp is not None:
            raise InvalidOptionError("a snapshot is a version already; pass its table instead")
        snapshot = source
    else:
        table = source if isinstance(source, Table) else open_table(source, storage_options)
        snapshot = table.snapshot(version=version, timestamp=timestamp)
    schema = snapshot.schema

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = schema.names if with_columns is None else with_columns
        needed = list(wanted)
        where = None
        if predicate is not None:
            roots = predicate.meta.root_names()
            needed += [name for name in schema.names if name in roots and name not in needed]
            if n_rows is None:  # else it is the first rows that are filtered
                where, is_whole = polars_predicate(predicate.meta.serialize(format="json"), schema)
                if is_whole:
                    predicate, needed = None, list(wanted)
        with snapshot.scan(needed, where, n_rows).batches() as batches:
            for batch in batches:
                frame = pl.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                yield frame.select(wanted)

    empty = pl.DataFrame(schema.empty_table())
    found: pl.LazyFrame = register_io_source(
        read, schema=empty.schema, is_pure=True, explain_name="adelta"
    )
    return found


def sink_delta(
    frame: pl.LazyFrame | pl.DataFrame, target: str | os.PathLike[str] | Table, **options: Any
) -> WriteMetrics:
    """Write a frame's rows into a table, batch by batch as polars computes them, in one commit.

    `options` are those of `write_table`: ``mode``, ``partition_by``, ``schema_mode`` and the like.

    Raises:
        AdeltaError: as `write_table` does.
    """
    lazy = frame.lazy()
    schema = pl.DataFrame(schema=lazy.collect_schema()).to_arrow().schema

    def batches() -> Iterator[pa.RecordBatch]:
        for part in lazy.collect_batches():
            yield from part.to_arrow().cast(schema).to_batches()

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    return write_table(target, reader, **options)


class _Namespace:
    """What lazy frames can do with tables."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def sink_delta(self, target: str | os.PathLike[str] | Table, **options: Any) -> WriteMetrics:
        """Write the rows into a table, as `adelta.polars.sink_delta` does."""
        return sink_delta(self._frame, target, **options)


pl.api.register_lazyframe_namespace("adelta")(_Namespace)
