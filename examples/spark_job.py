"""A job for `spark-submit`: merge the rows of a folder of JSON into a table, and tidy it up.

    spark-submit --master yarn examples/spark_job.py s3a://raw/orders s3a://lake/orders id

The executors need a Python that has adelta, by an image or a virtual environment (`--archives`); no
jar is needed. The job may be run again: a row that is there already is replaced by itself.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import adelta.spark
from adelta.spark import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(spark: SparkSession, source: str, target: str, key: str) -> dict[str, int]:
    """Merge `source` into `target` by `key`; the metrics of the merge, and the rows there are."""
    adelta.spark.register(spark)
    rows = spark.read.json(source).dropDuplicates([key])
    DeltaTable.createIfNotExists(spark).location(target).addColumns(rows.schema).execute()
    table = DeltaTable.forPath(spark, target)
    merge = table.alias("t").merge(rows.alias("s"), f.expr(f"t.`{key}` = s.`{key}`"))
    done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().collect()[0].asDict()
    table.optimize().executeCompaction()
    return {**done, "rows": table.toDF().count()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for argument in ("source", "target", "key"):
        parser.add_argument(argument)
    asked = parser.parse_args(arguments)
    spark = SparkSession.builder.appName("merge into a Delta table").getOrCreate()
    print(run(spark, asked.source, asked.target, asked.key))
    spark.stop()


if __name__ == "__main__":
    main()
