"""WRITE: rows into a table, which is created where there is none."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread
from adelta.commit.choose import coordinator_of
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    MetadataChangedError,
    SchemaMismatchError,
    TableAlreadyExistsError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.expressions.dnf import Where, to_predicate
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations.clustering import (
    check_clustered_as,
    check_still_clustered,
    clustering_names,
)
from adelta.operations.create import commit_first, exists, new_table, table_configuration
from adelta.operations.evolve import merge_schema, overwrite_schema
from adelta.operations.overwrite import overwrite_partitions, overwrite_where
from adelta.operations.write_kind import PartitionOverwrite, SchemaMode, WriteKind, WriteMode
from adelta.table import Table, known_state, latest_state, open_table
from adelta.write.batches import open_batches
from adelta.write.data_files import discard_data_files
from adelta.write.metrics import added_metrics
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions, WriteSpec
from adelta.write.write_data_files import write_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from adelta.commit.catalog import CatalogClient
    from adelta.kernel.staged import StagedChanges
    from adelta.parquet.options import WriterOptions
    from adelta.transaction import Transaction
    from adelta.write.batches import Data

__all__ = ["PartitionOverwrite", "SchemaMode", "WriteMetrics", "WriteMode", "write_table"]


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """What a write did.

    `version` is the version that it became. It is None where nothing was committed: because of the
    mode ``ignore``, or because `txn` showed the write as done before, and then `skipped` is true.
    """

    version: int | None
    num_files: int = 0
    num_output_rows: int = 0
    num_output_bytes: int = 0
    num_removed_files: int = 0
    num_removed_bytes: int = 0
    skipped: bool = False


async def write_table(
    table: Table | str,
    data: Data,
    *,
    mode: WriteMode = "append",
    partition_by: Iterable[str] | None = None,
    cluster_by: Iterable[str] | None = None,
    schema_mode: SchemaMode | None = None,
    replace_where: Where | None = None,
    partition_overwrite: PartitionOverwrite = "static",
    properties: Mapping[str, str] | None = None,
    target_file_size: int | None = None,
    writer_options: WriterOptions | None = None,
    optimize_write: bool | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    group_commit: bool = False,
    storage_options: Mapping[str, str] | None = None,
    unsafe_single_writer: bool = False,
    catalog: CatalogClient | None = None,
) -> WriteMetrics:
    """Write rows into a table, and create it with the rows' schema where there is none.

    `data` is anything that exports an Arrow stream (a pyarrow table or reader, a polars or pandas
    frame, a DuckDB relation), or an iterator, asynchronous or not, of `pyarrow.RecordBatch`. It is
    written in bounded memory.

    `partition_by`, `cluster_by`, which is as in `create_table`, and `properties` are for a new
    table. Naming other columns than an existing table is partitioned or clustered by is an error,
    but for `partition_by` where the schema is overwritten. `txn` is an application's id and its
    version: where the table shows that the application has got there before, nothing is written.
    `storage_options`, `unsafe_single_writer` and `catalog`, which are as in `open_table`,
    are for a table given by its address.

    With the `schema_mode` ``merge`` the table takes in columns, and fields of structs, that only
    the data has, behind its own; and where `delta.enableTypeWidening` is set, a column becomes as
    wide as the data's. With ``overwrite``, which needs the mode ``overwrite``, the data's columns
    become the table's, and so does `partition_by`.

    `target_file_size` in bytes, `writer_options` and `optimize_write` say how data files are to be,
    as `DataFileOptions` does; what is None follows the table's properties. With `group_commit`
    appends of one process that wait for each other become one version, as `Table.transaction` says.

    Two arguments overwrite a part of the table only. With `replace_where` the rows for which that
    predicate is true are replaced, and every new row has to satisfy it; with `partition_overwrite`
    ``dynamic`` all rows in the partitions that new rows are in. Rows that others add there
    meanwhile are a conflict.

    Raises:
        TableAlreadyExistsError: there is a table, and the mode is ``error``.
        SchemaMismatchError: the rows do not fit the table, or it is partitioned or clustered by
            other columns.
        InvariantViolationError: a column that must not be null holds a null, a row violates a
            constraint of the table or `replace_where`, or rows would be removed from a table that
            only takes appends.
        InvalidExpressionError: `replace_where`, or a constraint of the table, cannot be evaluated.
        CommitConflictError: another commit came first and the work has to be done again.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidPropertyError: a property is unknown or has a value that is not allowed.
        InvalidUseError: the table asks for no statistics of a column that is to cluster it.
        InvalidOptionError: an argument has a value that is not allowed, or the store cannot exclude
            other writers.
        StorageError: the store refused or failed.
    """
    request = _Request(
        WriteKind(mode, schema_mode, to_predicate(replace_where), partition_overwrite),
        None if partition_by is None else tuple(partition_by),
        None if cluster_by is None else clustering_names(cluster_by),
        dict(properties or {}),
        txn,
        user_metadata,
        DataFileOptions(
            target_file_size=target_file_size,
            writer_options=writer_options,
            optimize_write=optimize_write,
        ),
        group_commit,
    )
    if isinstance(table, Table):
        if unsafe_single_writer or catalog is not None:
            raise InvalidOptionError(
                "unsafe_single_writer and catalog go to open_table, where a table is open"
            )
        return await _write(table, data, request)
    opening = open_table(
        table, storage_options, unsafe_single_writer=unsafe_single_writer, catalog=catalog
    )
    async with opening as opened:
        return await _write(opened, data, request)


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments."""

    kind: WriteKind
    partition_by: tuple[str, ...] | None
    cluster_by: tuple[str, ...] | None
    properties: Mapping[str, str]
    txn: tuple[str, int] | None
    user_metadata: str | None
    data_files: DataFileOptions = AS_THE_TABLE_SAYS
    group_commit: bool = False

    @property
    def layout_parameters(self) -> dict[str, object]:
        """What the history says of a write that creates a table."""
        said = {**self.kind.parameters, "partitionBy": list(self.partition_by or ())}
        return {**said, "clusterBy": list(self.cluster_by)} if self.cluster_by else said


