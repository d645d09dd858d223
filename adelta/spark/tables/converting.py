"""CONVERT TO DELTA as `DeltaTable` has it: of folders, and of tables that the session knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from adelta.errors import InvalidOptionError
from adelta.operations.convert import convert_folder
from adelta.operations.convert_iceberg import convert_iceberg
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.side import side_of
from adelta.spark.tables.names import find_table, name_as_delta
from adelta.spark.translate.identifiers import identifier_parts, path_named, quoted
from adelta.spark.translate.types import to_delta_schema
from adelta.sync._portal import call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adelta.kernel.schema.types import StructType as TableSchema
    from adelta.spark.side import NamedTable

__all__ = ["DescribedEntry", "convert_in_place"]


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
        options = storage_of_session(spark, uri)
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
        storage_of_session(spark, uri),
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
    entry = side_of(spark).parquet_entry(spark, found)
    entry.check_convertible()
    if columns is None:
        columns = to_delta_schema(entry.partitions)
    location = _folder(spark, found.location, columns, statistics=statistics)
    entry.become_delta()
    return location, found.name


class DescribedEntry:
    """The entry of a Parquet table, as statements of Spark's describe and replace it."""

    def __init__(self, spark: SparkSession, table: NamedTable) -> None:
        self._spark = spark
        self._table = table
        self._name = quoted(identifier_parts(table.name))
        self._schema = spark.table(self._name).schema

    @property
    def partitions(self) -> StructType:
        """The columns by which the table is partitioned."""
        listed = self._spark.catalog.listColumns(self._name)
        names = {each.name for each in listed if each.isPartition}
        return StructType([field for field in self._schema.fields if field.name in names])

    def check_convertible(self) -> None:
        """Refuse a table whose partitions the catalog would delete.

        Raises:
            InvalidOptionError: it is such a table.
        """
        if self._table.kind != "EXTERNAL" and self.partitions.fields:
            raise InvalidOptionError(
                f"the catalog would delete the partitions of {self._table.name} when it is told, "
                "through Spark Connect, that it is a Delta table: convert it in a classic session, "
                f"or by its path, parquet.`{self._table.location}`"
            )

    def become_delta(self) -> None:
        """Let the catalog know the table as a Delta table."""
        name_as_delta(self._spark, self._table, self._schema)
