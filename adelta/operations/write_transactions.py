"""The transactions that a WRITE is: one that makes a table with rows, and one that changes rows."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, get_args

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.commit.choose import coordinator_of
from adelta.errors import ConcurrentAppendError, InvalidOptionError, SchemaMismatchError
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations.clustering import check_clustered_as, check_still_clustered
from adelta.operations.create import new_table
from adelta.operations.evolve import merge_schema, overwrite_schema
from adelta.operations.overwrite import overwrite_partitions, overwrite_where
from adelta.table import begin, roots_of
from adelta.write.batches import metered, open_batches
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.schema.types import StructType
    from adelta.operations.write_kind import WriteKind
    from adelta.progress import OnProgress
    from adelta.table import Table
    from adelta.write.batches import Data
    from adelta.write.transaction_core import TransactionCore

__all__ = [
    "DEFINITIONS",
    "DefinedBy",
    "WriteRequest",
    "change_rows",
    "check_partitioned_as",
    "create_with_rows",
    "hold_to_version",
    "note_application",
]


DefinedBy = Literal[
    "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT"
]
"""A statement that defines a table by the rows of a query."""
DEFINITIONS: tuple[DefinedBy, ...] = get_args(DefinedBy)


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What is asked of a write.

    `txn` is an application's id and the number of the write; `micro_batch` the same of a streaming
    query and its micro-batch. Without `data_change` it brings rows that the table has already.
    `defined_by` says which statement defines the table, in the place of one that is there.
    `made_of` is the version of the table that the rows were computed from, where they were: all of
    it counts as read. `columns` are the columns of the rows with more detail than their Arrow
    schema has; a new table, or one whose schema is merged or overwritten, gets them.
    `assignment_zone` is the time zone of a statement that computes the rows, so that their values
    are cast to the table's types; it is None if the rows are a caller's data.
    `may_add_others` lets an overwrite by a condition bring rows that do not satisfy it.
    """

    kind: WriteKind
    partition_by: tuple[str, ...] | None
    cluster_by: tuple[str, ...] | None
    properties: Mapping[str, str]
    txn: tuple[str, int] | None
    user_metadata: str | None
    data_files: DataFileOptions = AS_THE_TABLE_SAYS
    group_commit: bool = False
    micro_batch: tuple[str, int] | None = None
    data_change: bool = True
    defined_by: DefinedBy | None = None
    description: str | None = None
    name: str | None = None
    made_of: int | None = None
    assignment_zone: str | None = None
    on_progress: OnProgress | None = None
    columns: StructType | None = None
    may_add_others: bool = False

    @property
    def application(self) -> tuple[str, int] | None:
        """By what the table knows that the write is done."""
        return self.txn if self.micro_batch is None else self.micro_batch

    def columns_of(self, rows: pa.Schema) -> StructType:
        """The columns of rows with this Arrow schema."""
        return from_arrow_schema(rows) if self.columns is None else self.columns

    def transaction(self, parameters: Mapping[str, object]) -> TransactionRequest:
        """What is asked of its transaction."""
        return TransactionRequest(
            operation="WRITE",
            parameters=parameters,
            user_metadata=self.user_metadata,
            data_files=self.data_files,
            group_commit=self.group_commit,
            # What is read or staged before the files fixes the version.
            from_latest=self.kind.mode != "append" or self.kind.schema_mode is not None,
            at_version=self.made_of,
            assignment_zone=self.assignment_zone,
        )

    @property
    def layout_parameters(self) -> dict[str, object]:
        """What the history says of a write that creates a table."""
        said = {**self.kind.parameters, "partitionBy": list(self.partition_by or ())}
        return {**said, "clusterBy": list(self.cluster_by)} if self.cluster_by else said


