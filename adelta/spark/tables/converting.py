"""CONVERT TO DELTA as `DeltaTable` has it: of folders, and of tables that the session knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from adelta.errors import InvalidOptionError
from adelta.operations.convert import convert_folder
from adelta.operations.convert_iceberg import convert_iceberg
from adelta.spark.classic import jvm
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.session.registration import format_of
from adelta.spark.tables.names import find_table, name_as_delta
from adelta.spark.tables.sql_names import storage_options
from adelta.spark.translate.identifiers import identifier_parts, path_named, quoted
from adelta.spark.translate.types import to_delta_schema
from adelta.sync._portal import call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adelta.kernel.schema.types import StructType as TableSchema
    from adelta.spark.tables.names import NamedTable

__all__ = ["convert_in_place", "partition_columns"]


def convert_in_place(
    spark: SparkSession,
    identifier: str,
    partitions: str | StructType | TableSchema | None,
    *,
    statistics: bool = True,
) -> tuple[str, str | None]:
    """Make a Delta table of what `identifier` names: where it is, and its name if it has one.

    `statistics` of the files are computed, if they are wanted.

    Raises:
        InvalidOptionError: it names nothing that can be converted.
        AdeltaError: as `adelta.convert` does.
    """
    columns = to_delta_schema(partitions) if isinstance(partitions, StructType) else partitions
    if (path := path_named(identifier)) is not None:  # which stays as it is, where it is one
        return _folder(spark, path, columns, statistics=statistics), None
    if (path := path_named(identifier, ("parquet",))) is not None:
        return _folder(spark, path, columns, statistics=statistics), None
    if (path := path_named(identifier, ("iceberg",))) is not None:
        uri = absolute_uri(path)
        options = storage_options(spark, uri)
        call(lambda: convert_iceberg(uri, collect_statistics=statistics, storage_options=options))
        return uri, None
    return _by_name(spark, identifier, columns, statistics=statistics)


def _folder(
    spark: SparkSession, path: str, columns: str | TableSchema | None, *, statistics: bool
) -> str:
    uri = absolute_uri(path)
    on_cluster(
        spark,
        uri,
        lambda table: convert_folder(
            table, partition_schema=columns, collect_statistics=statistics
        ),
        storage_options(spark, uri),
    )
    return uri


def _by_name(
    spark: SparkSession, name: str, columns: str | TableSchema | None, *, statistics: bool
) -> tuple[str, str | None]:
    found = find_table(spark, name)
    if found is not None and found.is_delta and found.location is not None:
        return found.location, found.name
    provider = None if found is None else (found.provider or "").lower()
    if found is None or provider != "parquet" or found.location is None:
        raise InvalidOptionError(
            f"{name!r} is neither a folder of Parquet files nor a table of Parquet's that the "
            "session knows: name a folder as parquet.`/path`, or a table of Iceberg's as "
            "iceberg.`/path`"
        )
    if jvm.unusable(spark) is not None:
        return _by_name_of_server(spark, found, columns, statistics=statistics)
    if columns is None:
        columns = to_delta_schema(partition_columns(spark, found))
    location = _folder(spark, found.location, columns, statistics=statistics)
    jvm.set_provider(spark, _entry(found), format_of(spark))
    return location, found.name


def _by_name_of_server(
    spark: SparkSession, found: NamedTable, columns: str | TableSchema | None, *, statistics: bool
) -> tuple[str, str | None]:
    """The same where the catalog is told of it by statements alone."""
    schema = spark.table(quoted(identifier_parts(found.name))).schema
    partitions = _partitions(spark, found, schema)
    if partitions.fields and found.kind != "EXTERNAL":
        raise InvalidOptionError(
            f"the catalog would delete the partitions of {found.name} when it is told, through "
            "Spark Connect, that it is a Delta table: convert it in a classic session, or by its "
            f"path, parquet.`{found.location}`"
        )
    if columns is None:
        columns = to_delta_schema(partitions)
    location = _folder(spark, str(found.location), columns, statistics=statistics)
    name_as_delta(spark, found, schema)
    return location, found.name


def partition_columns(spark: SparkSession, table: NamedTable) -> StructType:
    """The columns by which a table of the session's own catalog is partitioned."""
    if jvm.unusable(spark) is None:
        return jvm.partition_schema(spark, _entry(table))
    return _partitions(spark, table, spark.table(quoted(identifier_parts(table.name))).schema)


def _entry(table: NamedTable) -> str:
    """The name of a table in the session's own catalog."""
    return quoted(identifier_parts(table.name)[-2:])


def _partitions(spark: SparkSession, table: NamedTable, schema: StructType) -> StructType:
    """The columns by which a table is partitioned, as Spark Connect tells of them."""
    listed = spark.catalog.listColumns(quoted(identifier_parts(table.name)))
    names = {each.name for each in listed if each.isPartition}
    return StructType([field for field in schema.fields if field.name in names])
