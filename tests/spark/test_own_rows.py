"""Changes whose rows are made of the table itself are judged by all that it has read of it."""

from __future__ import annotations

import pytest

import adelta.sync
from adelta.errors import ConcurrentAppendError
from tests.spark.own_rows import (
    CHANGES,
    append_elsewhere,
    appended,
    check_own_rows,
    loaded,
    made,
)


def test_rows_that_come_while_a_change_reads_its_own_table_are_a_conflict(spark, tmp_path):
    check_own_rows(spark, str(tmp_path / "t"))


@pytest.mark.parametrize("native", ["true", "false"])
@pytest.mark.parametrize("how", CHANGES)
def test_a_dataframe_is_of_the_version_that_it_was_loaded_at(spark, tmp_path, how, native):
    path = made(spark, str(tmp_path / "t"))
    rows = loaded(spark, path, nativeScan=native)
    append_elsewhere(path)
    with pytest.raises(ConcurrentAppendError):
        CHANGES[how](rows, path)
    assert adelta.sync.history(path)[0].version == 1


def test_other_spellings_of_an_address_are_the_same_table(spark, tmp_path):
    path = made(spark, str(tmp_path / "t"))
    (tmp_path / "link").symlink_to(path)
    rows = loaded(spark, f"file:{tmp_path}/./link")
    append_elsewhere(path)
    with pytest.raises(ConcurrentAppendError):
        appended(rows, path)


def test_versions_that_were_asked_for_and_cached_rows_and_other_tables_are_no_reads(
    spark, tmp_path
):
    path, other = made(spark, str(tmp_path / "t")), made(spark, str(tmp_path / "other"))
    cached = loaded(spark, path).cache()
    assert cached.count() == 1
    frames = [loaded(spark, path, versionAsOf="0"), loaded(spark, other), cached]
    append_elsewhere(path)
    for rows in frames:
        appended(rows, path)
        assert adelta.sync.history(path)[0].is_blind_append is True
    cached.unpersist()


@pytest.fixture
def name(spark, tmp_path):
    path = made(spark, str(tmp_path / "t"))
    spark.sql(f"CREATE TABLE own_rows USING adelta LOCATION '{path}'")
    yield "own_rows", path
    spark.sql("DROP TABLE own_rows")


def test_statements_and_writers_by_name_read_their_own_table(spark, name):
    table, path = name
    newest = f"SELECT max(id) + 1 id FROM {table}"
    spark.sql(f"INSERT INTO {table} {newest}")
    assert not adelta.sync.history(path)[0].is_blind_append
    stale = spark.sql(newest)
    stale.createOrReplaceTempView("own_rows_view")
    spark.sql(f"INSERT INTO {table} VALUES (50)")
    for statement in (
        f"INSERT INTO {table} SELECT * FROM own_rows_view",
        f"MERGE INTO {table} t USING own_rows_view s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        f"DELETE FROM {table} WHERE id = (SELECT id - 1 FROM own_rows_view)",
        f"UPDATE {table} SET id = 7 WHERE id IN (SELECT id - 1 FROM own_rows_view)",
    ):
        with pytest.raises(ConcurrentAppendError):
            spark.sql(statement)
    for write in (
        lambda: stale.write.insertInto(table),
        lambda: stale.write.format("adelta").mode("append").saveAsTable(table),
    ):
        with pytest.raises(ConcurrentAppendError):
            write()
    assert adelta.sync.history(path)[0].version == 2
    spark.catalog.dropTempView("own_rows_view")


def test_subqueries_about_the_table_itself_change_the_rows_that_they_find(spark, name):
    table, _ = name
    spark.sql(f"DELETE FROM {table} WHERE id = (SELECT max(id) FROM {table})")
    spark.sql(f"UPDATE {table} SET id = (SELECT max(id) + 1 FROM {table}) WHERE id = 0")
    assert sorted(row.id for row in spark.table(table).collect()) == [1, 2, 3, 4]
