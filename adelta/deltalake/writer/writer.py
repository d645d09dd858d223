"""write_deltalake: rows into a table, as deltalake does it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adelta import sync
from adelta.deltalake._actions import commit_options
from adelta.deltalake._protocol import NEW
from adelta.deltalake._sql import spark_sql
from adelta.deltalake._util import check_count, check_text
from adelta.deltalake.exceptions import DeltaError, as_deltalake_errors
from adelta.deltalake.writer._utils import try_get_table_and_table_uri
from adelta.deltalake.writer.data import CastStream, delta_schema, fitted, reader_of
from adelta.deltalake.writer.modes import (
    check_known_keys,
    check_schema_mode,
    checked_mode,
    properties_of,
    split_properties,
)
from adelta.deltalake.writer.properties import writer_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from adelta import CommitOptions
    from adelta.deltalake._actions import CommitProperties, PostCommitHookProperties
    from adelta.deltalake._raw import RawDeltaTable
    from adelta.deltalake.table import DeltaTable
    from adelta.deltalake.writer.properties import WriterProperties

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
    told: dict[str, Any] = {
        "target_file_size": target_file_size,
    }
    with as_deltalake_errors():
        told["writer_options"] = writer_options(
            writer_properties,
            [name for name in reader.schema.names if name not in (partition_by or ())],
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
            sync.open_table(uri, storage_options) as handle,
        ):
            sync.write_table(
                handle.committing(options),
                rows,
                mode=mode,
                partition_by=_checked_partitions(partition_by, reader.schema),
                properties=properties,
                name=name,
                description=description,
                **told,
            )
        return
    if mode == "error":
        raise DeltaError(f"Generic error: A table already exists at: {table.table_uri}")
    with as_deltalake_errors():
        _write(table._table, reader, partition_by, mode, schema_mode, predicate, options, told)
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
    options: CommitOptions,
    told: dict[str, Any],
) -> None:
    table.update_incremental()
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
    where = None if predicate is None else spark_sql(predicate)
    handle = table.committing(options)
    if mode == "append":
        rows, where = rows.satisfying(predicate), None
    with rows.for_files_of(told["target_file_size"]).told():
        sync.write_table(
            handle,
            rows,
            mode=mode,
            schema_mode=schema_mode,
            partition_by=partition_by,
            replace_where=where,
            **told,
        )
