"""Spark SQL over adelta's tables does what it does over those of Delta Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.reference.statements import CASES, check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def utc(spark: SparkSession) -> Iterator[SparkSession]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("seed", CASES)
def test_a_statement_of_spark_sql_does_what_it_does_in_delta_spark(
    utc: SparkSession, seed: int, tmp_path: Path
) -> None:
    def run(statement: str, tables: dict[str, str]) -> None:
        names = {name: f"adelta.`{path}`" for name, path in tables.items()}
        utc.sql(statement.format(**{"source": "", **names})).collect()

    check(CASES[seed], str(tmp_path / "target"), run, PySparkException)
