"""What a writer of Spark's was told, and its session → the options of adelta's data source."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.table_features import validate_properties
from adelta.spark.options.commits import TXN_SETTINGS, forget_txn
from adelta.spark.options.read_write import absolute_uri, parse_properties, with_session_storage
from adelta.spark.options.session_settings import with_default_properties, write_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["WriteState", "after_write", "write_options"]

_OVERWRITE_MODE = "partitionOverwriteMode"
_IF_EXISTS = {"ErrorIfExists": "error", "Ignore": "ignore"}


@dataclass(frozen=True, slots=True)
class WriteState:
    """What a writer was told.

    Attributes:
        source: the format.
        mode: ``Append``, ``Overwrite``, ``ErrorIfExists`` or ``Ignore``.
        options: the options, as they were spelt.
        partition_by: the columns to partition by; None where none were named.
        cluster_by: the columns to cluster by; None where none were named.
        buckets: whether buckets or an order in them were asked for.
    """

    source: str
    mode: str
    options: dict[str, str] = field(repr=False)
    partition_by: list[str] | None
    cluster_by: list[str] | None
    buckets: bool


def write_options(told: WriteState, spark: SparkSession) -> dict[str, str]:
    """The options that say the same, in the settings of a session.

    Raises:
        InvalidOptionError: what was asked for makes no sense for a table, or no table is named.
        InvalidPropertyError: a property is unknown, or has a value that is not allowed.
    """
    if told.buckets:
        raise InvalidOptionError("a Delta table has no buckets: leave bucketBy and sortBy out")
    settings = dict(spark.conf.getAll)  # read once: each of them is a request to the JVM
    options, properties = dict[str, str](), dict[str, str]()
    for key, value in told.options.items():
        if key.lower().startswith("delta."):
            properties[key] = value
        elif key.lower() == "tableproperties":
            properties = parse_properties(value) | properties
        else:
            options["path" if key.lower() == "path" else key] = value
    validate_properties(properties)  # a table that is there does not look at them
    if "path" not in options:
        raise InvalidOptionError("no table is named: give its address, as in save(path)")
    options["path"] = absolute_uri(options["path"])
    options = with_session_storage(settings, options)
    if properties := with_default_properties(properties, settings):
        options["tableProperties"] = json.dumps(properties)
    if told.partition_by is not None:
        options["partitionBy"] = json.dumps(told.partition_by)
    if told.cluster_by is not None:
        options["clusterBy"] = json.dumps(told.cluster_by)
    named = {key.lower() for key in options}
    if told.mode in _IF_EXISTS and "ifexists" not in named:
        options["ifExists"] = _IF_EXISTS[told.mode]
    chosen = {_OVERWRITE_MODE.lower(), "replacewhere", "replaceon", "replaceusing"}
    if told.mode == "Overwrite" and not named & chosen:
        mode = settings.get(f"spark.sql.sources.{_OVERWRITE_MODE}", "static")
        options[_OVERWRITE_MODE] = _unless_schema_goes(mode, told)
    options |= write_settings(spark, settings, named)
    if not named & {option.lower() for option in TXN_SETTINGS}:
        options |= {
            option: settings[name] for option, name in TXN_SETTINGS.items() if name in settings
        }
    return options


def after_write(told: WriteState, spark: SparkSession) -> None:
    """Forget the number of a write that is done, where the session is to count each one anew."""
    if "txnversion" not in {key.lower() for key in told.options}:
        forget_txn(spark)


def _unless_schema_goes(mode: str, told: WriteState) -> str:
    """A session's mode of overwriting partitions, for a write that may replace the columns.

    A table that has no partitions then is overwritten whole, as in delta-spark.
    """
    given = {k.lower(): v for k, v in told.options.items()}
    replaces = given.get("overwriteschema", "false").lower() == "true"
    has_partitions = bool(told.partition_by) or "partitionby" in given
    if mode.lower() == "dynamic" and replaces and has_partitions:
        raise InvalidOptionError(
            "overwriteSchema replaces the whole table, and the session's"
            f" spark.sql.sources.{_OVERWRITE_MODE} asks for the partitions of the new rows alone:"
            f' add .option("{_OVERWRITE_MODE}", "static") to the writer',
            reason="schema_of_partitions",
        )
    return mode
