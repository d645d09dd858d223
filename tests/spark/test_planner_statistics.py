"""What Spark's planner by costs knows of tables and their columns."""

from __future__ import annotations

import adelta.spark


def test_a_planner_that_weighs_costs_knows_what_columns_have(spark, tmp_path):
    rows = spark.sql(
        "SELECT id, id % 20 + 100 AS k, date_add(DATE '2024-02-27', CAST(id % 5 AS INT)) AS d,"
        " CASE WHEN id % 4 < 3 THEN CAST(id % 50 AS INT) END AS n, CAST(null AS INT) AS nothing,"
        " CAST(id AS STRING) AS s, IF(id < 90, 'x', null) AS few, id % 3 AS p,"
        " concat('p', id % 2) AS q FROM range(300)"
    )
    place = str(tmp_path / "t")
    rows.write.format("adelta").partitionBy("p", "q").save(place)
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        found = adelta.spark.read(spark, place)
        assert statistics_of(found) == {
            "k": (20, 0, "100", "119"),
            "d": (5, 0, "19780", "19784"),
            "n": (50, 75, "0", "49"),
            "nothing": (0, 300, None, None),
            "few": (90, 210, None, None),
            "p": (3, 0, "0", "2"),
            "q": (2, 0, None, None),
        }
        few = found.where("k = 101 AND d < '2024-02-29'")
        assert int(few._jdf.queryExecution().optimizedPlan().stats().rowCount().get()) == 8
        joined = found.join(found.select("k").distinct(), "k").groupBy("d", "q").count()
        assert sum(row["count"] for row in joined.collect()) == 300
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def leaf(df):
    return df._jdf.queryExecution().optimizedPlan().collectLeaves().head()


def statistics_of(df):
    """Of columns how many different values there may be, NULLs, and the ends."""

    def text(option):
        return str(option.get()) if option.isDefined() else None

    each, found = leaf(df).stats().attributeStats().iterator(), {}
    while each.hasNext():
        pair = each.next()
        name, told = pair._1().name(), pair._2()
        counts = int(text(told.distinctCount())), int(text(told.nullCount()))
        found[name] = (*counts, text(told.min()), text(told.max()))
    return found
