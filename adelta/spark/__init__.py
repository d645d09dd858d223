"""Delta tables in Spark, without a jar: a data source, and delta-spark's `DeltaTable`.

Example::

    spark = adelta.spark.get_session()
    adelta.spark.write(df, "s3://lake/orders", mode="append", partition_by=["day"])
    adelta.spark.read(spark, "s3://lake/orders", columns=["id"], where="day = '2024-02-29'")
    spark.read.format("adelta").load("s3://lake/orders")
"""

from adelta.spark import exceptions
from adelta.spark.as_delta import install_as_delta
from adelta.spark.dataframes import WriteMode, read, write
from adelta.spark.datasource import DeltaDataSource
from adelta.spark.delta_table import DeltaTable
from adelta.spark.foreach_batch import MicroBatch, foreach_batch
from adelta.spark.java import ensure_java
from adelta.spark.large_tables import checkpoint
from adelta.spark.merge_builder import DeltaMergeBuilder
from adelta.spark.optimize_builder import DeltaOptimizeBuilder
from adelta.spark.session import get_session, register
from adelta.spark.sql_text import sql
from adelta.spark.table_builder import DeltaColumnBuilder, DeltaTableBuilder, IdentityGenerator

__all__ = [
    "DeltaColumnBuilder",
    "DeltaDataSource",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "MicroBatch",
    "WriteMode",
    "checkpoint",
    "ensure_java",
    "exceptions",
    "foreach_batch",
    "get_session",
    "install_as_delta",
    "read",
    "register",
    "sql",
    "write",
]
