"""Tables on S3: the driver reads the log there, the executors read and write data files there."""

from __future__ import annotations

import deltalake
import pytest
from pyspark.errors import AnalysisException

import adelta.spark
from adelta.spark import DeltaTable


def test_tables_on_s3_are_written_and_read_by_the_executors(spark, s3_location):
    uri, options = s3_location.uri, s3_location.storage_options
    df = spark.range(0, 100, 1, 4).selectExpr("id", "id % 3 part")
    adelta.spark.write(df, uri, partition_by=["part"], storage_options=options)
    # The same by the format's own options, whose keys Spark puts in lower case.
    upper = {key.upper(): value for key, value in options.items()}
    writer = df.selectExpr("id + 100 id", "part").write.format("adelta").options(**upper)
    writer.mode("append").save(uri)

    found = spark.read.format("adelta").options(**upper).load(uri)
    assert sorted(row["id"] for row in found.collect()) == list(range(200))
    few = adelta.spark.read(
        spark, uri, columns=["id"], where="part = 0 AND id >= 190", storage_options=options
    )
    assert sorted(row["id"] for row in few.collect()) == [190, 193, 196, 199]
    assert few.rdd.getNumPartitions() <= 2

    theirs = deltalake.DeltaTable(uri, storage_options=options)
    assert theirs.to_pyarrow_table().num_rows == 200

    table = DeltaTable.forPath(spark, uri, options)
    assert table.history().count() == 2
    assert table.detail().first()["location"] == uri
    assert table.toDF().count() == 200


def test_wrong_keys_are_an_error_that_shows_no_secret(spark, s3_location):
    options = {**s3_location.storage_options, "aws_secret_access_key": "hunter2"}
    with pytest.raises(AnalysisException, match="PermissionDeniedError") as caught:
        adelta.spark.read(spark, s3_location.uri, storage_options=options)
    assert "hunter2" not in str(caught.value)
