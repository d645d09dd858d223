"""Tables made step by step, and tables by name, as users of delta-spark know both."""

from __future__ import annotations

import uuid

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as s

import adelta.sync
from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.spark import DeltaTable, IdentityGenerator
from adelta.spark.classic.names import in_jvm


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "a table")


@pytest.fixture
def database(spark, tmp_path):
    """A database of the session's catalog, with tables of its own."""
    name = f"d_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / 'warehouse'}'")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def name(database) -> str:
    return f"{database}.t"


def snapshot(path):
    with adelta.sync.open_table(path) as table:
        return table.snapshot()


def test_a_table_is_built_step_by_step(spark, path):
    numbered = DeltaTable.columnBuilder(spark, "n").dataType("bigint").comment("a number")
    table = (
        DeltaTable.create(spark)
        .location(path)
        .comment("a table")
        .addColumn("id", "INT", nullable=False, comment="who")
        .addColumn("double", s.IntegerType(), generatedAlwaysAs="id * 2")
        .addColumn(numbered.generatedByDefaultAsIdentity(5, 5).build())
        .addColumn("k", "long", generatedAlwaysAs=IdentityGenerator(step=-1))
        .addColumns(s.StructType([s.StructField("s", s.ArrayType(s.StringType(), False))]))
        .addColumns([s.StructField("part", s.StringType())])
        .partitionedBy("part")
        .property("delta.appendOnly", "false")
        .property("mine", "1")
        .execute()
    )
    assert table.toDF().columns == ["id", "double", "n", "k", "s", "part"]
    found = snapshot(path)
    assert [field.nullable for field in found.delta_schema] == [False, *[True] * 5]
    assert found.delta_schema.field("id").metadata == {"comment": "who"}
    assert found.metadata.description == "a table"
    assert found.properties == {"delta.appendOnly": "false", "mine": "1"}
    assert found.partition_columns == ("part",)
    assert not found.delta_schema.field("s").type.contains_null
    adelta.sync.write_table(path, spark.sql("SELECT 1 id, array('a') s, 'p' part").toArrow())
    assert table.toDF().collect() == [(1, 2, 5, 1, ["a"], "p")]
    assert table.history(1).collect()[0].operation == "WRITE"


def test_each_mode_does_what_it_says(spark, path, tmp_path):
    def built(make, *columns):
        builder = make(spark).location(path)
        for column in columns:
            builder.addColumn(column, "INT")
        return builder.execute().toDF().columns

    with pytest.raises(AnalysisException, match="no Delta table"):
        built(DeltaTable.replace, "a")
    assert built(DeltaTable.createIfNotExists, "a") == ["a"]
    assert built(DeltaTable.createIfNotExists, "b") == ["a"]
    with pytest.raises(TableAlreadyExistsError):
        built(DeltaTable.create, "b")
    assert built(DeltaTable.replace, "b") == ["b"]
    assert built(DeltaTable.createOrReplace, "c", "d") == ["c", "d"]
    operations = [row.operation for row in DeltaTable.forPath(spark, path).history().collect()]
    assert operations == ["CREATE OR REPLACE TABLE", "REPLACE TABLE", "CREATE TABLE"]
    with pytest.raises(InvalidOptionError, match="needs columns"):
        built(DeltaTable.replace)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("1")
    other = DeltaTable.createOrReplace(spark).location(str(tmp_path / "other"))
    with pytest.raises(InvalidOptionError, match="not empty"):
        other.addColumn("a", "INT").execute()


def test_clustered_tables_are_built_too(spark, path):
    builder = DeltaTable.create(spark).tableName(f"delta.`{path}`").addColumn("a", "INT")
    builder.clusterBy(["a"]).execute()
    assert DeltaTable.forPath(spark, path).detail().collect()[0].clusteringColumns == ["a"]
    with pytest.raises(InvalidOptionError, match="not both"):
        builder.partitionedBy("a")


WRONG_STEPS = [
    (lambda b: b.tableName(1), "Identifier must be str. Found 1"),
    (lambda b: b.location(1), "Location must be str"),
    (lambda b: b.comment(1), "Table comment must be str"),
    (lambda b: b.addColumn(1, "INT"), "Column name must be str"),
    (lambda b: b.addColumn("a", 1), "Column data type must be str or DataType"),
    (lambda b: b.addColumn("a", "INT", nullable=1), "Column nullable must be bool"),
    (lambda b: b.addColumn("a", "INT", comment=1), "Column comment must be str"),
    (lambda b: b.addColumn("a", "INT", generatedAlwaysAs=1), "str or IdentityGenerator"),
    (lambda b: b.addColumn("a", "INT", generatedByDefaultAs="x"), "must be IdentityGenerator"),
    (lambda b: b.addColumns([1]), "must be StructField"),
    (lambda b: b.addColumns("a INT"), "StructType or a list of StructField"),
    (lambda b: b.partitionedBy(1), "Partitioning column must be str"),
    (lambda b: b.clusterBy([1]), "Clustering column must be str"),
    (lambda b: b.property("a", 1), "Key and value of property must be string"),
]


