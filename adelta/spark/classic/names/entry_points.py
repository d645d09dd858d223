"""The methods of PySpark that may be told names of tables: before they run, names are known.

That costs a session some tenths of a second once, which one that never uses names does not pay.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from adelta.spark.classic import jvm
from adelta.spark.classic.hook import hooked_formats
from adelta.spark.classic.java_classes import NotCompiledError
from adelta.spark.classic.names import in_jvm
from adelta.spark.classic.names.catalog import CatalogAnswers
from adelta.spark.classic.names.through_jvm import recognise_errors
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.options.changes import reads_changes
from adelta.spark.options.replacing import replaces_matching
from adelta.spark.rows.saving import save
from adelta.spark.rows.unresolved_merges import raises_as_merge
from adelta.spark.side import side_of
from adelta.spark.translate.identifiers import FORMAT
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.spark.classic.names.in_jvm import ManagedPlace

__all__ = ["hook_names", "know_names", "managed_place", "table_uri"]

_log = logging.getLogger("adelta.spark")
_answers: WeakKeyDictionary[Any, CatalogAnswers] = WeakKeyDictionary()  # by SparkContext
_named: WeakValueDictionary[str, SparkSession] = WeakValueDictionary()  # by id in the JVM
_lock = threading.RLock()
_KNOWN = "_adelta_names"
_DEFAULT_FORMAT = "spark.sql.sources.default"
_spark_read_table = DataFrameReader.table
_spark_save_as_table = DataFrameWriter.saveAsTable
_spark_insert_into = DataFrameWriter.insertInto


def hook_names(spark: SparkSession, formats: frozenset[str]) -> None:
    """Let names be known in all sessions of an application that has `formats`, once one is used."""
    _answers[spark.sparkContext] = CatalogAnswers(_session_of)
    recognise_errors()
    for owner, name in _METHODS:
        method = owner.__dict__[name]
        if not hasattr(method, _KNOWN):
            is_merge = _MERGES.get((owner, name))
            known = method if is_merge is None else raises_as_merge(method, is_merge)
            setattr(owner, name, _knowing(known))
    if not hasattr(DataFrameReader.table, _KNOWN):
        setattr(_read_table, _KNOWN, True)
        DataFrameReader.table = _read_table  # type: ignore[method-assign]
    DataFrameWriter.saveAsTable = _save_as_table  # type: ignore[method-assign]
    DataFrameWriter.insertInto = _insert_into  # type: ignore[method-assign]


def know_names(spark: SparkSession) -> None:
    """Make names known in a session of an application that was given to `hook_names`."""
    formats = hooked_formats(spark)
    if not formats or spark.__dict__.get(_KNOWN) == formats:
        return
    with _lock:
        side_of(spark).ensure_registered(spark)
        _named[spark._jsparkSession.sessionUUID()] = spark
        try:
            in_jvm.install(spark, formats, _answers[spark.sparkContext])
        except NotCompiledError as error:
            _log.warning("tables have no names in this session: %s", error)
        except Exception:
            _log.warning("tables have no names in this session", exc_info=True)
        spark.__dict__[_KNOWN] = formats


def table_uri(spark: SparkSession, name: str) -> str | None:
    """Where a Delta table is that a name in SQL means; None where it means none."""
    know_names(spark)
    return in_jvm.table_uri(spark, name) if hooked_formats(spark) else None


def managed_place(spark: SparkSession, name: str) -> ManagedPlace | None:
    """Where the session's catalog would keep a table of a name; None where that is not known.

    Raises:
        AnalysisException: there is no such database.
    """
    know_names(spark)
    return in_jvm.managed_place(spark, name) if hooked_formats(spark) else None


def _session_of(session: Any) -> SparkSession:
    """The session in Python of one in the JVM."""
    found = _named.get(session.sessionUUID())
    if found is None:
        context = SparkContext._active_spark_context
        assert context is not None
        found = SparkSession(context, session)
    return found


def _knowing(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which sees to it first that names are known."""

    @wraps(method)
    def knowing(self: Any, *arguments: Any, **named: Any) -> Any:
        know_names(_session_behind(self))
        return method(self, *arguments, **named)

    setattr(knowing, _KNOWN, True)
    return knowing