async def create_with_rows(table: Table, data: Data, request: WriteRequest) -> TransactionCore:
    """Create the table with its rows, in one commit; the transaction.

    Rows that were to be appended are appended to the table that another writer has created
    meanwhile, if it is the same.

    Raises:
        TableAlreadyExistsError: another writer has created the table.
        MetadataChangedError: rows were to be appended, and that table is another one.
        AdeltaError: as `Transaction.append` does.
    """
    coordinator_of(table.store)  # refused before rows are written, not after
    schema, batches = await open_batches(data)
    async with aclosing(batches):
        if schema is None:
            raise InvalidOptionError(
                f"there is no table at {table.uri}, and an iterator without batches has no schema "
                "to create one with; call create_table first"
            )
        first = await in_thread(
            new_table,
            request.columns_of(schema),
            partition_by=request.partition_by or (),
            cluster_by=request.cluster_by or (),
            properties=request.properties,
            name=request.name,
            description=request.description,
        )
        joins = request.kind.mode == "append"
        asked = request.transaction(request.layout_parameters)
        async with begin(table, asked, creates=first, joins=joins) as tx:
            note_application(tx, request.txn)
            await tx.write(metered(batches, request.on_progress), request.kind.replace_where)
    return tx


async def change_rows(table: Table, data: Data, request: WriteRequest) -> TransactionCore:
    """Append or overwrite, in one commit; the transaction.

    Raises:
        SchemaMismatchError: the table is partitioned or clustered by other columns.
        AdeltaError: as `Transaction.append` does.
    """
    async with begin(table, request.transaction(request.kind.parameters)) as tx:
        if request.kind.schema_mode != "overwrite":
            check_partitioned_as(tx.root, tx.metadata.partition_columns, request.partition_by)
        if request.cluster_by is not None:
            await check_clustered_as(tx, request.cluster_by)
        note_application(tx, request.txn)
        if request.made_of is not None:
            tx.staging.read_whole_table()
        schema, batches = await open_batches(data)
        async with aclosing(batches):
            if schema is not None and not await tx.is_applied():
                await in_thread(_evolve, tx, schema, request)
                if request.kind.schema_mode == "overwrite":
                    await check_still_clustered(tx)
            await _stage_rows(table, tx, metered(batches, request.on_progress), request)
    return tx


async def hold_to_version(tx: TransactionCore, version: int | None) -> None:
    """Let the whole table count as read by `tx`, at a version, unless that is None.

    Raises:
        ConcurrentAppendError: there is a later version.
    """
    if version is None:
        return
    await tx.read_set()
    if tx.base.version != version:
        raise ConcurrentAppendError(
            f"{tx.root}: the rows were computed from version {version}, and there is version "
            f"{tx.base.version} by now; run the statement again",
            winning_version=tx.base.version,
        )


def note_application(tx: TransactionCore, txn: tuple[str, int] | None) -> None:
    """Record with the commit how far an application has got."""
    if txn is not None:
        tx.staging.set_transactions[txn[0]] = SetTransaction(*txn, tx.now_ms)


def _evolve(tx: TransactionCore, schema: pa.Schema, request: WriteRequest) -> None:
    if request.kind.schema_mode == "merge":
        assigns = request.assignment_zone is not None
        merge_schema(tx, request.columns_of(schema), assigns=assigns)
    elif request.kind.schema_mode == "overwrite":
        overwrite_schema(tx, request.columns_of(schema), request.partition_by)


async def _stage_rows(table: Table, tx: TransactionCore, rows: Data, request: WriteRequest) -> None:
    if request.kind.mode == "append":
        await tx.write(rows)
    elif request.kind.replace_where is not None:
        await overwrite_where(tx, roots_of(table), rows, request.kind.replace_where)
    elif request.kind.partition_overwrite == "dynamic" and tx.metadata.partition_columns:
        await overwrite_partitions(tx, rows)
    else:
        await tx.overwrite(rows)


def check_partitioned_as(root: str, columns: Sequence[str], wanted: Sequence[str] | None) -> None:
    """Refuse a write that names other partition columns than the table has.

    Raises:
        SchemaMismatchError: it does.
    """
    if wanted is None:
        return
    if tuple(map(str.lower, wanted)) != tuple(map(str.lower, columns)):
        raise SchemaMismatchError(
            f"{root} is partitioned by ({', '.join(columns)}), not by ({', '.join(wanted)}); name "
            "the same columns, or none, where the table is there"
        )
