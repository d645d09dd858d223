"""One Spark for all tests of this folder: it takes seconds to start."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidUseError
from adelta.spark.session.java import ensure_java
from tests.support.spark_startup import quick_spark
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# PySpark warns of the pandas that is installed, which adelta does not use, and leaves sockets to
# the collector.
FOREIGN_WARNINGS = ("ignore::FutureWarning:pyspark", "ignore::ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for warning in FOREIGN_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two task slots, every task may fail three times, small."""
    from adelta.spark import get_session

    try:
        ensure_java()
    except InvalidUseError as error:
        unavailable(f"Spark needs Java: {error}")
    # Workers import the adelta that is tested, wherever the tests were started.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ.update(quick_spark(), PYTHONPATH=path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = get_session(
            "adelta tests",
            "local[2,4]",
            {
                "spark.driver.memory": "768m",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.session.timeZone": "America/New_York",
                "spark.log.level": "OFF",
                "spark.python.authenticate.socketTimeout": "120s",  # a worker on a busy machine
            },
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def as_delta(spark: SparkSession) -> Iterator[None]:
    """The session answers `format("delta")`, and statements that say so, while a module runs."""
    from adelta.spark import register

    register(spark, as_delta=True)
    yield
    register(spark)
