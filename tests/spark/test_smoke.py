"""Everyday steps of a Delta user, in the order in which they come up: on every version of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEPS = """
import sys
import adelta.spark
adelta.spark.install_as_delta()
from pyspark.sql import SparkSession

folder = sys.argv[1]
conf = {
    "spark.driver.memory": "768m", "spark.ui.enabled": "false", "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": f"{folder}/warehouse",
}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
from delta.tables import DeltaTable

def rows(frame):
    return sorted(tuple(row) for row in frame.collect())

numbers = spark.range(10).selectExpr("id", "id % 3 AS p")
numbers.write.format("delta").partitionBy("p").save(f"{folder}/t")
assert spark.read.format("delta").load(f"{folder}/t").where("p = 1").count() == 3
print("write and read")
more = spark.range(10, 20).selectExpr("id", "id % 3 AS p")
more.write.format("delta").mode("append").save(f"{folder}/t")
print("append")
spark.sql(f"CREATE TABLE t USING delta LOCATION '{folder}/t'")
assert rows(spark.sql("SELECT count(*) FROM t")) == [(20,)]
print("name")
assert rows(spark.sql("SELECT count(*) FROM t VERSION AS OF 0")) == [(10,)]
assert spark.read.format("delta").option("versionAsOf", 0).load(f"{folder}/t").count() == 10
print("time travel")
assert rows(spark.sql("UPDATE t SET id = id + 100 WHERE p = 0")) == [(7,)]
print("update")
assert rows(spark.sql("DELETE FROM t WHERE id = 4")) == [(1,)]
print("delete")
source = spark.createDataFrame([(5, 2), (1000, 1)], "id bigint, p bigint")
merge = DeltaTable.forPath(spark, f"{folder}/t").alias("t").merge(source.alias("s"), "t.id = s.id")
merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
assert spark.table("t").count() == 20
print("merge")
spark.sql(
    "MERGE INTO t USING (SELECT 7L AS id, 1L AS p) s ON t.id = s.id WHEN MATCHED THEN DELETE"
)
assert rows(spark.sql("SELECT count(*) FROM t WHERE id IN (5, 7, 1000)")) == [(2,)]
print("merge in SQL")
spark.sql("OPTIMIZE t")
assert spark.table("t").count() == 19
print("optimize")
done = [row.operation for row in spark.sql("DESCRIBE HISTORY t").collect()]
assert done == ["OPTIMIZE", "MERGE", "MERGE", "DELETE", "UPDATE", "WRITE", "WRITE"], done
print("history")
stream = spark.readStream.format("delta").load(f"{folder}/t").writeStream.format("delta")
stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
stream.start(f"{folder}/copy").awaitTermination()
assert rows(spark.read.format("delta").load(f"{folder}/copy")) == rows(spark.table("t"))
print("stream")
spark.range(3).write.format("delta").saveAsTable("m")
spark.sql("CREATE TABLE c USING delta AS SELECT * FROM m")
spark.sql("INSERT INTO c VALUES (9)")
assert rows(spark.table("c")) == [(0,), (1,), (2,), (9,)]
print("create table as select")
spark.sql("ALTER TABLE c SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
spark.sql("INSERT INTO c VALUES (10)")
changes = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3)
assert rows(changes.table("c").select("id", "_change_type")) == [(10, "insert")]
print("change feed")
spark.stop()
"""
NAMES = [
    line.removeprefix("print(").strip('")')
    for line in STEPS.splitlines()
    if line.startswith("print(")
]


def test_everyday_steps_work_in_a_session_that_knows_tables_as_delta(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "SPARK_REMOTE"}
    environment["PYTHONPATH"] = str(ROOT)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STEPS, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert run.stdout.split("\n")[:-1] == NAMES
