"""Arrow tables into the bytes of a Parquet file, row group by row group.

Nothing here waits: the methods are CPU-heavy, and the writer calls them in worker threads.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from adelta._dictionaries import TEXTS, numbered_columns, with_dictionaries
from adelta.errors import (
    InvalidOptionError,
    NullNotAllowedError,
    SchemaMismatchError,
)
from adelta.parquet.footer.columns import ColumnTree
from adelta.parquet.write.distinct_columns import distinct_columns
from adelta.parquet.write.geospatial import with_shape_types
from adelta.parquet.write.row_shape import conform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.parquet.write.options import WriterOptions
    from adelta.parquet.write.statistics import StatisticsCollector

__all__ = ["Encoder"]

_PIECE_BYTES: Final = 4 * 1024 * 1024
_CHUNK_ROWS: Final = 16 * 1024


class Encoder:
    """Arrow's writer over a sink that keeps the bytes until they are taken.

    Its methods are CPU-heavy and run in worker threads, one at a time.
    """

    def __init__(self, path: str, schema: pa.Schema, options: WriterOptions) -> None:
        self._path = path
        self._schema = schema
        self._stored = with_shape_types(schema)
        self._key_values = dict(options.key_values)
        self._arguments = options.arrow_arguments(schema)
        self._tells = options.statistics is True
        self._numbered: frozenset[str] = frozenset()  # columns of texts that are held as numbers
        self._sink = _Sink()
        self._writer: pq.ParquetWriter | None = None

    @property
    def written(self) -> int:
        """Bytes written so far."""
        return self._sink.position

    def encode(self, tables: list[pa.Table], statistics: StatisticsCollector | None) -> list[bytes]:
        """The bytes of one more row group."""
        table = conform(self._path, _in_few_chunks(self._alike(tables)), self._schema)
        tables.clear()
        stored = table
        if self._stored is not self._schema:
            stored = conform(self._path, table, self._stored)
        with _writing(self._path):
            self._open(stored).write_table(stored, row_group_size=max(1, table.num_rows))
        if statistics is not None:
            statistics.update(table, footer_follows=self._tells)
        return self._sink.take()

    def finish(self, statistics: StatisticsCollector | None) -> tuple[list[bytes], pq.FileMetaData]:
        """The bytes that end the file, and its footer."""
        with _writing(self._path):
            writer = self._open()
            if self._key_values:
                writer.add_key_value_metadata(self._key_values)
            writer.close()
        metadata = writer.writer.metadata
        if statistics is not None:
            statistics.complete(metadata)
        return self._sink.take(), metadata

    def discard(self) -> None:
        """End Arrow's writer without keeping what it still writes."""
        self._sink.discard()
        if self._writer is not None:
            with suppress(pa.ArrowException, OSError, ValueError):
                self._writer.close()
            self._writer = None

    def _alike(self, tables: list[pa.Table]) -> list[pa.Table]:
        """The tables, with the same columns of texts as numbers in all tables of the file.

        The first row group decides which: those that come so, unless they are to be written in
        another way.
        """
        given = numbered_columns(table.schema for table in tables)
        if self._writer is None and given and self._arguments["use_dictionary"] is True:
            self._numbered = given
            places = [at for at, field in enumerate(self._schema) if field.name in given]
            alike = self._stored is self._schema
            self._schema = with_dictionaries(self._schema, places)
            self._stored = self._schema if alike else with_dictionaries(self._stored, places)
        if not (given or self._numbered):
            return tables
        return [_with_numbers(table, self._numbered) for table in tables]

    def _open(self, first: pa.Table | None = None) -> pq.ParquetWriter:
        if self._writer is None:
            if first is not None:
                self._choose_dictionaries(first)
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._sink, mode="w"),  # type: ignore[arg-type]  # has the methods
                self._stored,
                store_schema=False,
                use_compliant_nested_type=True,
                coerce_timestamps="us",
                allow_truncated_timestamps=False,
                **self._arguments,
            )
        return self._writer

    def _choose_dictionaries(self, first: pa.Table) -> None:
        """Where the options leave it open, do without those that would be given up anyway."""
        if self._arguments["use_dictionary"] is not True:
            return
        distinct = distinct_columns(first)
        if distinct:
            kept = [node for node in ColumnTree(first.schema).columns if node.name not in distinct]
            leaves = [".".join(leaf.physical_path) for node in kept for leaf in node.leaves()]
            self._arguments["use_dictionary"] = leaves or False


def _in_few_chunks(tables: list[pa.Table]) -> pa.Table:
    """The rows of all tables, small pieces of them joined.

    Statistics and Arrow's writer cost by the piece and column: several times what copying it does.
    """
    table = pa.concat_tables(tables)
    if numbered_columns([table.schema]):
        table = table.unify_dictionaries()  # Arrow's writer numbers texts anew from the second on
    chunks = table.column(0).num_chunks
    return table.combine_chunks() if table.num_rows < chunks * _CHUNK_ROWS and chunks > 1 else table


def _with_numbers(table: pa.Table, numbered: frozenset[str]) -> pa.Table:
    """The rows with the columns `numbered` as numbers of texts, and no others."""
    for place, field in enumerate(table.schema):
        is_numbered = field.type.equals(TEXTS)
        if is_numbered == (field.name in numbered):
            continue
        column: Any = table.column(place)
        column = column.cast(pa.string()) if is_numbered else column.dictionary_encode()
        table = table.set_column(place, field.with_type(column.type), column)
    return table


class _Sink:
    """A write-only file whose bytes are taken away piece by piece."""

    def __init__(self) -> None:
        self.position = 0
        self._parts: list[bytes] = []
        self._discarding = False
        self.closed = False

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.position

    def write(self, data: bytes) -> int:
        if not self._discarding:
            self._parts.append(bytes(data))
            self.position += len(data)
        return len(data)

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True

    def discard(self) -> None:
        self._discarding = True
        self._parts.clear()

    def take(self) -> list[bytes]:
        """What was written since the last call, page headers and pages joined to larger pieces."""
        pieces: list[bytes] = []
        group: list[bytes] = []
        length = 0
        for part in self._parts:
            group.append(part)
            length += len(part)
            if length >= _PIECE_BYTES:
                pieces.append(b"".join(group))
                group, length = [], 0
        if group:
            pieces.append(b"".join(group))
        self._parts.clear()
        return pieces


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Translate what Arrow raises while it writes the object at `path`."""
    try:
        yield
    except MemoryError:  # the options are not at fault
        raise
    except pa.ArrowInvalid as error:
        if "non-nullable" in str(error):
            raise NullNotAllowedError(
                f"{path}: a column that must not be null holds a null: {error}"
            ) from error
        raise SchemaMismatchError(f"{path}: Parquet cannot hold the data: {error}") from error
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(f"{path}: Parquet cannot hold the data: {error}") from error
    except (pa.ArrowException, OSError) as error:
        raise InvalidOptionError(
            f"{path}: Arrow cannot write Parquet with these options: {error}"
        ) from error
