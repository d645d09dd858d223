"""write_deltalake: rows into a table, as deltalake does it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adelta import DataFileOptions, sync
from adelta._clock import moment
from adelta.deltalake._actions import commit_options
from adelta.deltalake._protocol import NEW
from adelta.deltalake._sql import spark_sql
from adelta.deltalake._storage_options import open_table
from adelta.deltalake._util import check_count, check_text
from adelta.deltalake.exceptions import DeltaError, SchemaMismatchError, as_deltalake_errors
from adelta.deltalake.writer._utils import try_get_table_and_table_uri
from adelta.deltalake.writer.data import (
    GENERATED,
    CastStream,
    columns_of,
    delta_schema,
    fitted,
    reader_of,
)
from adelta.deltalake.writer.modes import (
    check_known_keys,
    check_schema_mode,
    checked_mode,
    properties_of,
    split_properties,
)
from adelta.deltalake.writer.properties import writer_options
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from adelta.deltalake._actions import CommitProperties, PostCommitHookProperties
    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake.table import DeltaTable
    from adelta.deltalake.writer.properties import WriterProperties
    from adelta.kernel.schema.types import StructType

__all__ = ["write_deltalake"]


def write_deltalake(
    table_or_uri: str | Path | DeltaTable,
    data: Any,
    *,
    partition_by: list[str] | str | None = None,
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    storage_options: dict[str, str] | None = None,
    predicate: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Write rows into a table, and create it where there is none.

    `data` exports Arrow data (a pyarrow table, batch or reader, a frame of pandas or polars), or is
    a list of such batches. `partition_by`, `name`, `description` and `configuration` are for a new
    table; other partition columns need ``overwrite`` for `mode` and `schema_mode`. With a
    `predicate` ``overwrite`` replaces the rows for which it is true, and all rows written have to
    satisfy it, those of a new table as well.

    Raises:
        DeltaError: there is a table, and the mode is ``error``; or rows or options do not fit.
        SchemaMismatchError: the data has other columns than the table.
        ValueError: `data` exports no Arrow data, `table_or_uri` is no address, or
            `target_file_size` is 0.
        OverflowError: `target_file_size` is negative.
        CommitFailedError: another commit came first.
    """
    table, uri = try_get_table_and_table_uri(table_or_uri, storage_options)
    if table is not None and mode == "ignore":
        return
    mode = checked_mode(mode)  # type: ignore[assignment]  # it is one of them now
    check_schema_mode(schema_mode, mode)
    check_count(target_file_size)
    if target_file_size == 0:
        raise ValueError("target_file_size must be greater than 0")
    if partition_by is not None:
        partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    check_text(*(each for each in (name, description) if each is not None))
    reader = reader_of(data)
    options = commit_options(commit_properties, post_commithook_properties)
    with as_deltalake_errors():
        columns = [name for name in reader.schema.names if name not in (partition_by or ())]
        data_files = DataFileOptions(
            target_file_size=target_file_size,
            writer_options=writer_options(writer_properties, columns),
        )
    if table is None:
        properties = properties_of(configuration)
        check_known_keys(properties)
        properties, beside = split_properties(properties)
        options = replace(options, properties=beside, before=NEW)
        with as_deltalake_errors():
            rows = _for_new_table(reader).for_files_of(target_file_size).satisfying(predicate)
        with (
            rows.told(),
            as_deltalake_errors(),
            open_table(uri, storage_options) as handle,
        ):
            _write_rows(
                handle.committing(options),
                rows,
                data_files,
                mode=mode,
                partition_by=_checked_partitions(partition_by, reader.schema),
                properties=properties,
                name=name,
                description=description,
            )
        return
    if mode == "error":
        raise DeltaError(f"Generic error: A table already exists at: {table.table_uri}")
    with as_deltalake_errors():
        _write(
            table._table, reader, partition_by, mode, schema_mode, predicate, options, data_files
        )
        table.update_incremental()


def _for_new_table(reader: pa.RecordBatchReader) -> CastStream:
    if not reader.schema.names:
        raise DeltaError("At least one column must be defined to create a table.")
    return CastStream(reader, delta_schema(reader.schema))


def _checked_partitions(columns: list[str] | None, schema: pa.Schema) -> list[str] | None:
    for name in columns or ():
        if name not in schema.names:
            raise DeltaError(
                f"Kernel error: Generic delta kernel error: Partition column '{name}' not found in "
                "schema"
            )
    return columns


def _write(
    table: RawDeltaTable,
    reader: pa.RecordBatchReader,
    partition_by: list[str] | None,
    mode: Any,
    schema_mode: Any,
    predicate: str | None,
    options: DeltalakeCommit,
    data_files: DataFileOptions,
) -> None:
    table.update_incremental()
    if schema_mode is not None:
        options = replace(options, before=table.snapshot.protocol)
    own = list(table.snapshot.partition_columns)
    redefined = schema_mode == "overwrite" and mode == "overwrite" and predicate is None
    if partition_by is not None and partition_by != own and not redefined:
        raise DeltaError(
            "Generic error: Specified table partitioning does not match table partitioning: "
            f"expected: {json.dumps(own)}, got: {json.dumps(partition_by)}. To change partition "
            "columns, use full table overwrite with schema overwrite and no replaceWhere predicate."
        )
    if redefined:
        rows = _for_new_table(reader)
        partition_by = own if partition_by is None else partition_by
        _checked_partitions(partition_by, rows.schema)
    else:
        rows = fitted(reader, table.schema.to_arrow(), schema_mode)
        partition_by = None
    if schema_mode == "merge":
        _check_not_generated(rows.schema, table.schema._kind)
    where = None if predicate is None else spark_sql(predicate)
    if mode == "append":
        rows, where = rows.satisfying(predicate), None
    with rows.for_files_of(data_files.target_file_size).told():
        _write_rows(
            table.committing(options),
            rows,
            data_files,
            mode=mode,
            schema_mode=schema_mode,
            partition_by=partition_by,
            where=where,
        )


def _write_rows(
    handle: sync.Table,
    rows: CastStream,
    data_files: DataFileOptions,
    *,
    mode: Any,
    schema_mode: Any = None,
    partition_by: list[str] | None = None,
    where: str | None = None,
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
) -> None:
    """Write the rows as `adelta.sync.write_table` does, and keep the metadata of their fields."""
    from adelta.operations.write import run_write
    from adelta.operations.write_kind import WriteKind
    from adelta.operations.write_transactions import WriteRequest
    from adelta.write.conditions import condition_of, said_of

    columns = columns_of(rows.schema)

    async def write() -> None:
        condition = await condition_of(where, now=moment())
        said = "".join(await said_of(condition)) or None
        request = WriteRequest(
            kind=WriteKind(mode, schema_mode, condition, predicate=said),
            partition_by=None if partition_by is None else tuple(partition_by),
            cluster_by=None,
            properties=properties or {},
            txn=None,
            user_metadata=None,
            data_files=data_files,
            name=name,
            description=description,
            columns=columns,
        )
        await run_write(handle._async(), rows, request)

    call(write)


def _check_not_generated(rows: pa.Schema, table: StructType) -> None:
    """Refuse to add generated columns, as existing rows would have no values for them.

    Raises:
        SchemaMismatchError: a new column is generated.
    """
    for field in rows:
        if GENERATED in (field.metadata or {}) and table.field(field.name) is None:
            raise SchemaMismatchError(
                "Schema evolved fields cannot have generated expressions. Recreate the table to "
                f"achieve this: {field.name!r} is generated"
            )
