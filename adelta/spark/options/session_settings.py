"""What a session's settings say: of times, of what writes do, of properties of new tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession

__all__ = [
    "PLANNING_FILES",
    "checks_retention",
    "default_format",
    "merges_schemas",
    "overwrites_dynamically",
    "pads_chars",
    "read_settings",
    "session_zone",
    "with_default_properties",
    "write_settings",
]

PLANNING_FILES = "spark.adelta.snapshot.distributedPlanningFiles"
"""The setting of a session: from how many files on executors plan a query; 5,000,000 by default."""

_DELTA = "spark.databricks.delta."
_PROPERTY_DEFAULTS = f"{_DELTA}properties.defaults."
_AUTO_MERGE = f"{_DELTA}schema.autoMerge.enabled"
_RETENTION_CHECK = f"{_DELTA}retentionDurationCheck.enabled"
_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"
_ZONE = "spark.sql.session.timeZone"
_PADS = "spark.sql.readSideCharPadding"
_PLAIN = "spark.sql.legacy.charVarcharAsString"
_FOR_READS = {"distributedPlanningFiles": PLANNING_FILES}
_FOR_FEEDS = {"timestampOutOfRange": f"{_DELTA}changeDataFeed.timestampOutOfRange.enabled"}
_FEEDS = {"readchangefeed", "readchangedata"}
_FOR_ALL_WRITES = {
    "checkReplaceWhere": f"{_DELTA}replaceWhere.constraintCheck.enabled",
    "maxRecordsPerFile": "spark.sql.files.maxRecordsPerFile",
    "mergeSchema": _AUTO_MERGE,
    "optimizeWrite": f"{_DELTA}optimizeWrite.enabled",
    "timeZone": _ZONE,
    "userMetadata": f"{_DELTA}commitInfo.userMetadata",
}


def session_zone(spark: SparkSession) -> str:
    """The zone of times that name none."""
    return spark.conf.get(_ZONE) or "UTC"


def merges_schemas(spark: SparkSession) -> bool:
    """Whether a merge takes in new columns without being told to."""
    return (spark.conf.get(_AUTO_MERGE, None) or "").lower() == "true"


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Whether an overwrite takes the place of those partitions alone that it has rows of."""
    return (spark.conf.get(_OVERWRITE, None) or "static").lower() == "dynamic"


def default_format(spark: SparkSession) -> str:
    """The format of tables and files of which none is said, in lower case."""
    return (spark.conf.get("spark.sql.sources.default", None) or "").lower()


def pads_chars(spark: SparkSession) -> bool:
    """Whether columns of ``char(n)`` are compared as if they all had so many characters."""
    pads, plain = spark.conf.get(_PADS, "true"), spark.conf.get(_PLAIN, "false")
    return (pads or "").lower() == "true" and (plain or "").lower() != "true"


def checks_retention(spark: SparkSession) -> bool:
    """Whether a VACUUM has to keep files for as long as the table says."""
    return (spark.conf.get(_RETENTION_CHECK, None) or "true").lower() != "false"


def read_settings(spark: SparkSession, named: Collection[str]) -> dict[str, str]:
    """The options of a reader that a session sets, but for those `named`, in lower case."""
    asked = _FOR_READS if _FEEDS.isdisjoint(named) else _FOR_READS | _FOR_FEEDS
    settings = {option: spark.conf.get(setting, None) for option, setting in asked.items()}
    settings["timeZone"] = session_zone(spark)
    return {
        option: said
        for option, said in settings.items()
        if said is not None and option.lower() not in named
    }


def write_settings(
    spark: SparkSession, settings: Mapping[str, str], named: Collection[str]
) -> dict[str, str]:
    """The options of a writer that a session's settings say, but for those `named`.

    These are in lower case.
    """
    settings = {_ZONE: session_zone(spark), **settings}
    return {
        option: settings[setting]
        for option, setting in _FOR_ALL_WRITES.items()
        if option.lower() not in named and setting in settings
    }


def with_default_properties(
    given: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, str]:
    """Properties of a new table: those that it is `given`, and a session's for all others.

    Names of properties are the same in capitals and small letters.
    """
    said = {key.lower() for key in given}
    defaults = {
        f"delta.{key.removeprefix(_PROPERTY_DEFAULTS)}": value
        for key, value in settings.items()
        if key.startswith(_PROPERTY_DEFAULTS)
    }
    return {**{k: v for k, v in defaults.items() if k.lower() not in said}, **given}
