"""New rows in the place of those that match them: options of writers, and statements."""

from __future__ import annotations

from tests.spark.replacing import check_names, check_replacing, check_what_is_refused


def test_rows_that_match_new_ones_are_replaced(spark, tmp_path):
    check_replacing(spark, str(tmp_path / "t"))


def test_rows_of_a_named_table_are_replaced(spark, tmp_path):
    check_names(spark, str(tmp_path / "t"))


def test_what_does_not_go_together_is_refused(spark, tmp_path):
    check_what_is_refused(spark, str(tmp_path / "t"))
