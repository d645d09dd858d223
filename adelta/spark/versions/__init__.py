"""What differs between versions of Spark: one folder a version, chosen by the PySpark that runs.

The folder of a version has an adapter, which extends that of the version before, and the Java
sources that its interfaces need. The rest of `adelta.spark` asks `SPARK` and compares no versions.
Supporting another version takes another folder and its adapter's name in `_ADAPTERS`.
"""

from __future__ import annotations

import logging
from functools import cache

from pyspark import __version__

from adelta.spark.versions.spark40 import Spark40
from adelta.spark.versions.spark41 import Spark41
from adelta.spark.versions.spark42 import Spark42
from adelta.spark.versions.spark43 import Spark43

__all__ = ["SPARK", "SparkVersion", "adapter_for", "warn_if_unknown"]

_log = logging.getLogger("adelta.spark")

SparkVersion = Spark40
"""What every adapter has: that of the oldest version, which the others extend."""

_ADAPTERS: tuple[type[SparkVersion], ...] = (Spark40, Spark41, Spark42, Spark43)


def adapter_for(version: str) -> SparkVersion:
    """The adapter for a version of PySpark, such as ``4.2.1``.

    A version that has none gets the newest adapter, with `is_known` false.
    """
    for adapter in _ADAPTERS:
        if version.startswith(f"{adapter.release}."):
            return adapter(version, is_known=True)
    return _ADAPTERS[-1](version, is_known=False)


@cache
def warn_if_unknown() -> None:
    """Log a warning, once in a process, where adelta has no adapter for the Spark that runs."""
    if not SPARK.is_known:
        _log.warning(
            "adelta does not know Spark %s; it knows %s to %s. Tables are read and written by the "
            "data source in Python, without SQL by name: install one of these, or a newer adelta",
            SPARK.version,
            _ADAPTERS[0].release,
            _ADAPTERS[-1].release,
        )


SPARK = adapter_for(__version__)
"""The adapter for the PySpark that runs."""
