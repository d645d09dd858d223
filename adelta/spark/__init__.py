"""Delta tables in Spark, without a jar: a data source, and delta-spark's `DeltaTable`.

Example::

    spark = adelta.spark.get_session()
    adelta.spark.write(df, "s3://lake/orders", mode="append", partition_by=["day"])
    adelta.spark.read(spark, "s3://lake/orders", columns=["id"], where="day = '2024-02-29'")
    spark.read.format("adelta").load("s3://lake/orders")
"""

from adelta.spark.dataframes import WriteMode, read, write
from adelta.spark.datasource import DeltaDataSource
from adelta.spark.delta_table import DeltaTable
from adelta.spark.java import ensure_java
from adelta.spark.session import get_session, register

__all__ = [
    "DeltaDataSource",
    "DeltaTable",
    "WriteMode",
    "ensure_java",
    "get_session",
    "read",
    "register",
    "write",
]
