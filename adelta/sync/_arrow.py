"""What makes handles of rows Arrow streams, for libraries that take these as they are.

A stream reads when it is read, batch by batch, in the threads of whoever takes it. Each time that
one is asked for the rows are read anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._lazy_arrow import pa
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from adelta.sync._dataset import SnapshotDataset
    from adelta.sync._iterate import BlockingIterator

__all__ = ["ArrowStream", "ArrowTable", "reader_of"]


def reader_of(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """A reader of batches, which are closed when it is given up."""

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # of what an engine takes, types have to be told beforehand
            yield batch if batch.schema.equals(schema) else batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, rows())


class ArrowStream:
    """Rows that other libraries of Arrow's read lazily: DuckDB, polars, pandas, pyarrow, ...

    DuckDB takes the variable's name for a table (``duckdb.sql("SELECT * FROM scan")``); others take
    the object (``polars.DataFrame(scan)``, ``pandas.DataFrame.from_arrow(scan)``).
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def schema(self) -> pa.Schema:
            """The columns of the rows."""

        def batches(self) -> BlockingIterator[pa.RecordBatch]:
            """The rows."""

    def __arrow_c_schema__(self) -> object:
        """The columns, to other libraries of Arrow's."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, to other libraries of Arrow's."""
        reader: Any = self.to_reader()
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader of the rows, which reads them as it is read."""
        return reader_of(self.schema, self._rows())

    def _rows(self) -> BlockingIterator[pa.RecordBatch]:
        return self.batches()

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> Any:
        """A relation of DuckDB's, which reads the rows when it is run, as often as it is run.

        `connection` is DuckDB's default one by default. It needs ``adelta[sql]``.

        Raises:
            InvalidUseError: DuckDB is not installed.
        """
        return _from_arrow(self, connection)


class ArrowTable(ArrowStream):
    """Rows of a whole version, which engines with columns and predicates read by these."""

    __slots__ = ()

    def _rows(self) -> BlockingIterator[pa.RecordBatch]:
        snapshot: Any = self
        found: BlockingIterator[pa.RecordBatch] = snapshot.scan().batches()
        return found

    def to_dataset(self) -> SnapshotDataset:
        """A data set, to whoever takes pyarrow's: it reads only what columns and filters need.

        DuckDB queries it by its variable's name, polars takes it by ``scan_pyarrow_dataset``.
        """
        from adelta.sync._dataset import SnapshotDataset

        return SnapshotDataset(self)  # type: ignore[arg-type]  # which it is part of

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> Any:
        """A relation of DuckDB's, which reads only what a query needs, as often as it is run.

        `connection` is DuckDB's default one by default. It needs ``adelta[sql]``.

        Raises:
            InvalidUseError: DuckDB is not installed.
        """
        return _from_arrow(self.to_dataset(), connection)


def _from_arrow(rows: object, connection: duckdb.DuckDBPyConnection | None) -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise InvalidUseError(
            "a relation of DuckDB's needs DuckDB, which is not installed: pip install 'adelta[sql]'"
        ) from error
    taker: Any = duckdb if connection is None else connection
    return taker.from_arrow(rows)
