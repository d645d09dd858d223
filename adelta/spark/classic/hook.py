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

from adelta._dataclasses import dataclass
from adelta.spark.classic import jvm
from adelta.spark.options.read_write import with_session_storage
from adelta.spark.options.session_settings import read_settings
from adelta.spark.sql_hook import plain_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from adelta.spark.classic.jvm import WriteState

__all__ = ["Hooks", "hook", "hooked_formats", "plain_load"]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is done instead, in sessions of an application, for `formats`, in lower case.

    `load` is given a reader's options, ``path`` among them, and says None where Spark is to go on
    by itself. `save` is given the DataFrame and what its writer was told.
    """

    formats: frozenset[str]
    load: Callable[[SparkSession, dict[str, str]], DataFrame | None]
    save: Callable[[DataFrame, WriteState], None]


_applications: WeakKeyDictionary[Any, Hooks] = WeakKeyDictionary()  # by SparkContext
_spark_load = DataFrameReader.load
_spark_save = DataFrameWriter.save
_spark_refresh = Catalog.refreshTable


def hook(spark: SparkSession, hooks: Hooks) -> None:
    """Do as `hooks` say in the session, and in all that share its application."""
    _applications[spark.sparkContext] = hooks
    DataFrameReader.load = _load  # type: ignore[method-assign]
    DataFrameWriter.save = _save  # type: ignore[method-assign]
    Catalog.refreshTable = _refresh  # type: ignore[method-assign]


def hooked_formats(spark: SparkSession) -> frozenset[str]:
    """The formats for which something else is done in the session; none in one of Connect."""
    if jvm.unusable(spark) is not None:
        return frozenset()
    found = _applications.get(spark.sparkContext)
    return frozenset() if found is None else found.formats


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
    hooks = _hooks_of(self._spark)
    if hooks is None or not (path is None or isinstance(path, str)):
        return _spark_load(self, path)
    source, given, has_schema = jvm.options_of(self)
    if source.lower() not in hooks.formats:
        return _spark_load(self, path)
    if path is not None:
        given["path"] = path
    given = with_session_storage(self._spark, given)
    given |= read_settings(self._spark, {key.lower() for key in given})
    found = None if has_schema else hooks.load(self._spark, given)
    if found is not None:
        return found
    # The user's own reader keeps the format and the options that it was given.
    reader = self._spark.read.format(jvm.FORMAT).options(**given)
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
    hooks = _hooks_of(self._spark)
    if format is not None:
        self.format(format)
    if hooks is None or (state := jvm.write_state(self)).source.lower() not in hooks.formats:
        return _spark_save(self, path, None, mode, partitionBy, **options)
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    state = jvm.write_state(self)
    if path is not None:
        state.options["path"] = path
    return hooks.save(self._df, state)


@wraps(_spark_refresh)
def _refresh(self: Catalog, tableName: str) -> None:
    if _hooks_of(self._sparkSession) is None:
        _spark_refresh(self, tableName)
    else:
        plain_sql(self._sparkSession, f"REFRESH TABLE {tableName}")


def _hooks_of(spark: SparkSession) -> Hooks | None:
    return None if jvm.unusable(spark) is not None else _applications.get(spark.sparkContext)
