"""Tables on S3: the driver reads the log there, the executors read and write data files there."""

from __future__ import annotations

import asyncio
import re

import deltalake
import pytest
from pyspark.errors import AnalysisException, PySparkException

import adelta.spark
from adelta.spark import DeltaTable
from adelta.spark.classic.jvm import why_not_listed
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


HADOOP = {
    "aws_access_key_id": "access.key",
    "aws_secret_access_key": "secret.key",
    "aws_session_token": "session.token",
    "aws_endpoint_url": "endpoint",
    "aws_region": "endpoint.region",
}


def hadoop_settings(options):
    """The same as the storage options of a test, as jobs with Hadoop's connector say it."""
    found = {f"fs.s3a.{HADOOP[key]}": value for key, value in options.items() if key in HADOOP}
    rest = {key: value for key, value in options.items() if key not in HADOOP}
    assert set(rest) <= {"aws_virtual_hosted_style_request", "allow_http", "aws_allow_http"}, rest
    return {**found, "fs.s3a.path.style.access": "true"}


def test_a_session_says_once_how_s3_is_opened(spark, s3_location, tmp_path):
    uri = s3_location.uri.replace("s3://", "s3a://")
    settings = hadoop_settings(s3_location.storage_options)
    spark.range(3).write.format("adelta").options(**settings).save(uri)  # as options, too
    assert spark.read.format("adelta").options(**settings).load(uri).count() == 3
    for key, value in settings.items():
        spark.conf.set(f"spark.hadoop.{key}", value)
    try:
        spark.range(3, 5).write.format("adelta").mode("append").save(uri)
        assert spark.read.format("adelta").load(uri).count() == 5
        spark.sql(f"CREATE TABLE on_s3 USING adelta LOCATION '{uri}'")
        spark.sql("INSERT INTO on_s3 VALUES (5)")
        spark.sql("DELETE FROM on_s3 WHERE id = 0")
        spark.sql("ALTER TABLE on_s3 ADD COLUMN more STRING")
        assert sorted(row.id for row in spark.table("on_s3").collect()) == [1, 2, 3, 4, 5]
        table = DeltaTable.forName(spark, "on_s3")
        table.update("id = 5", {"more": "'x'"})
        made = DeltaTable.create(spark).location(f"{uri}/made").addColumn("id", "BIGINT").execute()
        writer = spark.readStream.option("startingVersion", 3).table("on_s3").select("id")
        writer = writer.writeStream.option("checkpointLocation", str(tmp_path / "c"))
        query = writer.format("adelta").trigger(availableNow=True).start(f"{uri}/made")
        with pytest.raises(Exception, match="skipChangeCommits"):  # it has got to the DELETE
            query.awaitTermination(500)
        assert made.toDF().columns == ["id"]
        assert table.toDF().where("more = 'x'").count() == 1
    finally:
        for key in settings:
            spark.conf.unset(f"spark.hadoop.{key}")
        spark.sql("DROP TABLE IF EXISTS on_s3")


# What a JVM says of s3a:// where no connector is, and where one is that cannot open the folder.
NO_CONNECTORS = {
    "none": ({}, r"S3AFileSystem.* not found"),
    "one of another scheme": (
        {
            "fs.s3a.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "fs.s3a.impl.disable.cache": "true",
        },
        "Wrong FS",
    ),
    "one that does not start": (
        {"fs.s3a.impl": "org.apache.hadoop.hdfs.DistributedFileSystem"},
        "NameNode address",
    ),
}


@pytest.mark.parametrize("connector", NO_CONNECTORS)
def test_what_the_jvm_has_no_working_connector_for_is_read_by_adelta_which_says_why(
    spark, s3_location, caplog, connector
):
    uri = s3_location.uri.replace("s3://", "s3a://")
    settings, why = NO_CONNECTORS[connector]
    settings = {**hadoop_settings(s3_location.storage_options), **settings}
    own = spark.newSession()
    for key, value in settings.items():
        own.conf.set(f"spark.hadoop.{key}", value)
        if key.startswith("fs.s3a.impl"):
            own.conf.set(key, value)
    own.range(3).write.format("adelta").save(uri)
    with caplog.at_level("INFO", "adelta.spark"):
        found = own.read.format("adelta").load(uri)
    assert re.search(f"is read by adelta's data source: .*{why}", caplog.text)
    assert sorted(row.id for row in found.collect()) == [0, 1, 2]


def test_the_jvm_is_asked_for_a_folder_once_and_sees_that_it_is_not_there(spark, tmp_path):
    folder = f"file:{tmp_path}/log"
    assert "FileNotFoundException" in (why_not_listed(spark, folder) or "")
    (tmp_path / "log").mkdir()
    assert why_not_listed(spark, folder) is None
    (tmp_path / "log").rmdir()
    assert why_not_listed(spark, folder) is None


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
