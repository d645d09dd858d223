"""What jobs for delta-spark may write, in a classic session."""

from __future__ import annotations

import pytest

from tests.spark.delta_forms import (
    check_changes_done_once,
    check_empty_sets,
    check_limited_texts,
    check_metadata_of_new_tables,
    check_optimize,
    check_statements_that_evolve,
    check_tables_like_others,
    check_tables_to_build,
)


@pytest.mark.parametrize(
    "check",
    [
        check_changes_done_once,
        check_empty_sets,
        check_limited_texts,
        check_metadata_of_new_tables,
        check_optimize,
        check_statements_that_evolve,
        check_tables_like_others,
        check_tables_to_build,
    ],
)
def test_forms_that_delta_spark_takes_are_taken(spark, tmp_path, check):
    check(spark, str(tmp_path / "t"))