async def _write(table: Table, data: Data, request: _Request) -> WriteMetrics:
    if not await exists(table):
        return await _into_new(table, data, request)
    if request.kind.mode == "error":
        raise TableAlreadyExistsError(
            f"there is a Delta table at {table.uri} already; choose the mode 'append', "
            "'overwrite' or 'ignore'"
        )
    if request.kind.mode == "ignore":
        return WriteMetrics(None)
    if request.kind.schema_mode != "overwrite":
        await _check_partitioning(table, request)
    if request.cluster_by is not None:
        await check_clustered_as(table, request.cluster_by)
    if request.kind.schema_mode is not None or request.kind.partition_overwrite == "dynamic":
        await latest_state(table)  # what is written before files are read fixes the version
    tx = table.transaction(
        parameters=request.kind.parameters,
        user_metadata=request.user_metadata,
        data_files=request.data_files,
        group_commit=request.group_commit,
    )
    async with tx:
        if request.txn is not None:
            tx.set_transaction(*request.txn)
        schema, batches = await open_batches(data)
        async with aclosing(batches):
            if schema is not None and not await tx.is_applied():
                await in_thread(_evolve, tx, schema, request)
                if request.kind.schema_mode == "overwrite":
                    await check_still_clustered(tx, tx.metadata)
            await _stage_rows(table, tx, batches, request)
    return _metrics(tx)


def _evolve(tx: Transaction, schema: pa.Schema, request: _Request) -> None:
    if request.kind.schema_mode == "merge":
        merge_schema(tx, from_arrow_schema(schema))
    elif request.kind.schema_mode == "overwrite":
        overwrite_schema(tx, from_arrow_schema(schema), request.partition_by)


async def _stage_rows(table: Table, tx: Transaction, rows: Data, request: _Request) -> None:
    if request.kind.mode == "append":
        await tx.append(rows)
    elif request.kind.replace_where is not None:
        await overwrite_where(tx, table._roots, rows, request.kind.replace_where)
    elif request.kind.partition_overwrite == "dynamic" and tx.metadata.partition_columns:
        await overwrite_partitions(tx, rows)
    else:
        await tx.overwrite(rows)


