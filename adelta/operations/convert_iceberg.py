"""CONVERT TO DELTA of an Iceberg table: its Parquet files become those of a Delta table, in place.

No data is read or written; of each file the footer is read. The columns are found in the files by
Iceberg's field ids (column mapping by id), so that what was renamed, dropped or added in Iceberg is
so in Delta.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidPropertyError
from adelta.kernel.table_features import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    TYPE_WIDENING_ENABLED,
)
from adelta.operations.convert import (
    ConvertMetrics,
    FoundTable,
    checked_properties,
    commit_converted,
)
from adelta.operations.create import exists, new_table
from adelta.progress import Meter
from adelta.storage.parallel_list import list_in_parallel
from adelta.table import open_table, roots_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from adelta.kernel.transaction.creation import NewTable
    from adelta.operations.iceberg.files import FilesOfTable
    from adelta.operations.iceberg.metadata import IcebergTable
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectMeta, ObjectStore
    from adelta.table import Table

__all__ = ["convert_iceberg", "found_in_iceberg"]


@checked
async def convert_iceberg(
    uri: str | os.PathLike[str],
    *,
    metadata: str | None = None,
    collect_statistics: bool = True,
    name: str | None = None,
    description: str | None = None,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    unsafe_single_writer: bool = False,
    on_progress: OnProgress | None = None,
) -> ConvertMetrics:
    """Make a Delta table of the current snapshot of the Iceberg table at `uri`, in one commit.

    `metadata` is the path below `uri` of the file that holds the current metadata, such as
    ``metadata/00003-....metadata.json``: the table's catalog knows it. None is for tables without a
    catalog, which say it themselves (``version-hint.text``). The table's files stay where they are,
    those of Iceberg's own too, and nobody should write to it as an Iceberg table any more: a VACUUM
    of the Delta table deletes what only Iceberg's older snapshots need.

    Columns keep their ids, names, comments and types, and changes of types that files have seen.
    Columns by whose own values all files are partitioned are partition columns. Iceberg's other
    transforms (``bucket``, ``day``, ...) are not kept: statistics, which come from Iceberg's
    manifests, skip files instead. With `collect_statistics` off files bear none; with `dry_run`
    nothing is written. A place that is a Delta table already is left as it is. `on_progress` is
    told how far it is.

    Raises:
        TableNotFoundError: there is no such metadata.
        InvalidOptionError: only a catalog knows which metadata are the current ones; or an option
            is not allowed.
        InvalidTableError: metadata are damaged, not there, name files elsewhere, or one twice; or
            a file is damaged.
        MissingDataFileError: a data file is not there.
        UnsupportedFeatureError: rows are deleted by files of their own, a file is no Parquet or
            bears no field ids, as files that were imported, or a column has a default for files
            without.
        SchemaMismatchError: a column is of a type that Delta does not have.
        InvalidPropertyError: a property is unknown, has a value that is not allowed, is not for
            files that others have written, or asks for statistics that are not to be collected.
        InvalidUseError: pyiceberg is not installed.
        StorageError: the store refused or failed.
    """
    asked = checked_properties(properties, collect_statistics=collect_statistics)
    table = open_table(uri, storage_options, unsafe_single_writer=unsafe_single_writer)
    async with table:
        if await exists(table):
            return ConvertMetrics()
        found = await found_in_iceberg(
            table,
            metadata,
            asked,
            collect_statistics=collect_statistics,
            name=name,
            description=description,
            on_progress=on_progress,
        )
        if dry_run:
            return found.metrics
        version = await commit_converted(table, found, collect_statistics, "iceberg")
        return ConvertMetrics() if version is None else replace(found.metrics, version=version)


async def found_in_iceberg(
    table: Table,
    metadata: str | None,
    asked: Mapping[str, str],
    *,
    collect_statistics: bool = True,
    name: str | None = None,
    description: str | None = None,
    on_progress: OnProgress | None = None,
) -> FoundTable:
    """The files of the Iceberg table at the root of `table` as those of one with properties.

    Raises: as `convert_iceberg` does.
    """
    from adelta.operations.iceberg.field_ids import check_field_ids
    from adelta.operations.iceberg.files import check_there
    from adelta.operations.iceberg.metadata import read_iceberg_table

    store = roots_of(table).store
    found = await read_iceberg_table(store, metadata)
    listed = await _listed(store, found, Meter(on_progress, "listing"))
    await in_thread(check_there, table.uri, found.files, listed)
    reading = Meter(on_progress, "reading footers", total=len(found.files))
    await check_field_ids(store, found.files, reading)
    files, first = await in_thread(_new_table, found, asked, name, description)
    wanted = first.configuration.properties
    adds = await in_thread(files.adds, listed, wanted, statistics=collect_statistics)
    return await in_thread(FoundTable.of, first, adds)


async def _listed(store: ObjectStore, table: IcebergTable, meter: Meter) -> dict[str, ObjectMeta]:
    """What the store says of the files."""
    wanted = {file.path for file in table.files}
    found: dict[str, ObjectMeta] = {}
    if not wanted:
        return found
    async for page in list_in_parallel(store, limit=store.concurrency):
        before = len(found)
        found |= {meta.path: meta for meta in page if meta.path in wanted}
        meter.advance(len(found) - before)
    return found


def _new_table(
    table: IcebergTable, asked: Mapping[str, str], name: str | None, description: str | None
) -> tuple[FilesOfTable, NewTable]:
    """The files, and what the first commit says of the table."""
    from adelta.operations.iceberg.files import FilesOfTable
    from adelta.operations.iceberg.schema import converted_schema, has_type_changes

    if COLUMN_MAPPING_MODE.read(asked) not in ("none", "id"):
        raise InvalidPropertyError(
            "the columns of an Iceberg table are found by their ids: leave "
            "delta.columnMapping.mode out"
        )
    metadata = table.metadata
    schema = converted_schema(metadata.schema(), metadata.schemas)
    files = FilesOfTable(table, schema)
    made = {**asked, COLUMN_MAPPING_MODE.key: "id"}
    if has_type_changes(schema):
        made[TYPE_WIDENING_ENABLED.key] = "true"
    first = new_table(
        schema,
        partition_by=files.partition_columns,
        properties=made,
        name=name,
        description=description,
    )
    # Ids of columns that were dropped in Iceberg are in the files still: nobody else may get them.
    highest = max(metadata.last_column_id, COLUMN_MAPPING_MAX_ID.read(first.metadata.configuration))
    numbered = {**first.metadata.configuration, COLUMN_MAPPING_MAX_ID.key: str(highest)}
    return files, replace(first, metadata=first.metadata.with_configuration(numbered))
