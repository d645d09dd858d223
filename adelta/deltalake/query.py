"""QueryBuilder: queries in SQL over tables, run by DuckDB (``pip install 'adelta[sql]'``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import sync
from adelta._clock import moment
from adelta.deltalake._raw import stream_of
from adelta.deltalake._sql import with_spark_quotes
from adelta.deltalake.exceptions import DeltaError, raises_as_deltalake
from adelta.deltalake.table import DeltaTable  # noqa: TC001 - others import it from here
from adelta.sql.parse import parse_statement
from adelta.sql.statements import READING

if TYPE_CHECKING:
    from adelta.deltalake._raw import RawDeltaTable

__all__ = ["QueryBuilder"]


class PyQueryBuilder:
    """The tables of queries, by name."""

    def __init__(self, session_config: dict[str, str] | None = None) -> None:
        for key in session_config or {}:
            if not key.startswith("datafusion."):
                raise DeltaError(
                    "Invalid or Unsupported Configuration: could not find config namespace for key "
                    f'"{key}"'
                )
        self._tables: dict[str, RawDeltaTable] = {}

    def register(self, table_name: str, delta_table: RawDeltaTable) -> None:
        """Name a table.

        Raises:
            DeltaError: there is one of the name.
        """
        if table_name in self._tables:
            raise DeltaError(f"The table {table_name} already exists")
        self._tables[table_name] = delta_table

    @raises_as_deltalake
    def execute(self, sql: str) -> pa.RecordBatchReader:
        """The answer, as a stream.

        Raises:
            DeltaError: it is no query, but would change a table.
        """
        sql = with_spark_quotes(sql)
        if not isinstance(parse_statement(sql, now=moment()), READING):
            raise DeltaError(
                "Error during planning: a QueryBuilder runs queries, and changes no table; call "
                "adelta.sync.sql(), or the DeltaTable's own methods, for what does"
            )
        tables: dict[str, Any] = {
            name: table.handle
            if table.get_latest_version() == table.version()
            else table.snapshot.scan().to_arrow()
            for name, table in self._tables.items()
        }
        batches = sync.sql_batches(sql, tables=tables)
        first = next(iter(batches))

        def rows() -> Any:
            yield first
            yield from batches

        return pa.RecordBatchReader.from_batches(first.schema, stream_of(rows(), self))


class QueryBuilder:
    """Queries in SQL over registered tables, each at the version that its handle is at.

    DuckDB runs them. `session_config` tunes another engine, and is taken and not followed.
    """

    def __init__(self, session_config: dict[str, str] | None = None) -> None:
        self._query_builder = PyQueryBuilder(session_config)

    def register(self, table_name: str, delta_table: DeltaTable) -> QueryBuilder:
        """Name a table in queries."""
        self._query_builder.register(table_name=table_name, delta_table=delta_table._table)
        return self

    def execute(self, sql: str) -> pa.RecordBatchReader:
        """The answer of a query, as a stream."""
        return self._query_builder.execute(sql)
