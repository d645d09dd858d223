"""How the Sparks of tests start: with less work, as the tests are short and there are many.

To start Spark and compute its first queries is most of what such a test costs. The JVM compiles
quickly rather than well; Python's processes take PySpark as it is installed (`worker_python` beside
this file says from where else).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["quick_spark"]

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable"


def quick_spark() -> dict[str, str]:
    """The environment of a process that starts Spark."""
    return {
        **os.environ,
        "ADELTA_TEST_PYTHON": sys.executable,
        "PYSPARK_PYTHON": str(Path(__file__).with_name("worker_python")),
        "SPARK_LAUNCHER_OPTS": _QUICK,
        "SPARK_SUBMIT_OPTS": _QUICK,
    }
