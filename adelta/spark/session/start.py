"""Starting a Spark session that knows adelta, from a bare ``pip install adelta[spark]``."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from adelta.spark.session.java import ensure_java
from adelta.spark.session.registration import ensure_registered

__all__ = ["get_session"]

_LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",  # as spark.network.timeout
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


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
