"""RENAME COLUMN: another name for a column, or for a field inside one; files stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError
from adelta.kernel.schema.alteration import change_field, shown
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.names import check_column_names
from adelta.kernel.table_features import COLUMN_MAPPING_MODE
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.dependents import check_independent, column_path, stats_columns_with
from adelta.operations.evolve import stage_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["check_mapped", "rename_column", "stage_renamed"]


@checked
async def rename_column(
    table: TableOrAddress,
    column: str,
    new_name: str,
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Give a column another name.

    `column` may be a field of a struct, with dots between the names (``address.city``), and the
    steps ``element``, ``key`` and ``value`` lead into arrays and maps; a name that holds a dot is
    put between backticks. `new_name` is the new last name alone. The table has to map its columns
    (`delta.columnMapping.mode`).

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: there is no such column, or the new name is taken.
        InvalidUseError: the table does not map its columns, or a constraint or a generated column
            depends on the column.
        InvalidOptionError: `column` is no name.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    async with altering(
        table,
        "RENAME COLUMN",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, opened):
        tx.describe(**await stage_renamed(tx, opened, column, new_name))
    return AlterMetrics(tx.version)


async def stage_renamed(
    tx: TransactionCore, table: Table, column: str, new_name: str
) -> dict[str, object]:
    """Stage another name of a column; what the history says of it.

    Raises:
        SchemaMismatchError, InvalidUseError: it cannot have that; see `rename_column`.
    """
    check_mapped(tx, table, "renamed")
    return await in_thread(_stage, tx, column, new_name)


def _stage(tx: TransactionCore, column: str, new_name: str) -> dict[str, object]:
    before = tx.metadata
    path = column_path(before.schema, column)
    said: dict[str, object] = {
        "oldColumnPath": shown(path),
        "newColumnPath": shown((*path[:-1], new_name)),
    }
    if path[-1] == new_name:
        return said
    schema = change_field(before.schema, path, lambda field: replace(field, name=new_name))
    check_column_names(schema, mapped=True)
    check_independent(before, path, "be renamed")
    partitions = (new_name if (name,) == path else name for name in before.partition_columns)
    after = replace(
        stats_columns_with(before, path, new_name),
        schema_string=schema_to_string(schema),
        partition_columns=tuple(partitions),
    )
    stage_metadata(tx, after)
    return said


def check_mapped(tx: TransactionCore, table: Table, verb: str) -> None:
    """Refuse to have columns `verb` where files know columns by the names that users see.

    Raises:
        InvalidUseError: the table does not map its columns.
    """
    if tx.configuration.column_mapping_mode == "none":
        raise InvalidUseError(
            f"{table.uri} does not map its columns, so none can be {verb} without writing its "
            f"files anew; set {COLUMN_MAPPING_MODE.key} to 'name' first (set_properties)"
        )
