"""DESCRIBE and SHOW: what is known of a table, without its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.alteration import find_path, shown, type_at
from adelta.kernel.schema.type_text import type_text
from adelta.kernel.schema.types import StructType
from adelta.operations.detail import detail
from adelta.operations.history import history
from adelta.sql.records import (
    COLUMNS,
    DESCRIBED_COLUMN,
    DESCRIPTION,
    DETAIL,
    HISTORY,
    PROPERTIES,
    detail_row,
    hadoop_location,
    history_row,
    table_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.snapshot import Snapshot
    from adelta.sql.session import Session
    from adelta.sql.statements import (
        DescribeDetail,
        DescribeHistory,
        DescribeTable,
        Path,
        ShowColumns,
        ShowProperties,
        TableName,
    )

__all__ = [
    "run_describe",
    "run_detail",
    "run_history",
    "run_show_columns",
    "run_show_properties",
]


async def run_history(statement: DescribeHistory, session: Session) -> pa.Table:
    """The commits, newest first."""
    async with session.opened(statement.table) as table:
        found = await history(table, statement.limit)
    return table_of(HISTORY, map(history_row, found))


async def run_detail(statement: DescribeDetail, session: Session) -> pa.Table:
    """One row on the table."""
    async with session.opened(statement.table) as table:
        found = await detail(table)
    return table_of(DETAIL, [detail_row(found, ".".join(statement.table.parts) or None)])


async def run_describe(statement: DescribeTable, session: Session) -> pa.Table:
    """The columns, and how the table is partitioned; with EXTENDED, where and what it is."""
    async with session.opened(statement.table) as table:
        snapshot = await table.snapshot()
        uri = table.uri
    if statement.column:
        return _described_column(snapshot, statement.column)
    columns: dict[str, tuple[str, str, str | None]] = {
        field.name: (field.name, type_text(field.type), field.metadata.get("comment"))
        for field in snapshot.delta_schema
    }
    rows: list[tuple[str, str, str | None]] = list(columns.values())
    if snapshot.partition_columns:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [columns[name] for name in snapshot.partition_columns]
    if statement.extended:
        name = snapshot.metadata.name or ".".join(statement.table.parts)
        rows += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Name", name, ""),
            ("Comment", snapshot.metadata.description or "", ""),
            ("Location", hadoop_location(uri), ""),
            ("Provider", "delta", ""),
            ("Table Properties", _shown(dict(_properties(snapshot))), ""),
        ]
    return table_of(DESCRIPTION, rows)


def _described_column(snapshot: Snapshot, column: Path) -> pa.Table:
    schema = snapshot.delta_schema
    path = find_path(schema, column)
    within = type_at(schema, path[:-1])
    field = within.field(path[-1]) if isinstance(within, StructType) else None
    said = {
        "col_name": shown(path),
        "data_type": type_text(type_at(schema, path)),
        "comment": "NULL" if field is None else field.metadata.get("comment", "NULL"),
    }
    return table_of(DESCRIBED_COLUMN, said.items())


async def run_show_columns(statement: ShowColumns, session: Session) -> pa.Table:
    """The names of the columns."""
    return table_of(COLUMNS, [(n,) for n in (await _latest(statement.table, session)).schema.names])


async def run_show_properties(statement: ShowProperties, session: Session) -> pa.Table:
    """The properties, with the protocol as Delta Spark shows it among them."""
    found = dict(_properties(await _latest(statement.table, session)))
    if statement.key is None:
        return table_of(PROPERTIES, sorted(found.items()))
    missing = f"Table {statement.table} does not have property: {statement.key}"
    return table_of(PROPERTIES, [(statement.key, found.get(statement.key, missing))])


async def _latest(name: TableName, session: Session) -> Snapshot:
    async with session.opened(name) as table:
        return await table.snapshot()


def _properties(snapshot: Snapshot) -> list[tuple[str, str]]:
    protocol = snapshot.protocol
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return sorted(
        {
            **snapshot.properties,
            "delta.minReaderVersion": str(protocol.min_reader_version),
            "delta.minWriterVersion": str(protocol.min_writer_version),
            **{f"delta.feature.{name}": "supported" for name in features},
        }.items()
    )


def _shown(properties: dict[str, str]) -> str:
    return "[" + ",".join(f"{key}={value}" for key, value in properties.items()) + "]"
