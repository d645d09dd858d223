"""WRITE: rows into a table, which is created where there is none."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._clock import moment
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, MetadataChangedError, TableAlreadyExistsError
from adelta.kernel.table_properties import FEATURE_PREFIX, PROTOCOL_KEYS
from adelta.operations.create import exists
from adelta.operations.rearrange.auto_compaction import auto_compact
from adelta.operations.write_kind import PartitionOverwrite, SchemaMode, WriteKind, WriteMode
from adelta.operations.write_transactions import WriteRequest, change_rows, create_with_rows
from adelta.table import Table, open_table
from adelta.write.conditions import condition_of, said_of
from adelta.write.spec import DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.commit.catalog import CatalogClient
    from adelta.kernel.expressions.dnf import Where
    from adelta.parquet.write.options import WriterOptions
    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress
    from adelta.write.batches import Data
    from adelta.write.transaction_core import TransactionCore

__all__ = [
    "PartitionOverwrite",
    "SchemaMode",
    "WriteMetrics",
    "WriteMode",
    "run_write",
    "write_table",
]


_log = logging.getLogger("adelta.operations")


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """What a write did.

    If `replace_where` keeps some rows of a file, the counts include the rows that are copied, as
    Delta Spark's metrics do. A file that gets a deletion vector counts as written, with its
    remaining rows.

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


@checked
async def write_table(
    table: TableOrAddress,
    data: Data,
    *,
    mode: WriteMode = "append",
    partition_by: Iterable[str] | None = None,
    cluster_by: Iterable[str] | None = None,
    schema_mode: SchemaMode | None = None,
    replace_where: Where | None = None,
    partition_overwrite: PartitionOverwrite = "static",
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    target_file_size: int | None = None,
    writer_options: WriterOptions | None = None,
    optimize_write: bool | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    group_commit: bool = False,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
    unsafe_single_writer: bool = False,
    catalog: CatalogClient | None = None,
) -> WriteMetrics:
    """Write rows into a table, and create it with the rows' schema where there is none.

    `data` is anything that exports an Arrow stream (a pyarrow table or reader, a polars or pandas
    frame, a DuckDB relation), or an iterator, asynchronous or not, of `pyarrow.RecordBatch`. It is
    written in bounded memory.

    Where there is a table, rows are appended by default; that of
    `deltalake.write_deltalake` is to raise, as the mode ``error`` does here.

    `partition_by`, `cluster_by`, which is as in `create_table`, `properties`, `name` and
    `description` are for a new table. Naming other columns than an existing table is partitioned or
    clustered by is an error, but for `partition_by` where the schema is overwritten; of properties
    that it does not have, a warning is logged (`set_properties` sets them). `txn` is an
    application's id and its version: where the table shows that the application has got there
    before, nothing is written. `storage_options`, `unsafe_single_writer` and `catalog`, which are
    as in `open_table`, are for a table given by its address.

    With the `schema_mode` ``merge`` the table takes in columns, and fields of structs, that only
    the data has, behind its own; and where `delta.enableTypeWidening` is set, a column becomes as
    wide as the data's. With ``overwrite``, which needs the mode ``overwrite``, the data's columns
    become the table's, and so does `partition_by`.

    `target_file_size` in bytes, `writer_options` and `optimize_write` say how data files are to be,
    as `DataFileOptions` does; what is None follows the table's properties. With `group_commit`
    appends of one process that wait for each other become one version, as `Table.transaction` says.
    `on_progress` is told of the rows that have been taken from `data`.

    Two arguments overwrite a part of the table only. With `replace_where` the rows for which that
    predicate is true are replaced, and every new row has to satisfy it; with `partition_overwrite`
    ``dynamic`` all rows in the partitions that new rows are in. Rows that others add there
    meanwhile are a conflict.

    Raises:
        TableAlreadyExistsError: there is a table, and the mode is ``error``.
        TableNotFoundError: the table was dropped under the handle; write again to create it.
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
    replaced = await condition_of(replace_where, now=moment())
    said = "".join(await said_of(replaced)) or None
    request = WriteRequest(
        WriteKind(mode, schema_mode, replaced, partition_overwrite, said),
        None if partition_by is None else tuple(partition_by),
        None if cluster_by is None else tuple(cluster_by),
        properties or {},
        txn,
        user_metadata,
        DataFileOptions(
            target_file_size=target_file_size,
            writer_options=writer_options,
            optimize_write=optimize_write,
        ),
        group_commit,
        name=name,
        description=description,
        on_progress=on_progress,
    )
    if isinstance(table, Table):
        if unsafe_single_writer or catalog is not None:
            raise InvalidOptionError(
                "unsafe_single_writer and catalog go to open_table, where a table is open"
            )
        return await run_write(table, data, request)
    opening = open_table(
        table, storage_options, unsafe_single_writer=unsafe_single_writer, catalog=catalog
    )
    async with opening as opened:
        return await run_write(opened, data, request)


async def run_write(table: Table, data: Data, request: WriteRequest) -> WriteMetrics:
    """Write the rows of a request to a table, which is created if it does not exist.

    Raises:
        AdeltaError: as `write_table` does.
    """
    mode = request.kind.mode
    if not await exists(table, now=mode in ("error", "ignore")):
        try:
            return await _written(table, await create_with_rows(table, data, request))
        except TableAlreadyExistsError:
            if mode == "ignore":
                return WriteMetrics(None)
            if mode == "error":
                raise
            raise MetadataChangedError(
                f"{table.uri}: another writer has created the table meanwhile; write again",
                winning_version=0,
            ) from None
    if mode == "error":
        raise TableAlreadyExistsError(
            f"there is a Delta table at {table.uri} already; choose the mode 'append', "
            "'overwrite' or 'ignore'"
        )
    if mode == "ignore":
        return WriteMetrics(None)
    tx = await change_rows(table, data, request)
    if not tx.skipped:
        _warn_of_properties(tx, request.properties)
    return await _written(table, tx)


def _warn_of_properties(tx: TransactionCore, asked: Mapping[str, str]) -> None:
    """Say which of the properties that were asked for a table that was there does not have."""
    has = tx.metadata.configuration
    lacking = sorted(
        key
        for key, value in asked.items()
        if key not in PROTOCOL_KEYS and not key.startswith(FEATURE_PREFIX) and has.get(key) != value
    )
    if lacking:
        _log.warning(
            "%s: properties are for a new table, and this one was there: it stays without the %s "
            "that were asked for; set_properties sets them",
            tx.root,
            ", ".join(lacking),
        )


async def _written(table: Table, tx: TransactionCore) -> WriteMetrics:
    found = tx.metrics
    await auto_compact(table, tx)
    return WriteMetrics(
        version=tx.version,
        num_files=found.get("numFiles", 0),
        num_output_rows=found.get("numOutputRows", 0),
        num_output_bytes=found.get("numOutputBytes", 0),
        num_removed_files=found.get("numRemovedFiles", 0),
        num_removed_bytes=found.get("numRemovedBytes", 0),
        skipped=tx.skipped,
    )
