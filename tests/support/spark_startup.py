"""How the Sparks of tests start: with less work, as the tests are short and there are many.

To start Spark and compute its first queries is most of what such a test costs. The JVM compiles
quickly rather than well, and maps classes that the demo's JVM has left in an archive; Python's
processes take PySpark as it is installed (`worker_python` beside this file says from where else).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["keep_archive", "quick_spark"]

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable"
_ARCHIVE = Path(__file__).parents[2] / ".pytest_cache" / "spark-classes.jsa"
_UNFINISHED = _ARCHIVE.with_suffix(".new")


def quick_spark(*, leave_archive: bool = False) -> dict[str, str]:
    """The environment of a process that starts Spark, by the archive if it is there.

    With `leave_archive` that Spark makes the archive anew when it ends, which takes a while:
    `keep_archive` then has the next ones take it. One of another Java or PySpark is passed over.
    """
    options = _QUICK
    if leave_archive:
        _ARCHIVE.parent.mkdir(exist_ok=True)
        options += f" -XX:ArchiveClassesAtExit={_UNFINISHED}"
    elif _ARCHIVE.exists():
        options += f" -XX:SharedArchiveFile={_ARCHIVE}"
    return {
        **os.environ,
        "ADELTA_TEST_PYTHON": sys.executable,
        "PYSPARK_PYTHON": str(Path(__file__).with_name("worker_python")),
        "SPARK_LAUNCHER_OPTS": _QUICK,
        "SPARK_SUBMIT_OPTS": options,
    }


def keep_archive() -> None:
    """Give Sparks the archive of the one that was to leave it, and has ended."""
    if _UNFINISHED.exists():  # the JVM makes none where it cannot
        _UNFINISHED.replace(_ARCHIVE)
