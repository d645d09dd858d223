"""ALTER TABLE: one change, one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.kernel.schema.alteration import shown
from adelta.operations.alter_columns import AddedColumn, alter_columns, replace_columns
from adelta.operations.change_column import change_column
from adelta.operations.cluster_by import cluster_by
from adelta.operations.constraints import add_constraint, drop_constraint
from adelta.operations.drop_columns import drop_columns
from adelta.operations.drop_feature import drop_feature
from adelta.operations.rename_column import rename_column
from adelta.operations.set_properties import set_properties, unset_properties
from adelta.sql.execute.definition import field_of
from adelta.sql.records import NOTHING, table_of
from adelta.sql.statements import (
    AddColumns,
    AddConstraint,
    ChangeColumn,
    ClusterBy,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
    ReplaceColumns,
    SetProperties,
    UnsetProperties,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.sql.session import Session
    from adelta.sql.statements import AlterTable, Change
    from adelta.table import Table

__all__ = ["run_alter"]


async def run_alter(statement: AlterTable, session: Session) -> pa.Table:
    """Change the table."""
    async with session.opened(statement.table) as table:
        await _change(table, statement.change, session.user_metadata)
    return table_of(NOTHING)


async def _change(table: Table, change: Change, note: str | None) -> None:
    match change:
        case AddColumns():
            await _add_columns(table, change, note)
        case ReplaceColumns(definitions):
            wanted = [
                AddedColumn(field_of(replace(each, default=None)), default=each.default)
                for each in definitions
            ]
            await replace_columns(table, wanted, user_metadata=note)
        case DropColumns(columns, if_exists):
            names = map(shown, columns)
            await drop_columns(table, names, if_exists=if_exists, user_metadata=note)
        case RenameColumn(column, new_name):
            await rename_column(table, shown(column), new_name, user_metadata=note)
        case ChangeColumn():
            await change_column(
                table,
                shown(change.column),
                type=change.type,
                nullable=change.nullable,
                comment=change.comment,
                default=change.default,
                first=change.first,
                after=change.after,
                sync_identity=change.sync_identity,
                user_metadata=note,
            )
        case SetProperties(properties):
            await set_properties(table, properties, user_metadata=note)
        case UnsetProperties(names, if_exists):
            await unset_properties(table, names, if_exists=if_exists, user_metadata=note)
        case AddConstraint(name, condition):
            await add_constraint(table, name, condition, user_metadata=note)
        case DropConstraint(name, if_exists):
            await drop_constraint(table, name, if_exists=if_exists, user_metadata=note)
        case ClusterBy(columns):
            await cluster_by(table, map(shown, columns), user_metadata=note)
        case DropFeature(name, truncate_history):
            await drop_feature(table, name, truncate_history=truncate_history, user_metadata=note)


async def _add_columns(table: Table, change: AddColumns, note: str | None) -> None:
    for each in change.columns:
        if each.definition.default is not None:
            raise InvalidOptionError(
                f"the new column {shown(each.path)!r} has a default, which rows that are there "
                "would not have: add it without, and then say ALTER COLUMN ... SET DEFAULT"
            )
    await alter_columns(
        table,
        [
            AddedColumn(
                field_of(each.definition),
                shown(each.path[:-1]) if each.path[1:] else None,
                each.first,
                each.after,
            )
            for each in change.columns
        ],
        user_metadata=note,
    )