def _is_merge(spark: SparkSession, text: Any, *_: Any, **__: Any) -> bool:
    """Whether a statement is a merge into a Delta table."""
    return _merges_into_delta(spark, in_jvm.parsed(spark, text))


def _runs_merge(writer: MergeIntoWriter) -> bool:
    """Whether a merge of PySpark's is into a Delta table."""
    return _merges_into_delta(writer._spark, in_jvm.merge_of(writer))


def _merges_into_delta(spark: SparkSession, plan: Any) -> bool:
    target = None if plan is None else in_jvm.merged_into(plan)
    return target is not None and table_uri(spark, target) is not None


def _session_behind(asked: Any) -> SparkSession:
    """The session of what a method was called on."""
    if isinstance(asked, SparkSession):
        return asked
    found: SparkSession
    for name in ("_spark", "_sparkSession", "sparkSession"):
        if isinstance(found := getattr(asked, name, None), SparkSession):  # type: ignore[assignment]
            return found
    raise TypeError(f"a {type(asked).__name__} has no session")


@wraps(_spark_read_table)
@raises_as_spark
def _read_table(self: DataFrameReader, tableName: str) -> Any:
    know_names(self._spark)
    if hooked_formats(self._spark):
        _, given, _ = jvm.options_of(self)
        # A table in the JVM has the rows of one version.
        if reads_changes({key.lower(): value for key, value in given.items()}) and (
            uri := table_uri(self._spark, tableName)
        ):
            return self._spark.read.format(FORMAT).options(**given).load(uri)
    return _spark_read_table(self, tableName)


@wraps(_spark_save_as_table)
def _save_as_table(
    self: DataFrameWriter,
    name: str,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    know_names(self._spark)
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    if format is not None:
        self.format(format)
    if formats := hooked_formats(self._spark):
        told = jvm.write_state(self)
        known = told.source.lower() in formats
        # Spark would replace the table, and its properties and layout with it.
        if known and told.mode == "Overwrite" and (uri := table_uri(self._spark, name)):
            told.options["path"] = uri
            return save(self._df, told)
        # Where a table is in an own catalog, Spark appends without looking at the format.
        unsaid = told.source == self._spark.conf.get(_DEFAULT_FORMAT)
        if unsaid and not known and told.mode == "Append" and table_uri(self._spark, name):
            self.format(FORMAT)
    return _spark_save_as_table(self, name)


@wraps(_spark_insert_into)
def _insert_into(self: DataFrameWriter, tableName: str, overwrite: bool | None = None) -> None:
    know_names(self._spark)
    told = jvm.write_state(self) if hooked_formats(self._spark) else None
    if told is not None and replaces_matching(told.options):
        if overwrite is not None:
            told = replace(told, mode="Overwrite" if overwrite else "Append")
        if uri := table_uri(self._spark, tableName):
            told.options["path"] = uri  # the condition is about columns as the rows call them
            return save(self._df, told, by_order=True)
    return _spark_insert_into(self, tableName, overwrite)


_METHODS: tuple[tuple[Any, str], ...] = (
    (SparkSession, "sql"),
    (SparkSession, "table"),
    *((Catalog, name) for name in SPARK.catalog_methods),
    (DataFrame, "writeTo"),
    (DataFrame, "mergeInto"),
    (MergeIntoWriter, "merge"),
    (DataStreamReader, "table"),
    (DataStreamWriter, "toTable"),
)
_MERGES: dict[tuple[Any, str], Callable[..., bool]] = {
    (SparkSession, "sql"): _is_merge,
    (MergeIntoWriter, "merge"): _runs_merge,
}
