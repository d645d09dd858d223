"""What writers and statements replace, in classic sessions and through Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import functions as f

import adelta.spark
from adelta.errors import InvalidOptionError
from adelta.spark import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_names", "check_replacing", "check_what_is_refused"]

_Rows = list[tuple[Any, ...]]
_NEW: _Rows = [("Peter", "FR"), ("Jennie", "UK"), ("Eva", None)]
_KEPT: _Rows = [("Dylan", "US"), ("Julia", "IT"), ("Adam", None)]


def _rows(spark: SparkSession, path: str) -> _Rows:
    found = spark.read.format("adelta").load(path).collect()
    return sorted((tuple(row) for row in found), key=repr)


def _new(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(_NEW, "name string, country string")


def _students(spark: SparkSession, path: str) -> str:
    rows = [("Doug", "UK"), *_KEPT]
    df = spark.createDataFrame(rows, "name string, country string")
    df.write.format("adelta").mode("overwrite").save(path)
    return path


def _replacing(df: DataFrame, **options: str) -> Any:
    return df.write.format("adelta").mode("overwrite").options(**options)


def check_replacing(spark: SparkSession, path: str) -> None:
    """Rows go that match, by each way that a user asks for it, and all new ones come."""
    new, table = _new(spark), _students(spark, path)
    _replacing(new, replaceUsing="country, name , country").save(table)
    assert len(_rows(spark, table)) == 7
    table = _students(spark, f"{path}-using")
    _replacing(new, replaceUsing="`Country`").save(table)
    assert _rows(spark, table) == sorted(_KEPT + _NEW, key=repr)
    last = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert (last.operation, last.operationParameters["replaceUsingCols"]) == (
        "WRITE", "(`Country`)",
    )  # fmt: skip
    _replacing(new.limit(0), replaceUsing="country").save(table)
    assert _rows(spark, table) == sorted(_KEPT + _NEW, key=repr)

    table = _students(spark, f"{path}-on")
    said = {"targetAlias": "t", "replaceOn": "t.country <=> s.country AND t.name != 'Doug'"}
    _replacing(new.alias("s"), **said).save(table)
    assert _rows(spark, table) == sorted([("Doug", "UK"), *_KEPT[:2], *_NEW], key=repr)
    last = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert last.operationParameters["replaceOnCond"] == said["replaceOn"]

    table = _students(spark, f"{path}-spark")  # by what Spark alone computes
    said |= {"replaceOn": "soundex(t.name) = soundex(s.name) OR t.country = 'US'"}
    named = spark.createDataFrame([("Dug", "DE"), ("Dug", "AT")], "name string, country string")
    _replacing(named.alias("s"), **said).save(table)
    assert _rows(spark, table) == sorted([*_KEPT[1:], ("Dug", "DE"), ("Dug", "AT")], key=repr)
    last = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert last.operation == "WRITE"
    assert last.operationParameters["replaceOnCond"] == said["replaceOn"]

    _replacing(new, replaceUsing="country").save(f"{path}-made")  # where there is no table
    assert _rows(spark, f"{path}-made") == sorted(_NEW, key=repr)


def check_names(spark: SparkSession, path: str) -> None:
    """The same of a table by its name: `saveAsTable`, `insertInto` and statements."""
    name, new = "replaced_students", _new(spark)
    table = _students(spark, path)
    adelta.spark.sql(spark, f"CREATE TABLE {name} USING adelta LOCATION '{table}'")
    try:
        _replacing(new, replaceUsing="country").saveAsTable(name)
        assert _rows(spark, table) == sorted(_KEPT + _NEW, key=repr)
        other = spark.createDataFrame([("Ann", "US")], "who string, country string").alias("s")
        other.write.mode("overwrite").option("targetAlias", "t").option(
            "replaceOn", "t.country = s.country AND s.who = 'Ann'"
        ).insertInto(name)
        assert [row for row in _rows(spark, table) if row[1] == "US"] == [("Ann", "US")]
        other.write.option("replaceUsing", "country").insertInto(name, overwrite=True)
        assert [row for row in _rows(spark, table) if row[1] == "US"] == [("Ann", "US")]
        other.createOrReplaceTempView("replacing_rows")
        for text, who in (
            (f"{name} REPLACE USING (country) SELECT 'Bo' AS name, 'US' AS country", "Bo"),
            (f"{name} t REPLACE ON t.country = s.country (TABLE replacing_rows) AS s", "Ann"),
            (f"{name} BY NAME REPLACE USING (country) SELECT 'US' country, 'Cy' name", "Cy"),
            (
                f"{name} AS t REPLACE ON t.country = r.c SELECT * FROM VALUES ('D', 'US') r(n, c)",
                "D",
            ),
            (f"{name} REPLACE ON country = 'US' VALUES ('Ed', 'US')", "Ed"),
            (
                f"adelta.`{table}` REPLACE ON soundex(name) = soundex(n) (SELECT 'Et' n, 'US' c)",
                "Et",
            ),
            (f"{name} REPLACE WHERE country = 'US' SELECT 'Flo', 'US'", "Flo"),
        ):
            adelta.spark.sql(spark, f"INSERT INTO {text}")
            assert [row for row in _rows(spark, table) if row[1] == "US"] == [(who, "US")], text
        given = "WITH q(name, country) AS (SELECT 'Flo', 'US')"
        adelta.spark.sql(spark, f"{given} INSERT INTO {name} REPLACE USING (country) TABLE q")
        assert [row for row in _rows(spark, table) if row[1] == "US"] == [("Flo", "US")]
        evolving = f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME REPLACE USING (country)"
        adelta.spark.sql(spark, f"{evolving} SELECT 'US' AS country, 'Gus' AS name, 1 AS n")
        assert ("Gus", "US", 1) in _rows(spark, table)
    finally:
        adelta.spark.sql(spark, f"DROP TABLE {name}")


def check_what_is_refused(spark: SparkSession, path: str) -> None:
    """Options that do not fit are refused by delta-spark's conditions, and nothing is written."""
    new, table = _new(spark).alias("s"), _students(spark, path)
    both = "INCOMPATIBLE_REPLACE_ON_OR_USING"
    of_columns = "DELTA_INSERT_REPLACE_ON_{}_COLUMNS_IN_CONDITION"
    for options, condition in (
        ({"replaceOn": "true"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
        ({"overwriteSchema": "true"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
        ({"dataChange": "false"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
        ({"replaceWhere": "name = 'x'"}, f"DELTA_OVERWRITE_BY_FILTER_{both}"),
        ({"partitionOverwriteMode": "dynamic"}, f"DELTA_DYNAMIC_PARTITION_OVERWRITE_{both}"),
        ({"replaceUsing": "country,"}, "DELTA_ILLEGAL_OPTION"),
        ({"replaceUsing": "no"}, "UNRESOLVED_INSERT_REPLACE_USING_COLUMN"),
    ):
        with pytest.raises(AnalysisException) as raised:
            _replacing(new, **{"replaceUsing": "country", **options}).save(table)
        assert raised.value.getCondition() == condition, options
        if condition.startswith("DELTA_"):
            assert isinstance(raised.value, IllegalArgumentException)
    for on, alias, condition in (
        ("country = 'UK'", "t", of_columns.format("AMBIGUOUS")),
        ("s.country = 'UK'", "s", of_columns.format("AMBIGUOUS")),
        ("t.no = s.name", "t", of_columns.format("UNRESOLVED")),
    ):
        with pytest.raises(AnalysisException) as raised:
            _replacing(new, targetAlias=alias, replaceOn=on).save(table)
        assert raised.value.getCondition() == condition, on
    with pytest.raises(InvalidOptionError, match="overwrite"):
        _replacing(new, replaceUsing="country").mode("append").save(table)
    assert len(DeltaTable.forPath(spark, table).history().collect()) == 1
    adelta.spark.sql(spark, f"ALTER TABLE adelta.`{table}` ADD CONSTRAINT no CHECK (name != 'Eva')")
    with pytest.raises(AnalysisException) as raised:
        _replacing(new, replaceUsing="country").save(table)
    assert raised.value.getCondition() == "DELTA_REPLACE_ON_OR_USING_TABLE_CONSTRAINT_VIOLATION"
    for write in (
        lambda to: to.overwritePartitions(),
        lambda to: to.overwrite(f.lit(True)),
    ):
        with pytest.raises(AnalysisException) as raised:
            write(new.writeTo(f"adelta.`{table}`").option("replaceUsing", "country"))
        assert str(raised.value.getCondition()).endswith(both)
