"""What a CLONE of Spark's is made of: a Delta table, or files that are another format's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.types import StructType
from adelta.operations.clone_source import is_delta
from adelta.operations.convert import convert
from adelta.operations.convert_iceberg import convert_iceberg
from adelta.spark.dataframes import read
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.tables.converting import partition_columns
from adelta.spark.tables.names import find_table
from adelta.spark.tables.sql_names import named_table, storage_options
from adelta.spark.translate.identifiers import quoted
from adelta.spark.translate.types import to_delta_schema, to_spark_schema
from adelta.sql.execute.definition import columns_of, field_of
from adelta.sql.statements import TableName
from adelta.sync._portal import call

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql import types as s

    from adelta.sql.statements import CreateClone

__all__ = ["columns_of_source", "with_source"]


def with_source(spark: SparkSession, statement: CreateClone) -> CreateClone:
    """The statement, whose source is told by its path, and is of the format that it says.

    What the session knows as a table of Parquet's is partitioned as it knows.

    Raises:
        TableNotFoundError: the session knows no such table, or another one.
    """
    name = statement.source
    if name.path is None:
        found = find_table(spark, quoted(name.parts))
        provider = None if found is None else (found.provider or "").lower()
        if found is not None and provider == "parquet" and found.location is not None:
            partitions = to_delta_schema(partition_columns(spark, found))
            source = TableName((), absolute_uri(found.location))
            return replace(
                statement,
                source=source,
                source_format="parquet",
                partition_by=columns_of(partitions),
            )
    return replace(statement, source=TableName((), named_table(spark, name).path))


def columns_of_source(spark: SparkSession, statement: CreateClone) -> s.StructType:
    """The columns that the clone is to have; files of other formats are looked at for them."""
    uri = str(statement.source.path)
    options = storage_options(spark, uri)
    if statement.source_format == "delta":
        return read(spark, uri, storage_options=options).schema

    async def looked() -> pa.Schema:
        if statement.source_format == "iceberg":
            found = await convert_iceberg(uri, dry_run=True, storage_options=options)
        else:
            partitions = StructType(tuple(map(field_of, statement.partition_by)))
            found = await convert(
                uri,
                partition_schema=partitions if partitions.fields else None,
                dry_run=True,
                storage_options=options,
            )
        if found.schema is None:
            raise is_delta(uri)
        return found.schema

    return to_spark_schema(from_arrow_schema(call(looked)))
