"""Delta tables in Spark, without a jar: a data source, and delta-spark's `DeltaTable`.

Example::

    spark = adelta.spark.get_session()
    adelta.spark.write(df, "s3://lake/orders", mode="append", partition_by=["day"])
    adelta.spark.read(spark, "s3://lake/orders", columns=["id"], where="day = '2024-02-29'")
    spark.read.format("adelta").load("s3://lake/orders")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._exports import exports

if TYPE_CHECKING:
    from adelta.spark import exceptions as exceptions
    from adelta.spark.dataframes import WriteMode as WriteMode
    from adelta.spark.dataframes import read as read
    from adelta.spark.dataframes import write as write
    from adelta.spark.delta.as_delta import install_as_delta as install_as_delta
    from adelta.spark.delta.optimize_builder import DeltaOptimizeBuilder as DeltaOptimizeBuilder
    from adelta.spark.delta.table import DeltaTable as DeltaTable
    from adelta.spark.delta.table_builder import DeltaColumnBuilder as DeltaColumnBuilder
    from adelta.spark.delta.table_builder import DeltaTableBuilder as DeltaTableBuilder
    from adelta.spark.delta.table_builder import IdentityGenerator as IdentityGenerator
    from adelta.spark.foreach_batch import MicroBatch as MicroBatch
    from adelta.spark.foreach_batch import foreach_batch as foreach_batch
    from adelta.spark.large_tables import checkpoint as checkpoint
    from adelta.spark.rows.merge_builder import DeltaMergeBuilder as DeltaMergeBuilder
    from adelta.spark.session.java import ensure_java as ensure_java
    from adelta.spark.session.registration import register as register
    from adelta.spark.session.registration import sql as sql
    from adelta.spark.session.start import get_session as get_session
    from adelta.spark.source.datasource import DeltaDataSource as DeltaDataSource

__all__ = exports(
    __name__,
    {
        "adelta.spark.delta.as_delta": ("install_as_delta",),
        "adelta.spark.dataframes": (
            "WriteMode",
            "read",
            "write",
        ),
        "adelta.spark.source.datasource": ("DeltaDataSource",),
        "adelta.spark.delta.table": ("DeltaTable",),
        "adelta.spark.foreach_batch": (
            "MicroBatch",
            "foreach_batch",
        ),
        "adelta.spark.session.java": ("ensure_java",),
        "adelta.spark.large_tables": ("checkpoint",),
        "adelta.spark.rows.merge_builder": ("DeltaMergeBuilder",),
        "adelta.spark.delta.optimize_builder": ("DeltaOptimizeBuilder",),
        "adelta.spark.session.registration": (
            "register",
            "sql",
        ),
        "adelta.spark.session.start": ("get_session",),
        "adelta.spark.delta.table_builder": (
            "DeltaColumnBuilder",
            "DeltaTableBuilder",
            "IdentityGenerator",
        ),
    },
    modules=("exceptions",),
)
