"""DROP COLUMNS: columns, or fields inside them, that nobody reads any more; files stay the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError, InvalidUseError, SchemaMismatchError
from adelta.kernel.schema.alteration import change_field, shown, type_at
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import StructType
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.clustering import clustered_by
from adelta.operations.dependents import (
    DROPPED,
    check_independent,
    column_path,
    stats_columns_with,
)
from adelta.operations.evolve import stage_metadata
from adelta.operations.rename_column import check_mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.actions.metadata import Metadata
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["drop_columns", "stage_dropped"]


@checked
async def drop_columns(
    table: TableOrAddress,
    columns: Iterable[str],
    *,
    if_exists: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Remove columns, or fields of structs (``address.city``), from a table.

    Their values stay in the files that are there, and nobody reads them any more. The table has to
    map its columns (`delta.columnMapping.mode`). Columns that are not there are an error, unless
    `if_exists`.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: there is no such column, or none would be left.
        InvalidUseError: the table does not map its columns, is partitioned or clustered by one of
            them, or a constraint or a generated column depends on it.
        InvalidOptionError: a name is none, or there is none.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    if isinstance(columns, str):
        raise InvalidOptionError(f"columns is the text {columns!r}; give a list of names")
    wanted = list(columns)
    if not wanted:
        raise InvalidOptionError("no column is named; name one at least")
    async with altering(
        table,
        "DROP COLUMNS",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, opened):
        tx.describe(columns=await stage_dropped(tx, opened, wanted, if_exists=if_exists))
    return AlterMetrics(tx.version)


async def stage_dropped(
    tx: TransactionCore, table: Table, columns: Sequence[str], *, if_exists: bool = False
) -> list[str]:
    """Stage that columns are gone; which these are, for the history.

    Raises:
        SchemaMismatchError, InvalidUseError: they cannot be dropped; see `drop_columns`.
    """
    check_mapped(tx, table, "dropped")
    clustered = await clustered_by(tx)
    return await in_thread(_stage, tx, columns, clustered, if_exists=if_exists)


def _stage(
    tx: TransactionCore,
    names: Iterable[str],
    clustered: Sequence[tuple[str, ...]],
    *,
    if_exists: bool,
) -> list[str]:
    after, dropped = tx.metadata, []
    for name in names:
        try:
            path = column_path(after.schema, name)
        except SchemaMismatchError:
            if if_exists:
                continue
            raise
        after = _without(after, path, clustered)
        dropped.append(path)
    for path in dropped:
        check_independent(after, path, DROPPED)
    stage_metadata(tx, after)
    return [shown(path) for path in dropped]


def _without(
    metadata: Metadata, path: tuple[str, ...], clustered: Sequence[tuple[str, ...]]
) -> Metadata:
    if path[0] in metadata.partition_columns:
        raise InvalidUseError(
            f"column {shown(path)!r} cannot be dropped: the table is partitioned by it"
        )
    if any(column[: len(path)] == path for column in clustered):
        raise InvalidUseError(
            f"column {shown(path)!r} cannot be dropped: the table is clustered by it; cluster it "
            "by other columns first (cluster_by)"
        )
    parent = type_at(metadata.schema, path[:-1])
    if not isinstance(parent, StructType):
        raise SchemaMismatchError(
            f"{shown(path)!r} is a part of a value of type {parent}, which cannot be without it; "
            "drop the column itself"
        )
    rest = set(parent.names) - {path[-1]}
    if not (rest if path[:-1] else rest.difference(metadata.partition_columns)):
        raise SchemaMismatchError(
            f"column {shown(path)!r} cannot be dropped: "
            + (
                f"{shown(path[:-1])} would have no field left"
                if path[:-1]
                else "files would have no column left"
            )
        )
    schema = change_field(metadata.schema, path, lambda _: None)
    return replace(stats_columns_with(metadata, path, None), schema_string=schema_to_string(schema))
