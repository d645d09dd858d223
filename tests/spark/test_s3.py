"""Tables on S3: the driver reads the log there, the executors read and write data files there."""

from __future__ import annotations

import asyncio

import deltalake
import pytest
from pyspark.errors import AnalysisException, PySparkException

import adelta.spark
from adelta.spark import DeltaTable
from adelta.storage.dynamodb import DynamoTable
from adelta.storage.dynamodb_options import parse_dynamo_options


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
    s3_location.server.skip_moto("takes any secret")
    options = {**s3_location.storage_options, "aws_secret_access_key": "hunter2"}
    with pytest.raises(AnalysisException, match="PermissionDeniedError") as caught:
        adelta.spark.read(spark, s3_location.uri, storage_options=options)
    assert "hunter2" not in str(caught.value)


def test_writes_are_committed_by_the_coordinator_that_the_options_choose(
    spark, s3_location, dynamo_server
):
    uri, options = (
        s3_location.uri,
        {**s3_location.storage_options, "aws_conditional_put": "disabled"},
    )
    with pytest.raises(PySparkException, match="must not be written to"):
        adelta.spark.write(spark.range(10), uri, storage_options=options)
    options |= dynamo_server.storage_options()
    for rows in (10, 20):
        adelta.spark.write(spark.range(rows), uri, mode="append", storage_options=options)
    assert adelta.spark.read(spark, uri, storage_options=options).count() == 30

    async def entries():
        locks = DynamoTable(
            parse_dynamo_options(options, {}), partition="tablePath", sort="fileName"
        )
        found = [await locks.get(uri, f"{version:020}.json") for version in range(3)]
        await locks.aclose()
        return [entry and entry["complete"] for entry in found]

    assert asyncio.run(entries()) == ["true", "true", None]
    writer = spark.range(5).write.format("adelta").mode("append").options(**options)
    writer.option("unsafe_single_writer", "true").save(uri)  # it takes no lock away
    assert asyncio.run(entries()) == ["true"] * 3
