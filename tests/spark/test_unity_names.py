"""Tables of a Unity Catalog by their names in Spark."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException

import adelta
from adelta import UnityCatalogClient
from adelta.errors import PermissionDeniedError
from adelta.spark import DeltaTable
from tests.support.managed_tables import SCHEMA
from tests.support.unity_catalog import TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.unity_catalog import UnityServer


async def created(server: UnityServer) -> None:
    """A table that the catalog manages, with a commit that is in the catalog alone."""
    client = UnityCatalogClient(server.endpoint, "main.default.trips", token=TOKEN)
    staged = await client.stage_table()
    table = await adelta.create_table(
        staged.location,
        SCHEMA,
        properties=staged.properties,
        storage_options=staged.storage_options,
        catalog=client,
    )
    async with table:
        await client.register_table(staged, await table.snapshot(version=0))
        for first in (0, 10):
            rows = pa.table({"id": list(range(first, first + 10))}, schema=SCHEMA)
            await adelta.write_table(table, rows, mode="append")
        await adelta.delete(table, "id = 3")


def knowing(spark: SparkSession, server: UnityServer) -> SparkSession:
    """A session that knows the catalog."""
    own = spark.newSession()
    own.conf.set("spark.adelta.catalog.main.uri", server.endpoint)
    own.conf.set("spark.adelta.catalog.main.token", TOKEN)
    return own


def ids(spark: SparkSession) -> list[int]:
    return sorted(row.id for row in spark.table("main.default.trips").collect())


def test_tables_that_a_unity_catalog_manages_are_changed_by_name_through_the_catalog(
    spark: SparkSession, unity_server: UnityServer
) -> None:
    asyncio.run(created(unity_server))
    own = knowing(spark, unity_server)
    before = unity_server.latest_version("main.default.trips")
    own.sql("INSERT INTO main.default.trips VALUES (50)")
    own.range(51, 53).writeTo("main.default.trips").append()
    own.range(53, 54).write.mode("append").saveAsTable("main.default.trips")
    own.range(54, 55).write.insertInto("main.default.trips")
    own.sql("DELETE FROM main.default.trips WHERE id < 10")
    own.sql("UPDATE main.default.trips SET id = id + 100 WHERE id > 50")
    assert ids(own) == [*range(10, 20), 50, *range(151, 155)]
    own.range(50, 61).createOrReplaceTempView("news")
    own.sql(
        "MERGE INTO main.default.trips t USING news n ON t.id = n.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    own.sql("DELETE FROM main.default.trips WHERE id IN (SELECT id + 100 FROM news)")
    assert ids(own) == [*range(10, 20), *range(51, 61)]
    own.sql("ALTER TABLE main.default.trips SET TBLPROPERTIES ('owner.team' = 'rides')")
    own.range(7).write.mode("overwrite").insertInto("main.default.trips")
    assert ids(own) == list(range(7))
    own.sql("ALTER TABLE main.default.trips ADD COLUMN city STRING")
    own.sql("INSERT INTO main.default.trips VALUES (7, 'Oslo')")
    assert own.table("main.default.trips").where("city = 'Oslo'").first().id == 7
    described = unity_server.description("main.default.trips")
    assert described["properties"]["owner.team"] == "rides"
    assert [field["name"] for field in described["columns"]["fields"]] == ["id", "city"]
    # Each of them is a commit that the catalog has ratified.
    assert unity_server.latest_version("main.default.trips") == before + 12
    own.conf.set("spark.adelta.catalog.main.token", "wrong")
    with pytest.raises(AnalysisException, match="PermissionDenied"):
        own.sql("INSERT INTO main.default.trips VALUES (8, 'Rome')")


def test_a_delta_table_by_the_name_of_a_unity_catalog_goes_through_the_catalog(
    spark: SparkSession, unity_server: UnityServer, tmp_path: Path
) -> None:
    asyncio.run(created(unity_server))
    own = knowing(spark, unity_server)
    before = unity_server.latest_version("main.default.trips")
    unity_server.requests()
    table = DeltaTable.forName(own, "main.default.trips")
    # Where it is and credentials, and then which commits there are.
    assert unity_server.requests() == [("GET", "trips"), ("GET", "credentials"), ("GET", "trips")]
    assert DeltaTable.isDeltaTable(own, "main.default.trips")
    assert table.delete("trips.id < 10").first() == (9,)
    assert table.update("id = 10", {"id": "id + 90"}).first() == (1,)
    news = own.range(11, 21).alias("n")
    merge = table.alias("t").merge(news, "t.id = n.id").whenMatchedDelete()
    merge.whenNotMatchedInsertAll().execute()
    table.addFeatureSupport("appendOnly")
    assert sorted(row.id for row in table.toDF().collect()) == [20, 100]
    done = unity_server.latest_version("main.default.trips") - before
    operations = [row.operation for row in table.history(done).collect()]
    assert operations == ["ADD FEATURE", "MERGE", "UPDATE", "DELETE"][-done:]
    assert done >= 3
    assert table.detail().first().name == "main.default.trips"
    copy = table.clone(str(tmp_path / "copy"), isShallow=False)
    assert copy.toDF().count() == 2
    own.conf.set("spark.adelta.catalog.main.token", "wrong")
    with pytest.raises(PermissionDeniedError, match="check the token"):
        table.delete()
    with pytest.raises(AnalysisException, match="is not a Delta table"):
        DeltaTable.forName(knowing(spark, unity_server), "main.default.none")


@pytest.mark.timeout(900)
def test_tables_are_created_in_a_unity_catalog_where_it_says_and_named_when_they_are_there(
    spark: SparkSession, unity_server: UnityServer
) -> None:
    own = knowing(spark, unity_server)
    own.sql(
        "CREATE TABLE main.default.trips (id BIGINT, city STRING) USING delta "
        "PARTITIONED BY (city) COMMENT 'by day' TBLPROPERTIES ('owner.team' = 'rides')"
    )
    described = unity_server.description("main.default.trips")
    assert described["partition-columns"] == ["city"]
    assert described["comment"] == "by day"
    assert described["properties"]["owner.team"] == "rides"
    own.sql("CREATE TABLE IF NOT EXISTS main.default.trips (id INT) USING delta")
    own.sql("INSERT INTO main.default.trips VALUES (1, 'Oslo')")
    assert own.table("main.default.trips").collect() == [(1, "Oslo")]

    own.sql("CREATE TABLE main.default.rows USING delta AS SELECT * FROM range(5)")
    own.range(7).write.saveAsTable("main.default.saved", format="adelta")
    own.range(9).writeTo("main.default.written").using("adelta").createOrReplace()
    for name, count in (("rows", 5), ("saved", 7), ("written", 9)):
        assert own.table(f"main.default.{name}").count() == count
        own.sql(f"INSERT INTO main.default.{name} VALUES (100)")
        history = own.sql(f"SELECT count(*) FROM main.default.{name} VERSION AS OF 0")
        assert history.first()[0] == count

    for statement, says in (
        ("CREATE TABLE main.default.trips (id INT) USING delta", "ALREADY_EXISTS"),
        ("CREATE TABLE main.default.other (id INT) USING parquet", "cannot be a table of parquet"),
        ("CREATE TABLE main.default.other (id INT) USING delta LOCATION '/tmp/x'", "LOCATION out"),
        ("REPLACE TABLE main.default.rows (id INT) USING delta", "are not replaced here"),
        ("CREATE TABLE main.default.other USING delta AS SELECT 1 / 0 x", "DIVIDE_BY_ZERO"),
    ):
        with pytest.raises(PySparkException, match=says):
            own.sql(statement)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.table("main.default.other")


def test_tables_of_a_unity_catalog_are_read_by_name(
    spark: SparkSession, unity_server: UnityServer
) -> None:
    asyncio.run(created(unity_server))
    own = knowing(spark, unity_server)
    expected = [i for i in range(20) if i != 3]
    assert sorted(row.id for row in own.table("main.default.trips").collect()) == expected
    found = own.sql("SELECT count(*) FROM main.default.trips VERSION AS OF 1 WHERE id < 100")
    assert found.first()[0] == 10
    arrow = own.read.option("nativeScan", "false").table("main.default.trips")  # by the executors
    assert sorted(row.id for row in arrow.collect()) == expected
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.table("main.default.none")
    with pytest.raises(AnalysisException, match="not dropped"):
        own.sql("DROP TABLE main.default.trips")
    assert sorted(row.id for row in own.table("main.default.trips").collect()) == expected
    own.conf.set("spark.adelta.catalog.main.token", "wrong")
    with pytest.raises(AnalysisException, match="PermissionDenied"):
        own.table("main.default.trips")
