"""Settings that name classes and packages of delta-spark's jar, where the jar is not there.

Spark only warns of an extension that it does not find; of a catalog it says so whenever a name is
used, and packages it fetches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from adelta.spark.side import side_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["changed_without_jar", "forget_catalog_of_jar", "leave_jar_out"]

_CATALOG = "spark.sql.catalog.spark_catalog"
_CATALOG_OF_JAR = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_PLUGIN = re.compile(r"org\.apache\.spark\.sql\.connect\.delta\.Delta\w+Plugin")
_OF_JAR = {
    "spark.sql.extensions": re.compile(r"io\.delta\.sql\.DeltaSparkSessionExtension"),
    _CATALOG: re.compile(re.escape(_CATALOG_OF_JAR)),
    "spark.jars.packages": re.compile(r"io\.delta:delta-(core|spark|storage|connect)[^a-z].*"),
    "spark.connect.extensions.command.classes": _PLUGIN,
    "spark.connect.extensions.relation.classes": _PLUGIN,
}
"""Settings whose values are lists, with commas between, and which entries are the jar's."""


def changed_without_jar(settings: Mapping[str, object]) -> dict[str, str | None]:
    """The settings that change where the jar's entries are left out; None where none remains."""
    changed: dict[str, str | None] = {}
    for key, of_jar in _OF_JAR.items():
        listed = [entry.strip() for entry in str(settings.get(key, "")).split(",")]
        kept = [entry for entry in listed if not of_jar.fullmatch(entry)]
        if len(kept) < len(listed):
            changed[key] = ",".join(kept) or None
    return changed


def leave_jar_out(conf: SparkConf) -> None:
    """Leave the jar's entries out of what an application is configured with."""
    inside: Any = conf
    for key, kept in changed_without_jar(dict(conf.getAll())).items():
        if kept is not None:
            conf.set(key, kept)
        elif inside._jconf is not None:
            inside._jconf.remove(key)
        else:
            del inside._conf[key]


def forget_catalog_of_jar(spark: SparkSession) -> None:
    """Let the session have Spark's own catalog where it is told to have the jar's, in vain."""
    if spark.conf.get(_CATALOG, None) != _CATALOG_OF_JAR:
        return
    side = side_of(spark)
    if side.lacks_catalog(spark, _CATALOG_OF_JAR):
        if (coming := side.coming_settings(spark)) is not None:
            leave_jar_out(coming)
        spark.conf.unset(_CATALOG)
