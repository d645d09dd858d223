"""What `spark.read...load()` and `df.write...save()` do in an application that knows adelta.

PySpark has no way to put a relation of one's own behind a format, and refuses some modes of writing
before a data source is asked. So both methods are replaced, once in a process; they look at
adelta's formats alone, in sessions of applications that were given to `hook`. There
`spark.catalog.refreshTable` says what it does by the statement of that name: Spark's method knows
relations of its own alone.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrameReader, DataFrameWriter
from pyspark.sql.catalog import Catalog

from adelta.errors import AdeltaError
from adelta.spark.classic import jvm
from adelta.spark.classic.native.scan import native_frame
from adelta.spark.exceptions import as_data_source_says
from adelta.spark.options.path_travel import read_options
from adelta.spark.options.read_write import with_session_storage
from adelta.spark.options.session_settings import read_settings
from adelta.spark.rows.saving import save
from adelta.spark.side import side_of
from adelta.spark.sql_hook import plain_sql
from adelta.spark.translate.identifiers import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["hook", "hooked_formats", "plain_load"]


_applications: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()  # by SparkContext
_spark_load = DataFrameReader.load
_spark_save = DataFrameWriter.save
_spark_refresh = Catalog.refreshTable


def hook(spark: SparkSession, formats: frozenset[str]) -> None:
    """Let `formats`, in lower case, be adelta's in all sessions of an application."""
    _applications[spark.sparkContext] = formats
    DataFrameReader.load = _load  # type: ignore[method-assign]
    DataFrameWriter.save = _save  # type: ignore[method-assign]
    Catalog.refreshTable = _refresh  # type: ignore[method-assign]


def hooked_formats(spark: SparkSession) -> frozenset[str]:
    """The formats that are adelta's in a session."""
    return _applications.get(spark.sparkContext, frozenset())


def plain_load(reader: DataFrameReader) -> DataFrame:
    """What Spark itself loads."""
    return _spark_load(reader)


@wraps(_spark_load)
def _load(
    self: DataFrameReader,
    path: Any = None,
    format: str | None = None,
    schema: Any = None,
    **options: Any,
) -> DataFrame:
    if format is not None:
        self.format(format)
    if schema is not None:
        self.schema(schema)
    self.options(**options)
    formats = hooked_formats(self._spark)
    if not formats or not (path is None or isinstance(path, str)):
        return _spark_load(self, path)
    source, given, has_schema = jvm.options_of(self)
    if source.lower() not in formats:
        return _spark_load(self, path)
    if path is not None:
        given["path"] = path
    given = with_session_storage(self._spark.conf.getAll, given)
    given |= read_settings(self._spark, {key.lower() for key in given})
    found = None if has_schema else _native(self._spark, given)
    if found is not None:
        return found
    # The user's own reader keeps the format and the options that it was given.
    reader = self._spark.read.format(FORMAT).options(**given)
    if has_schema:
        jvm.give_schema(self, reader)
    return _spark_load(reader)


@wraps(_spark_save)
def _save(
    self: DataFrameWriter,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    if format is not None:
        self.format(format)
    formats = hooked_formats(self._spark)
    if not formats or (state := jvm.write_state(self)).source.lower() not in formats:
        return _spark_save(self, path)
    if path is not None:
        state.options["path"] = path
    return save(self._df, state)


@wraps(_spark_refresh)
def _refresh(self: Catalog, tableName: str) -> None:
    if not hooked_formats(self._sparkSession):
        _spark_refresh(self, tableName)
    else:
        plain_sql(self._sparkSession, f"REFRESH TABLE {tableName}")


def _native(spark: SparkSession, given: dict[str, str]) -> DataFrame | None:
    """A table by Spark's own scan; None where adelta's data source has to read it."""
    side_of(spark).ensure_registered(spark)
    jvm.activate(spark)
    try:
        options = read_options(given)
        if options.changes is not None or not options.native_scan:
            return None
        return native_frame(spark, options)
    except AdeltaError as error:
        raise as_data_source_says(error) from error
