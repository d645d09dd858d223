"""QueryBuilder: queries in SQL over tables, run by DuckDB (``pip install 'adelta[sql]'``)."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import errors as e
from adelta import sync
from adelta._clock import moment
from adelta.deltalake._arrow import in_rust, with_views
from adelta.deltalake._raw import stream_of
from adelta.deltalake._sql import with_spark_quotes
from adelta.deltalake._util import check_text, check_texts
from adelta.deltalake.exceptions import DeltaError, as_deltalake_has_it, raises_as_deltalake
from adelta.deltalake.table import DeltaTable  # noqa: TC001 - others import it from here
from adelta.sql.parse import parse_statement
from adelta.sql.statements import READING, DescribeTable, Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from adelta.deltalake._raw import RawDeltaTable
    from adelta.sql.statements import Statement

__all__ = ["QueryBuilder"]


class PyQueryBuilder:
    """The tables of queries, by name."""

    def __init__(self, session_config: dict[str, str] | None = None) -> None:
        check_texts(session_config or {})
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
        check_text(table_name)
        if table_name in self._tables:
            raise DeltaError(f"Execution error: The table {table_name} already exists")
        self._tables[table_name] = delta_table

    @raises_as_deltalake
    def execute(self, sql: str) -> pa.RecordBatchReader:
        """The answer, as a stream.

        Raises:
            DeltaError: it is no query, but would change a table; or it cannot be run.
        """
        check_text(sql)
        statement = _parsed(sql)
        if isinstance(statement, DescribeTable):
            described = self._tables.get(".".join(statement.table.parts))
            if described is not None:
                return _description(described).to_reader()
        tables: dict[str, Any] = {
            name: table.handle
            if table.get_latest_version() == table.version()
            else table.snapshot.scan().to_arrow()
            for name, table in self._tables.items()
        }
        batches = sync.sql_batches(with_spark_quotes(sql), tables=tables)
        try:
            first = next(iter(batches))
        except e.AdeltaError as error:
            raise _refused(error) from error
        begins_with_values = isinstance(statement, Query) and sql.lstrip()[:6].upper() == "VALUES"
        names = [_name(name, begins_with_values) for name in first.schema.names]
        schema = _in_engine_types(first.schema, self._tables.values())

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in chain([first], batches):
                yield batch.cast(schema).rename_columns(names)

        renamed = pa.schema(
            [field.with_name(name) for field, name in zip(schema, names, strict=True)]
        )
        return pa.RecordBatchReader.from_batches(renamed, stream_of(rows(), self))


def _parsed(sql: str) -> Statement:
    """The query.

    Raises:
        DeltaError: it is none, but would change a table; or no SQL.
    """
    try:
        statement = parse_statement(with_spark_quotes(sql), now=moment())
    except e.AdeltaError as error:
        message = str(error)[:1].upper() + str(error)[1:]
        raise DeltaError(f"SQL error: ParserError({json.dumps(message)})") from error
    if not isinstance(statement, READING):
        raise DeltaError(
            "Error during planning: a QueryBuilder runs queries, and changes no table; call "
            "adelta.sync.sql(), or the DeltaTable's own methods, for what does"
        )
    return statement


def _refused(error: e.AdeltaError) -> Exception:
    """The error of a query, which begins with deltalake's words."""
    message = str(error)
    if found := re.search(r"no table is named (\S+)", message):
        return DeltaError(
            f"Error during planning: table 'datafusion.public.{found[1]}' not found: {message}"
        )
    if found := re.search(r'Referenced column "([^"]*)" not found', message):
        return DeltaError(f"Schema error: No field named {found[1]}. {message}")
    return as_deltalake_has_it(error)


def _name(name: str, of_values: bool) -> str:
    """What DataFusion calls a column that DuckDB calls `name`."""
    if of_values:
        return f"column{int(name.removeprefix('col')) + 1}"
    return "count(*)" if name == "count_star()" else name


def _in_engine_types(schema: pa.Schema, tables: Iterable[RawDeltaTable]) -> pa.Schema:
    """The schema of an answer in DataFusion's types: sums of whole numbers have 64 bits."""
    wide = pa.decimal128(38, 0)
    if not any(wide in table.snapshot.schema.types for table in tables):
        narrow = [f.with_type(pa.int64()) if f.type == wide else f for f in schema]
        schema = pa.schema(narrow)
    lists = [
        f.with_type(pa.list_(f.type.value_field.with_name("element")))
        if pa.types.is_list(f.type)
        else f
        for f in schema
    ]
    return with_views(pa.schema(lists))


def _description(table: RawDeltaTable) -> pa.Table:
    """What DESCRIBE says of a table."""
    fields = list(with_views(table.snapshot.schema))
    told = pa.table(
        {
            "column_name": [field.name for field in fields],
            "data_type": [in_rust(field.type) for field in fields],
            "is_nullable": ["YES" if field.nullable else "NO" for field in fields],
        }
    )
    return told.cast(with_views(told.schema))


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
