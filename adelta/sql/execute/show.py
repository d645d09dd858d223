"""SHOW PARTITIONS and SHOW CREATE TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema.type_text import type_text
from adelta.sql.execute.definition import like_table
from adelta.sql.execute.partitions import shown_partitions
from adelta.sql.records import DEFINITION, PARTITIONS, hadoop_location, table_of
from adelta.sql.statements import CreateTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from adelta.sql.session import Session
    from adelta.sql.statements import ColumnDefinition, ShowDefinition, ShowPartitions, TableName

__all__ = ["run_show_definition", "run_show_partitions"]


async def run_show_partitions(statement: ShowPartitions, session: Session) -> pa.Table:
    """The partitions that have files."""
    async with session.opened(statement.table) as table:
        found = await shown_partitions(await table.snapshot(), statement.wanted)
    return table_of(PARTITIONS, [(each,) for each in found])


async def run_show_definition(statement: ShowDefinition, session: Session) -> pa.Table:
    """The statement that makes such a table."""
    async with session.opened(statement.table) as table:
        definition = await like_table(CreateTable(statement.table, "create"), table)
        uri = table.uri
    return table_of(DEFINITION, [(_text(definition, uri),)])


def _text(definition: CreateTable, uri: str) -> str:
    columns = ",\n  ".join(map(_column, definition.columns))
    parts = [f"CREATE TABLE {_table(definition.table)} (\n  {columns})", "USING delta"]
    if definition.partition_by:
        parts.append(f"PARTITIONED BY ({', '.join(map(_name, definition.partition_by))})")
    if definition.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(map(_path, definition.cluster_by))})")
    if definition.table.parts:
        parts.append(f"LOCATION {_literal(hadoop_location(uri))}")
    if definition.comment:
        parts.append(f"COMMENT {_literal(definition.comment)}")
    if definition.properties:
        listed = ",\n  ".join(
            f"{_literal(key)} = {_literal(value)}"
            for key, value in sorted(definition.properties.items())
        )
        parts.append(f"TBLPROPERTIES (\n  {listed})")
    return "\n".join(parts) + "\n"


def _table(name: TableName) -> str:
    return _path(name.parts) if name.path is None else f"delta.{_quoted(name.path)}"


def _column(column: ColumnDefinition) -> str:
    declared = column.limit or type_text(column.type)
    said = [_name(column.name), declared if "<" in declared else declared.upper()]
    if column.generated is not None:
        said.append(f"GENERATED ALWAYS AS ({column.generated})")
    if (identity := column.identity) is not None:
        kind = "ALWAYS" if identity.always else "BY DEFAULT"
        said.append(
            f"GENERATED {kind} AS IDENTITY "
            f"(START WITH {identity.start} INCREMENT BY {identity.step})"
        )
    if not column.nullable:
        said.append("NOT NULL")
    if column.default is not None:
        said.append(f"DEFAULT {column.default}")
    if column.comment is not None:
        said.append(f"COMMENT {_literal(column.comment)}")
    return " ".join(said)


def _path(parts: Iterable[str]) -> str:
    return ".".join(map(_name, parts))


def _name(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else _quoted(name)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