def test_arguments_of_wrong_types_are_type_errors(spark):
    for step, text in WRONG_STEPS:
        with pytest.raises(TypeError, match=text):
            step(DeltaTable.create(spark))
    both = {"generatedAlwaysAs": "1", "generatedByDefaultAs": IdentityGenerator()}
    with pytest.raises(ValueError, match="cannot both be set"):
        DeltaTable.create(spark).addColumn("a", "BIGINT", **both)
    numbers = IdentityGenerator(step=2)
    numbers.step = 0  # as delta-spark's can be
    assert (numbers, IdentityGenerator(5)) == (IdentityGenerator(1, 0), IdentityGenerator(start=5))
    with pytest.raises(ValueError, match="step to be non-zero"):
        DeltaTable.columnBuilder(spark, "a").generatedAlwaysAs(numbers)
    with pytest.raises(ValueError, match="step to be non-zero"):
        DeltaTable.create(spark).addColumn("a", "BIGINT", generatedAlwaysAs=IdentityGenerator(1, 0))
    with pytest.raises(InvalidOptionError, match="BIGINT"):
        DeltaTable.create(spark).addColumn("a", "INT", generatedAlwaysAs=IdentityGenerator())
    with pytest.raises(InvalidOptionError, match="needs a name or a location"):
        DeltaTable.create(spark).addColumn("a", "INT").execute()


def test_the_catalog_keeps_a_table_by_name(spark, database, name):
    builder = DeltaTable.create(spark).tableName(name).addColumn("a", "INT").comment("it's")
    builder.addColumn("b", "STRUCT<`c d`: INT, e: ARRAY<STRING>>")
    with pytest.raises(SchemaMismatchError, match="c d"):
        builder.execute()
    assert not DeltaTable.isDeltaTable(spark, name)
    table = builder.property("delta.columnMapping.mode", "name").execute()
    assert [row.operation for row in table.history().collect()] == ["CREATE TABLE"]
    [row] = table.detail().collect()
    assert row.location.endswith("/warehouse/t")
    assert (row.name, row.description) == (f"spark_catalog.{name}", "it's")
    location = row.location.removeprefix("file:")
    adelta.sync.write_table(location, spark.sql("SELECT 1 a").toArrow())
    for known in (name, f"`spark_catalog`.{database}.`t`", f"delta.`{location}`"):
        found = DeltaTable.forName(spark, known).alias("x").toDF()
        assert found.select("x.a").collect() == [(1,)]
        assert DeltaTable.isDeltaTable(spark, known)
    assert DeltaTable.forName(spark, name).delete("t.a = 1").collect() == [(1,)]
    with pytest.raises(TableAlreadyExistsError, match="already exists"):
        builder.execute()
    replaced = DeltaTable.replace(spark).tableName(name).addColumn("z", "DATE").execute()
    assert replaced.toDF().select("t.z").columns == ["z"]
    again = DeltaTable.createIfNotExists(spark).tableName(name).addColumn("y", "INT")
    assert again.execute().toDF().columns == ["z"]
    elsewhere = DeltaTable.createOrReplace(spark).tableName(name).location("/elsewhere")
    with pytest.raises(InvalidOptionError, match="location of the existing table"):
        elsewhere.addColumn("a", "INT").execute()
    spark.sql(f"DROP TABLE {name}")
    assert not DeltaTable.isDeltaTable(spark, location)


def test_a_name_that_the_catalog_does_not_take_is_said_to_be_missing(
    spark, database, name, tmp_path, monkeypatch
):
    folder = tmp_path / "warehouse"
    with pytest.raises(AnalysisException, match="INVALID_SCHEMA_OR_RELATION_NAME"):
        DeltaTable.create(spark).tableName(f"{database}.`a-b`").addColumn("a", "INT").execute()
    with pytest.raises(AnalysisException, match="INVALID_SCHEMA_OR_RELATION_NAME"):
        spark.sql(f"CREATE TABLE {database}.`a-b` (a INT) USING adelta")
    assert not list(folder.glob("*"))
    enter = in_jvm.ManagedPlace.enter

    def late(*told):
        spark.sql(f"CREATE TABLE {name} (b INT) USING parquet LOCATION '{tmp_path}/other'")
        enter(*told)

    monkeypatch.setattr(in_jvm.ManagedPlace, "enter", late)
    with pytest.raises(InvalidUseError, match=r"(?s)the table is at .*LOCATION"):
        DeltaTable.create(spark).tableName(name).addColumn("a", "INT").execute()
    assert DeltaTable.forPath(spark, str(folder / "t")).toDF().columns == ["a"]
    assert spark.table(name).columns == ["b"]


def test_a_table_that_is_there_gets_a_name(spark, name, path):
    adelta.sync.write_table(path, spark.range(2).toArrow())
    other = DeltaTable.create(spark).tableName(name).location(path).addColumn("id", "INT")
    with pytest.raises(SchemaMismatchError, match="differs from what is specified"):
        other.execute()
    builder = DeltaTable.create(spark).tableName(name).location(path)
    builder.addColumn("id", "BIGINT", nullable=False)
    assert builder.execute().toDF().count() == 2
    spark.sql(f"DROP TABLE {name}")
    assert DeltaTable.create(spark).tableName(name).location(path).execute().toDF().count() == 2
    assert DeltaTable.forName(spark, name).detail().collect()[0].location == f"file:{path}"
    spark.sql(f"DROP TABLE {name}")
    assert DeltaTable.isDeltaTable(spark, path)


def test_what_is_no_delta_table_has_no_handle(spark, path, name):
    spark.sql(f"CREATE TABLE {name} (a INT) USING parquet")
    spark.range(1).createOrReplaceTempView("a_view")
    for known, what in ((name, "of parquet"), ("a_view", "a view"), ("nothing.at_all", "no table")):
        with pytest.raises(AnalysisException, match=f"is not a Delta table.*{what}"):
            DeltaTable.forName(spark, known)
        assert not DeltaTable.isDeltaTable(spark, known)
    with pytest.raises(TableNotFoundError, match="cannot be replaced as it did not exist"):
        DeltaTable.replace(spark).tableName("nothing").addColumn("a", "INT").execute()
    with pytest.raises(InvalidOptionError, match="is no name"):
        DeltaTable.forName(spark, "a..b")
    spark.catalog.dropTempView("a_view")
