"""The scans of tables that the plan of a DataFrame has, in the JVM."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from adelta.spark.classic import jvm
from adelta.spark.classic.java_classes import NotCompiledError
from adelta.spark.options.path_travel import read_options
from adelta.spark.rows.own_reads import scan_of
from adelta.spark.side import TableScan
from adelta.spark.source.datasource import DeltaDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["scans_of"]

_FORMATS = ("adelta", "delta")


def scans_of(spark: SparkSession, plan: Any) -> list[TableScan]:
    """What a plan of the JVM's reads of tables, but for versions that were asked for.

    Rows that Spark has in its cache are read from there, and are of no table.
    """
    try:
        found = jvm.table_scans(spark, plan)
    except NotCompiledError:
        return []
    scans = (_of_index(node) if jvm.is_file_index(node) else _of_source(node) for node in found)
    return [scan for scan in scans if scan is not None]


def _of_index(index: Any) -> TableScan | None:
    version, _, uri = str(index.latest()).partition(" ")
    return TableScan(uri, int(version)) if uri else None


def _of_source(relation: Any) -> TableScan | None:
    try:
        name, pickled = jvm.pickled_source(relation)
        source = pickle.loads(pickled) if name in _FORMATS else None  # by this session's workers
    except Py4JError:
        return None
    if not isinstance(source, DeltaDataSource):
        return None
    options = read_options(source.options)
    return None if options.changes is not None else scan_of(options, source._version)
