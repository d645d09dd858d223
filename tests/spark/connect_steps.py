"""What `test_connect` asks of a client of Spark Connect; each step is a function of its own."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import time
import traceback
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Thread

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

import adelta.spark
import adelta.sync
from adelta.errors import InvalidExpressionError
from adelta.spark import DeltaTable, IdentityGenerator
from tests.spark import connect_job_steps, connect_name_steps, connect_session_steps
from tests.spark.conditions import check_conditions
from tests.spark.connect_job_steps import raises
from tests.spark.own_rows import check_own_rows
from tests.spark.replacing import check_names, check_replacing, check_what_is_refused


def ids(table: DeltaTable) -> list[int]:
    return sorted(row.id for row in table.toDF().collect())


def written(spark, path: str) -> DeltaTable:
    df = spark.range(6).selectExpr("id", "CAST(id % 2 AS INT) part", "date'2024-01-01' day")
    adelta.spark.write(df, path, partition_by=["part"])
    return DeltaTable.forPath(spark, path)


def step_tables_are_written_and_read_by_format(spark, path):
    spark.range(3).write.format("adelta").mode("append").save(path)
    spark.range(3, 5).write.format("adelta").mode("append").save(path)
    assert spark.read.format("adelta").load(path).count() == 5
    assert spark.read.format("adelta").option("versionAsOf", "0").load(path).count() == 3


def step_tables_are_opened(spark, path):
    table = written(spark, path)
    assert DeltaTable.isDeltaTable(spark, path)
    assert not DeltaTable.isDeltaTable(spark, path + "_")
    raises(AnalysisException, "is not a Delta table", lambda: DeltaTable.forPath(spark, path + "_"))
    assert table.alias("t").toDF().where("t.id = 1").select("t.part").collect() == [(1,)]


def step_rows_that_match_new_ones_are_replaced(spark, path):
    check_replacing(spark, f"{path}-a")
    check_names(spark, f"{path}-b")
    check_what_is_refused(spark, f"{path}-c")


def step_rows_that_come_while_a_change_reads_its_own_table_are_a_conflict(spark, path):
    check_own_rows(spark, path)


def step_who_interrupts_the_tag_of_the_caller_interrupts_a_merge_as_a_whole(spark, path):
    table = written(spark, path)
    flag = Path(path + "-begun")

    def slow(batches):
        flag.touch()
        time.sleep(200)
        yield from batches

    def interrupt():
        while not (flag.exists() and spark.interruptTag("of-the-caller")):
            time.sleep(0.05)

    late = spark.range(5).mapInArrow(slow, "id bigint")
    spark.addTag("of-the-caller")
    thread = Thread(target=interrupt)
    thread.start()
    try:
        merge = table.alias("t").merge(late.alias("s"), "t.id = s.id").whenMatchedDelete()
        raises(PySparkException, "OPERATION_CANCELED", merge.execute)
    finally:
        spark.removeTag("of-the-caller")
        thread.join()
    assert ids(table) == list(range(6))


def step_rows_and_places_that_do_not_fit_a_table_by_name_are_told(spark, path):
    adelta.spark.sql(
        spark,
        "CREATE TABLE nested (s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>) USING adelta",
    )
    adelta.spark.sql(spark, "INSERT INTO nested VALUES (struct(1, 'x'), array(struct(5)))")
    spark.sql("SELECT named_struct('p', 2, 'q', 'y'), NULL").write.insertInto("nested")
    adelta.spark.sql(spark, "INSERT INTO nested SELECT struct(3, NULL), NULL")
    rows = spark.table("nested").selectExpr("s.a", "s.b", "l[0].x").orderBy("a").collect()
    assert rows == [(1, "x", 5), (2, "y", None), (3, None, None)]
    other = path + "-other"
    spark.range(1).write.format("adelta").save(other)
    move = "ALTER TABLE nested SET LOCATION"
    for place, said in ((other, "has other columns"), (path, "no Delta table")):
        raises(
            AnalysisException,
            said,
            lambda place=place: adelta.spark.sql(spark, f"{move} '{place}'"),
        )
    assert spark.table("nested").count() == 3
    replaces = "ALTER TABLE nested REPLACE COLUMNS (s STRING)"
    raises(AnalysisException, "one by one", lambda: adelta.spark.sql(spark, replaces))
    assert spark.table("nested").columns == ["s", "l"]
    adelta.spark.sql(spark, "ALTER TABLE nested RENAME TO nested_too")
    assert spark.table("nested_too").count() == 3
    adelta.spark.sql(spark, "DROP TABLE nested_too")
    builder = DeltaTable.create(spark).tableName("empty")
    raises(AnalysisException, "a column at least", builder.execute)


def step_history_and_detail_are_dataframes(spark, path):
    table = written(spark, path)
    assert [row.operation for row in table.history(1).collect()] == ["WRITE"]
    [row] = table.detail().collect()
    assert (row.format, row.partitionColumns) == ("delta", ["part"])


def step_large_tables_are_checkpointed_and_planned_by_executors(spark, path):
    table = written(spark, path)
    with adelta.sync.open_table(path) as opened:
        files = opened.snapshot().files().num_rows
    found = adelta.spark.checkpoint(spark, path, parts=2)
    assert (found.version, found.num_files) == (0, files)
    table.delete("part = 0")
    adelta.sync.set_properties(path, {"delta.checkpointPolicy": "v2"})
    assert 0 < adelta.spark.checkpoint(spark, path).num_files < files
    spark.conf.set("spark.adelta.snapshot.distributedPlanningFiles", "1")
    try:
        df = adelta.spark.read(spark, path, where="part = 1")
        assert sorted(row.id for row in df.collect()) == [1, 3, 5]
    finally:
        spark.conf.unset("spark.adelta.snapshot.distributedPlanningFiles")


def step_a_stream_begins_in_the_order_of_event_times(spark, path):
    table = written(spark, path)
    more = spark.sql("SELECT 7L id, 7 part, date'2024-01-07' day, timestamp'2024-01-01 01:00' at")
    more.write.format("adelta").option("mergeSchema", "true").mode("append").save(path)
    asked = spark.readStream.format("adelta").option("withEventTimeOrder", "true")
    rows = asked.option("maxFilesPerTrigger", 1).load(path).withWatermark("at", "1 minute")
    to = f"{path}-ordered"
    writer = rows.writeStream.format("adelta").option("checkpointLocation", f"{to}-checkpoint")
    query = writer.trigger(availableNow=True).start(to)
    assert query.awaitTermination(300)
    assert ids(adelta.spark.DeltaTable.forPath(spark, to)) == ids(table)


def step_rows_are_deleted_and_updated(spark, path):
    table = written(spark, path)
    assert table.delete("id = 5").collect() == [(1,)]
    assert table.delete((f.col("id") == 4) | f.col("part").isin(7, 8)).collect() == [(1,)]
    condition = ~(f.col("id") < 3) & (f.col("day") == dt.date(2024, 1, 1)) & f.expr("part = 1")
    done = table.update(condition, {"id": f.col("id") * 10 + f.lit(Decimal(1)).cast("long")})
    assert done.collect() == [(1,)]
    assert ids(table) == [0, 1, 2, 31]
    case = f.when(f.col("id") > 30, f.lit(30)).otherwise(-f.col("id"))
    table.alias("t").update(f.col("t.id") > 1, {"t.id": case})
    assert ids(table) == [-2, 0, 1, 30]
    table.delete(f.col("part").isNull() | f.col("id").between(-2, 0))
    assert ids(table) == [1, 30]
    raises(InvalidExpressionError, "nothing", lambda: table.delete(f.soundex("nothing") == "a"))
    raises(TypeError, "must be a Spark SQL Column", lambda: table.delete(5))
    for wrong in ("id ==", f.expr("id ==")):
        raises(ParseException, "PARSE_SYNTAX_ERROR", lambda wrong=wrong: table.delete(wrong))
    raises(ParseException, "PARSE_SYNTAX", lambda: table.optimize().where("id =="))


def step_rows_are_found_by_what_only_spark_computes(spark, path):
    table = written(spark, path)
    odd = f.udf(lambda number: number % 2 == 1, "boolean")
    assert table.alias("t").delete(odd(f.col("t.id") + 2)).collect() == [(3,)]
    assert table.update(odd("part") | (f.col("id") == 2), {"id": "nvl2(id, 7, 8)"}).count() == 1
    assert table.delete("levenshtein(string(id), '5') = 1 AND id < 1").collect() == [(1,)]
    assert ids(table) == [4, 7]
    rows = spark.createDataFrame([(4, 1)], "id BIGINT, part INT")
    ten = f.udf(lambda number: number * 10, "int")
    merge = table.merge(rows.alias("s"), "target.id = s.id")
    merge.whenMatchedUpdate(odd("s.part"), {"part": ten("s.part")}).execute()
    assert table.toDF().where("part = 10").select("id").collect() == [(4,)]
    twice = f.udf(lambda number, other: number == 2 * other, "boolean")
    merge = table.alias("t").merge(rows, twice(f.col("t.part"), ten(rows["part"]) / 2))
    merge = merge.whenMatchedUpdate(odd("t.id") | (rows["id"] == 4), {"part": ten("t.part")})
    merge = merge.whenNotMatchedBySourceDelete(odd(table.toDF().id))
    merge = merge.whenNotMatchedInsert(values={"id": rows["id"]})
    assert merge.execute().first().num_affected_rows == 2
    assert table.toDF().select("id", "part").collect() == [(4, 100)]
    nested = f"{path}-nested"
    spark.sql("SELECT array(struct(id)) AS l, id AS v FROM range(3)").write.format("adelta").save(
        nested
    )
    arrays, one = DeltaTable.forPath(spark, nested), f.udf(lambda of: of[0].id == 1, "boolean")
    merge = arrays.alias("t").merge(spark.range(1).toDF("n"), one("t.l"))
    assert merge.whenMatchedUpdate(set={"v": "7"}).execute().first().num_updated_rows == 1
    assert arrays.delete(one("l")).collect() == [(1,)]
    for unsettled in (f.rand() < 2, "rand() < 2", odd.asNondeterministic()("id")):
        raises(AnalysisException, "whenever", lambda wrong=unsettled: table.delete(wrong))


def step_statements_ask_what_only_spark_computes(spark, path):
    table = written(spark, path)
    spark.udf.register("odd", lambda number: number % 2 == 1, "boolean")
    spark.range(4, 6).createOrReplaceTempView("some")

    def sql(text, args=None):
        return adelta.spark.sql(spark, text, args).collect()

    name = f"delta.`{path}`"
    text = f"DELETE FROM {name} AS t WHERE CASE WHEN odd(t.id) THEN t.id END > ?"
    assert sql(text, [3]) == [(1,)]
    unread = Path(path, "part=1").rename(Path(path, "away"))
    text = "part BETWEEN 0 AND 0 AND id IN (SELECT id FROM some) AND part < 1"
    assert sql(f"DELETE FROM {name} WHERE {text}") == [(1,)]
    unread.rename(Path(path, "part=1"))
    text = f"UPDATE {name} SET part = length(soundex(string(id))) + 3 + id, day = DEFAULT"
    text += " WHERE odd(id) OR id = 2"
    assert sql(text) == [(3,)]
    text = f"MERGE INTO {name} t USING (SELECT id, 7 AS n FROM some WHERE id = 4) s ON odd(t.part)"
    text += " WHEN MATCHED AND odd(t.id) THEN DELETE WHEN MATCHED THEN UPDATE SET part = s.n"
    text += " WHEN NOT MATCHED BY SOURCE AND soundex('x') = 'X000' AND odd(id) THEN DELETE"
    assert sql(text) == [(2, 0, 2, 0)]
    rows = table.toDF().select("id", "part", "day").orderBy("id").collect()
    assert rows == [(0, 0, dt.date(2024, 1, 1)), (2, 6, None)]
    raises(AnalysisException, "nothing", lambda: sql(f"DELETE FROM {name} WHERE odd(nothing)"))
    raises(AnalysisException, "Syntax|SYNTAX", lambda: sql(f"DELETE FROM {name} WHERE odd(id"))


def step_times_are_of_the_sessions_zone(spark, path):
    df = spark.sql("SELECT 1 id, timestamp'2024-01-01 00:30:00' AS at")
    adelta.spark.write(df, path)
    table = DeltaTable.forPath(spark, path)
    assert table.delete(f.col("at") < "2024-01-01 00:00:00").collect() == [(0,)]
    moment = f.lit(dt.datetime(2024, 1, 1, 5, 30, tzinfo=dt.UTC))
    assert table.update(f.col("at") == moment, {"id": "2"}).collect() == [(1,)]


def step_protocols_and_features_change(spark, path):
    table = written(spark, path)
    table.upgradeTableProtocol(1, 3)
    table.addFeatureSupport("vacuumProtocolCheck")
    table.dropFeatureSupport("vacuumProtocolCheck", True)
    [row] = table.detail().collect()
    assert (row.minReaderVersion, row.minWriterVersion) == (1, 3)


def step_tables_are_built(spark, path):
    builder = DeltaTable.create(spark).location(path).addColumn("id", "BIGINT", False)
    builder.addColumn("n", s.LongType(), generatedAlwaysAs=IdentityGenerator(5, 5))
    table = builder.addColumns([s.StructField("c", s.StringType())]).execute()
    adelta.sync.write_table(path, spark.sql("SELECT 1L id, 'x' c").toArrow())
    assert table.toDF().collect() == [(1, 5, "x")]
    raises(AnalysisException, "already", builder.execute)
    replaced = DeltaTable.createOrReplace(spark).location(path).addColumn("z", "DATE").execute()
    assert replaced.toDF().columns == ["z"]


def step_tables_have_names(spark, path):
    made = DeltaTable.create(spark).tableName("named").addColumn("id", "BIGINT").execute()
    adelta.spark.write(spark.range(2), made.detail().collect()[0].location, mode="append")
    assert ids(DeltaTable.forName(spark, "default.named")) == [0, 1]
    assert DeltaTable.forName(spark, "named").delete("named.id = 0").collect() == [(1,)]
    there = DeltaTable.create(spark).tableName("there").location(path).addColumn("id", "BIGINT")
    there.execute()
    assert DeltaTable.isDeltaTable(spark, "there")
    raises(AnalysisException, "not a Delta table", lambda: DeltaTable.forName(spark, "nothing"))
    spark.range(1).createOrReplaceTempView("a_view")
    raises(AnalysisException, "is a view", lambda: DeltaTable.forName(spark, "a_view"))


def step_statements_are_run_on_tables_by_path(spark, path):
    def sql(text, args=None):
        return [tuple(row) for row in adelta.spark.sql(spark, text, args).collect()]

    table = f"delta.`{path}`"
    sql(f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP, p INT) PARTITIONED BY (p)")
    sql(
        f"INSERT INTO {table} VALUES (1, TIMESTAMP '2024-01-01 00:30:00', 1), (2, NULL, :p)",
        {"p": 2},
    )
    spark.range(3, 5).createOrReplaceTempView("numbers")
    assert sql(f"INSERT INTO {table} (id, p) SELECT id, 3 FROM numbers") == []
    sql(f"INSERT OVERWRITE {table} PARTITION (p = 3) (id) SELECT max(id) FROM {table}")
    assert sql(f"SELECT id, p FROM {table} AS t WHERE t.id <> ? ORDER BY id", [1]) == [
        (2, 2),
        (4, 3),
    ]
    insert = f"INSERT OVERWRITE {table} PARTITION (p) (id, p)"
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    sql(f"{insert} VALUES (4, 3)")
    assert sql(f"SELECT count(*) FROM {table}") == [(3,)]
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    sql(f"INSERT INTO {table} TABLE {table}")
    sql(f"INSERT OVERWRITE {table} PARTITION (p = 1) (id) SELECT 1 WHERE false")
    assert sql(f"SELECT count(*) FROM {table}") == [(4,)]
    sql(f"{insert} SELECT 5, 5")
    assert sql(f"SELECT id FROM {table}") == [(5,)]
    sql(f"RESTORE {table} TO VERSION AS OF 3")
    assert sql(f"UPDATE {table} SET id = id * 10 WHERE at < '2024-01-01 01:00:00'") == [(1,)]
    assert sql(f"DELETE FROM {table} WHERE at = TIMESTAMP '2024-01-01T05:30:00Z'") == [(1,)]
    assert sql(f"SELECT count(*) FROM {table} VERSION AS OF 1 JOIN numbers") == [(4,)]
    sql(f"ALTER TABLE {table} ADD COLUMN note STRING COMMENT 'c'")
    assert sql(f"DESCRIBE {table}")[-1] == ("p", "int", None)
    [entry, *_] = sql(f"DESCRIBE HISTORY {table} LIMIT 1")
    assert (entry[0], entry[4]) == (11, "ADD COLUMNS")
    query = f"SELECT '{{' AS x, t.id FROM {table} t, numbers"
    sql(f"CREATE OR REPLACE TABLE {table} USING adelta AS {query}")
    assert adelta.spark.sql(spark, f"TABLE {table}").columns == ["x", "id"]
    source = f"(SELECT x, id FROM {table} UNION ALL SELECT 'new', 9) s"
    text = f"MERGE INTO {table} t USING {source} ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    assert sql(text) == [(1, 0, 0, 1)]
    text = f"MERGE INTO {table} USING (SELECT 9 AS id) s ON {table}.id = s.id WHEN MATCHED THEN"
    assert sql(f"{text} UPDATE SET {table}.x = 'newer'") == [(1, 1, 0, 0)]
    check_conditions(spark, f"{path}-conditions")
    raises(AnalysisException, "Syntax error", lambda: sql(f"UPDATE  {table} SET x 1"))
    raises(AnalysisException, "end of the", lambda: sql(f"DESCRIBE HISTORY {table} LIMITED 1"))
    listed = f"SELECT 'file:{path}/gone.parquet' AS path, 1L AS length, false AS isDir,"
    listed += " 0L AS modificationTime"
    spark.sql(listed).createOrReplaceTempView("listed")
    for inventory in ("listed", "(SELECT * FROM listed)"):
        assert len(sql(f"VACUUM {table} USING INVENTORY {inventory} DRY RUN")) == 1


def step_names_that_only_statements_of_adeltas_can_give_say_so(spark, path):
    written(spark, path)
    create = f"CREATE TABLE by_spark USING adelta LOCATION '{path}'"
    raises(AnalysisException, r"register\(spark, sql=True", lambda: spark.sql(create))
    spark.sql("CREATE TABLE by_spark (id INT) USING adelta")
    rows = spark.sql("SELECT * FROM by_spark")
    raises(PySparkException, r"register\(spark, sql=True", rows.collect)
    spark.sql("DROP TABLE by_spark")
    adelta.spark.sql(spark, create)
    assert adelta.spark.sql(spark, "SELECT * FROM by_spark").count() == 6
    adelta.sync.set_properties(path, {"delta.enableChangeDataFeed": "true"})
    DeltaTable.forName(spark, "by_spark").delete("id < 2")
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 1)
    assert feed.table("by_spark").where("_change_type = 'delete'").count() == 2
    adelta.spark.sql(spark, "DROP TABLE by_spark")


def step_statements_are_run_on_tables_by_name(spark, path):
    adelta.spark.register(spark, sql=True)
    spark.sql(
        "CREATE TABLE by_name (id BIGINT, v STRING) USING delta COMMENT 'mine'"
        " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql("INSERT INTO by_name VALUES (1, 'a'), (2, 'b')")
    changes = spark.sql(
        "SELECT _change_type FROM table_changes('by_name', 1) WHERE id = :n", {"n": 1}
    )
    assert changes.collect() == [("insert",)]
    assert not [each.name for each in spark.catalog.listTables() if "adelta" in each.name]
    assert spark.sql("UPDATE by_name SET v = 'c' WHERE by_name.id = 2").collect() == [(1,)]
    assert spark.sql("SELECT by_name.v FROM by_name ORDER BY id").collect() == [("a",), ("c",)]
    spark.sql("CREATE TABLE made USING delta AS SELECT id + 1 AS id FROM by_name")
    assert spark.sql("SELECT * FROM default.made, {n} WHERE id > n", n=spark.range(2, 3).toDF("n"))
    [row] = spark.sql("DESCRIBE DETAIL default.made").collect()
    assert (row.name, row.numFiles) == ("spark_catalog.default.made", 1)
    spark.sql("CREATE TABLE alike LIKE by_name")
    spark.sql("INSERT INTO alike VALUES (8, soundex('a'))")
    assert spark.sql("SELECT * FROM alike").collect() == [(8, "A000")]
    assert spark.sql("CREATE TABLE near SHALLOW CLONE by_name").collect()[0][1] == 1
    assert spark.sql("CREATE OR REPLACE TABLE made CLONE by_name VERSION AS OF 0").count() == 1
    assert spark.sql("SELECT * FROM made").columns == ["id", "v"]
    spark.range(3).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(f"{path}-plain")
    spark.sql(
        "CREATE TABLE plain (id BIGINT, p BIGINT) USING parquet PARTITIONED BY (p)"
        f" LOCATION '{path}-plain'"
    )
    assert spark.sql("CREATE TABLE of_files SHALLOW CLONE plain").collect()[0][1] == 3
    assert spark.sql("SELECT id FROM of_files WHERE p = 1").collect() == [(1,)]
    assert spark.sql("OPTIMIZE by_name").columns == ["path", "metrics"]
    spark.sql("ALTER TABLE near ADD COLUMNS (p INT FIRST, q INT AFTER id)")
    spark.sql("COMMENT ON COLUMN near.id IS 'its number'")
    spark.sql("COMMENT ON TABLE near IS 'as it was'")
    assert spark.sql("DESCRIBE near").collect()[:2] == [
        ("p", "int", None),
        ("id", "bigint", "its number"),
    ]
    assert spark.sql("DESCRIBE near id").collect()[2] == ("comment", "its number")
    assert spark.sql("DESCRIBE DETAIL near").first().description == "as it was"
    assert "USING delta" in spark.sql("SHOW CREATE TABLE near").first()[0]
    spark.sql("CREATE TEMP VIEW a_view_of AS SELECT id, v FROM by_name")
    spark.sql("CACHE TABLE kept AS SELECT * FROM by_name, a_view_of")
    assert spark.sql("SELECT count(*) FROM kept JOIN a_view_of").collect() == [(8,)]
    for wrong in ("CREATE VIEW lasting AS SELECT * FROM by_name", "CACHE TABLE by_name"):
        raises(ParseException, "through Spark Connect", lambda wrong=wrong: spark.sql(wrong))
    assert spark.sql("SELECT 1 AS one").collect() == [(1,)]
    adelta.spark.register(spark)
    raises(AnalysisException, "", lambda: spark.sql("DESCRIBE DETAIL default.made").collect())
    spark.sql("CREATE OR REPLACE TEMP VIEW a_view AS SELECT 1 AS id")
    raises(AnalysisException, "a view", lambda: adelta.spark.sql(spark, "DESCRIBE HISTORY a_view"))


def step_columns_of_dataframes_say_which_side_they_are_of(spark, path):
    table = written(spark, path)
    rows = spark.createDataFrame([(3, 30), (9, 90)], "id BIGINT, part INT")
    of_target = table.toDF()
    merge = table.alias("t").merge(rows.alias("s"), of_target.id == rows["id"])
    merge = merge.whenMatchedUpdate(of_target.part == 1, {"part": rows.part + of_target.part})
    merge.whenNotMatchedInsert(values={"id": rows.id, "part": rows.part}).execute()
    assert table.toDF().where("part > 1").select("id", "part").orderBy("id").collect() == [
        (3, 31),
        (9, 90),
    ]
    other = spark.createDataFrame([(3, 7), (9, 8)], "id BIGINT, n INT")
    both = rows.alias("a").join(other.alias("b"), f.col("a.id") == f.col("b.id"))
    merge = table.merge(both, "target.id = a.id").whenMatchedUpdate(rows.id == 3, {"part": "b.n"})
    assert merge.whenMatchedUpdate(other.id > 3, {"part": "a.part"}).execute().first()[1] == 2
    named = both.alias("both")
    raises(AnalysisException, "AMBIGUOUS", lambda: table.merge(named, "target.id = both.id"))
    assert table.toDF().where("part > 1").select("part").orderBy("part").collect() == [(7,), (90,)]
    rows = (
        rows.alias("s").withColumn("n", f.col("s.id")).join(spark.range(9, 10).toDF("m").alias("b"))
    )
    own = f.udf(lambda number: number + 1, "int")
    merge = table.alias("t").merge(rows, "t.id = s.id AND n = b.m")
    merge.whenMatchedUpdate(set={"part": own("s.part") + f.expr("b.m * 0").cast("int")}).execute()
    assert table.toDF().where("id = 9").first().part == 91
    table.delete(of_target["id"] < 9)
    assert ids(table) == [9]


def step_streams_go_from_names_and_paths(spark, path):
    builder = DeltaTable.create(spark).tableName("stream_from").addColumn("id", "BIGINT")
    made = builder.addColumn("part", "BIGINT").execute()
    rows = spark.range(2).selectExpr("id", "id part")
    adelta.spark.write(rows, made.detail().collect()[0].location, mode="append")
    writer = spark.readStream.table("stream_from").writeStream.format("adelta")
    writer = writer.option("checkpointLocation", f"{path}-checkpoint").trigger(availableNow=True)
    assert writer.toTable("stream_to", partitionBy=["part"]).awaitTermination(500)
    to = DeltaTable.forName(spark, "stream_to")
    assert ids(to) == [0, 1]
    assert to.detail().collect()[0].partitionColumns == ["part"]
    written(spark, path)
    stream = spark.readStream.format("adelta")
    raises(
        AnalysisException,
        "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
        lambda: stream.load(f"{path}@v0"),
    )
    adelta.spark.write(spark.range(1), f"{path}@v0")  # whose own path ends so
    writer = stream.load(f"{path}@v0").writeStream.format("adelta")
    writer = writer.option("checkpointLocation", f"{path}-too").trigger(availableNow=True)
    assert writer.start(f"{path}-to").awaitTermination(500)
    assert ids(DeltaTable.forPath(spark, f"{path}-to")) == [0]


def step_rows_are_changed_through_views_of_all_of_a_table(spark, path):
    table = written(spark, path)
    late = spark.createDataFrame([(1, 0), (7, 1)], "id bigint, part int")
    late.createOrReplaceTempView("late_rows")
    spark.read.format("adelta").load(path).createOrReplaceTempView("loaded")
    run = partial(adelta.spark.sql, spark)
    run(f"CREATE OR REPLACE TEMP VIEW chosen AS SELECT * FROM adelta.`{path}`")
    for view, gone in (("loaded", 0), ("chosen", 2)):
        run(f"DELETE FROM {view} WHERE {view}.id = {gone}")
        run(f"UPDATE {view} SET part = 1 WHERE id IN (SELECT id FROM late_rows)")
    run("MERGE INTO loaded t USING late_rows s ON t.id = s.id WHEN MATCHED THEN DELETE")
    run("INSERT INTO chosen (id, part) VALUES (9, 1)")
    assert ids(table) == [3, 4, 5, 9]
    spark.read.format("adelta").option("versionAsOf", 0).load(path).createOrReplaceTempView("old")
    travels, other = "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION", "DELTA_UNSUPPORTED_SOURCE"
    raises(AnalysisException, travels, lambda: run("DELETE FROM old WHERE id = 3"))
    run("CREATE OR REPLACE TEMP VIEW some AS SELECT * FROM chosen WHERE id > 3")
    raises(AnalysisException, other, lambda: run("DELETE FROM some WHERE id = 4"))
    spark.sql("CREATE OR REPLACE TEMP VIEW chosen AS SELECT * FROM loaded WHERE id > 3")
    raises(AnalysisException, other, lambda: run("DELETE FROM chosen WHERE id = 4"))
    assert ids(table) == [3, 4, 5, 9]


def step_sessions_that_are_made_of_one_know_what_it_knows(spark, path):
    table = written(spark, path)
    adelta.spark.register(spark, sql=True)
    try:
        names = {"newSession", "cloneSession"} & set(dir(type(spark)))  # by version of Spark
        for other in [getattr(spark, name)() for name in names]:
            other.sql(f"DELETE FROM adelta.`{path}` WHERE id < 2")
            other.range(9, 10).write.format("adelta").mode("append").save(path)
    finally:
        adelta.spark.register(spark)
    rest = [0, 1] if not names else []
    assert ids(table) == [*rest, 2, 3, 4, 5, *[9] * len(names)]


def serve(folder: Path) -> None:
    """A server, until its standard input ends; it says on which port."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.memory": "768m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    print(f"port {getattr(service, 'MODULE$').localPort()}", flush=True)
    sys.stdin.read()
    spark.stop()


def main(folder: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, str(folder), "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    port = next(line for line in server.stdout if line.startswith("port ")).split()[1]
    try:
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        outcome = steps_through(spark, folder)
        (folder / "outcome.json").write_text(json.dumps(outcome))
        spark.stop()
    finally:
        server.communicate(timeout=300)


def steps_through(spark, folder: Path) -> dict[str, str]:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    adelta.spark.register(spark)
    outcome = {}
    others = (connect_job_steps, connect_name_steps, connect_session_steps)
    found = dict(globals())
    for each in others:
        found |= vars(each)
    for name, step in found.items():
        if not name.startswith("step_"):
            continue
        try:
            step(spark, str(folder / name))
            outcome[name.removeprefix("step_")] = ""
        except Exception as error:
            text = "".join(traceback.format_tb(error.__traceback__, -6))
            outcome[name.removeprefix("step_")] = f"{text}{type(error).__name__}: {error}"[:4000]
    return outcome


if __name__ == "__main__":
    (serve if sys.argv[2:] else main)(Path(sys.argv[1]))
