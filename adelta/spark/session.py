"""Spark sessions for one machine, and making a session know adelta.

`register` is all that a session of one's own needs. `get_session` starts a session that works from
a bare ``pip install adelta[spark]``: with a Java (see `adelta.spark.java`), with this very Python
in its workers, and reachable from this machine alone.
"""

from __future__ import annotations

import os
import sys
from weakref import WeakSet

from pyspark.sql import SparkSession

from adelta.spark.datasource import DeltaDataSource
from adelta.spark.java import ensure_java

__all__ = ["ensure_registered", "get_session", "register"]

_registered: WeakSet[SparkSession] = WeakSet()

_LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def register(spark: SparkSession) -> None:
    """Make ``format("adelta")`` known to `spark`, for reading and for writing."""
    spark.dataSource.register(DeltaDataSource)
    _registered.add(spark)


def ensure_registered(spark: SparkSession) -> None:
    """Register where `register` has not: Spark warns of a source that replaces another one."""
    if spark not in _registered:
        register(spark)


def get_session(
    app_name: str = "adelta",
    master: str = "local[*]",
    conf: dict[str, str] | None = None,
) -> SparkSession:
    """A Spark session that knows adelta: the running one, or a new one.

    `conf` wins over adelta's defaults, which are for a session inside this process: no web
    interface, bound to loopback, workers that run this Python. They are left out where `master`
    is a cluster.

    Raises:
        InvalidUseError: there is no Java that Spark can use.
    """
    settings = dict(conf or {})
    if master.startswith("local"):
        settings = _LOCAL_DEFAULTS | settings
        if "spark.pyspark.python" not in settings:
            # Otherwise workers are the first `python3` of the search path, which in a virtual
            # environment that is not activated is another Python, without adelta.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        ensure_java()
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    ensure_registered(spark)
    return spark
