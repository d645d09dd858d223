"""CREATE and REPLACE TABLE AS SELECT: a table's definition and its first rows, in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from adelta._concurrency import in_thread
from adelta.commit.choose import coordinator_of
from adelta.errors import TableAlreadyExistsError, TableNotFoundError
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.names import as_nullable
from adelta.operations.create import definition_parameters, exists, new_table
from adelta.operations.replace import stage_definition
from adelta.operations.write_transactions import hold_to_version
from adelta.table import begin
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.kernel.transaction.creation import NewTable
    from adelta.table import Table
    from adelta.write.batches import Data

__all__ = ["Definition", "define_with_rows"]

Definition = Literal["create", "create if not exists", "replace", "create or replace"]
"""What becomes of a table that is there."""


async def define_with_rows(
    table: Table,
    rows: Data,
    schema: pa.Schema,
    *,
    mode: Definition,
    partition_by: tuple[str, ...] = (),
    cluster_by: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
    description: str | None = None,
    user_metadata: str | None = None,
    made_of: int | None = None,
) -> int:
    """Create the table with its rows, or replace it by them; how many rows it has then.

    Columns are those of `schema`, all of which may be null. What others add to a table that is
    replaced meanwhile is a conflict, and so is a version later than `made_of`, from which the rows
    were computed.

    Raises:
        TableAlreadyExistsError: there is a table, and the mode is ``create``.
        TableNotFoundError: there is none, and the mode is ``replace``.
        As `create_table`, `replace_table` and `write_table` do.
    """
    coordinator_of(table.store)  # refused before rows are written, not after
    columns = as_nullable(await in_thread(from_arrow_schema, schema))

    def define(before: TableConfiguration | None) -> NewTable:
        return new_table(
            columns,
            partition_by=partition_by,
            cluster_by=cluster_by,
            properties=properties or {},
            description=description,
            instead_of=before,
        )

    first = await in_thread(define, None)
    request = TransactionRequest(
        operation=f"{mode.removesuffix(' if not exists').upper()} TABLE AS SELECT",
        parameters=definition_parameters(first, cluster_by, properties or {}),
        user_metadata=user_metadata,
        from_latest=True,
    )
    there = await exists(table)
    if there and mode == "create if not exists":
        return 0
    if there and mode == "create":
        raise TableAlreadyExistsError(
            f"there is a Delta table at {table.uri} already; say IF NOT EXISTS or OR REPLACE"
        )
    if there:
        async with begin(table, request) as tx:
            await hold_to_version(tx, made_of)
            await stage_definition(tx, table.uri, await in_thread(define, tx.configuration))
            await tx.write(rows)
    elif mode == "replace":
        raise TableNotFoundError(
            f"there is no Delta table at {table.uri} to replace; say CREATE OR REPLACE TABLE"
        )
    else:
        try:
            async with begin(table, request, creates=first) as tx:
                await tx.write(rows)
        except TableAlreadyExistsError:
            if mode == "create if not exists":
                return 0  # it does by now
            raise
    return tx.metrics.get("numOutputRows", 0)