async def _check_partitioning(table: Table, request: _Request) -> None:
    if request.partition_by is None:
        return
    columns = (await known_state(table)).metadata.partition_columns
    if tuple(map(str.lower, request.partition_by)) != tuple(map(str.lower, columns)):
        raise SchemaMismatchError(
            f"{table.uri} is partitioned by ({', '.join(columns)}), not by "
            f"({', '.join(request.partition_by)}); leave partition_by out"
        )


def _metrics(tx: Transaction) -> WriteMetrics:
    found = tx.metrics
    return WriteMetrics(
        version=tx.version,
        num_files=found.get("numFiles", 0),
        num_output_rows=found.get("numOutputRows", 0),
        num_output_bytes=found.get("numOutputBytes", 0),
        num_removed_files=found.get("numRemovedFiles", 0),
        num_removed_bytes=found.get("numRemovedBytes", 0),
        skipped=tx.skipped,
    )


async def _into_new(table: Table, data: Data, request: _Request) -> WriteMetrics:
    """Create the table with its rows, in one commit."""
    coordinator_of(table.store)  # refused before rows are written, not after
    schema, batches = await open_batches(data)
    async with aclosing(batches):
        if schema is None:
            raise InvalidOptionError(
                f"there is no table at {table.uri}, and an iterator without batches has no schema "
                "to create one with; call create_table first"
            )
        staged = await in_thread(
            new_table,
            from_arrow_schema(schema),
            partition_by=request.partition_by or (),
            cluster_by=request.cluster_by or (),
            properties=request.properties,
            operation="WRITE",
            parameters=request.layout_parameters,
            user_metadata=request.user_metadata,
        )
        configuration = table_configuration(staged)
        coordinator_of(table.store, configuration)
        spec = WriteSpec.of(
            configuration, files=request.data_files, where=request.kind.replace_where
        )
        files = await write_data_files(table.store, spec, batches)
    if request.txn is not None:
        stamp = SetTransaction(*request.txn, SYSTEM_CLOCK.now_ms())
        staged = replace(staged, set_transactions=(stamp,))
    staged = replace(staged, adds=tuple(files), metrics=added_metrics(files))
    try:
        try:
            await commit_first(table, staged)
        except TableAlreadyExistsError:
            return await _after_lost_creation(table, staged, request)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        await discard_data_files(table.store, [decode_path(file.path) for file in files])
        raise
    return WriteMetrics(
        version=0,
        num_files=len(files),
        num_output_rows=staged.metrics["numOutputRows"],
        num_output_bytes=staged.metrics["numOutputBytes"],
    )


async def _after_lost_creation(
    table: Table, staged: StagedChanges, request: _Request
) -> WriteMetrics:
    """Another writer created the table while we wrote our files: they may still fit into it."""
    paths = [decode_path(file.path) for file in staged.adds]
    if request.kind.mode == "ignore":
        await discard_data_files(table.store, paths)
        return WriteMetrics(None)
    state = await latest_state(table)
    ours, theirs = staged.metadata, state.metadata
    assert ours is not None
    same = ours.schema == theirs.schema and ours.partition_columns == theirs.partition_columns
    if request.kind.mode == "error":
        raise TableAlreadyExistsError(
            f"{table.uri}: another writer has created the table meanwhile"
        )
    if request.kind.mode == "overwrite" or not same:
        raise MetadataChangedError(
            f"{table.uri}: another writer has created the table meanwhile; write again",
            winning_version=0,
        )
    if request.cluster_by is not None:
        await check_clustered_as(table, request.cluster_by)
    tx = table.transaction(user_metadata=request.user_metadata)
    async with tx:
        if request.txn is not None:
            tx.set_transaction(*request.txn)
        tx.add_files(staged.adds)
    if tx.skipped:
        await discard_data_files(table.store, paths)
    return _metrics(tx)
