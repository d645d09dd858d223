"""Spark sessions for one machine, and making a session know adelta.

`register` is all that a session of one's own needs. `get_session` starts a session that works from
a bare ``pip install adelta[spark]``: with a Java (see `adelta.spark.session.java`), with this very
Python in its workers, and reachable from this machine alone.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from adelta.errors import AdeltaError, TableNotFoundError
from adelta.spark.classic import jvm
from adelta.spark.classic.hook import Hooks, hook, hooked_formats
from adelta.spark.classic.jar_settings import forget_catalog_of_jar
from adelta.spark.classic.java_exceptions import add_java_exceptions
from adelta.spark.classic.names.entry_points import hook_names
from adelta.spark.classic.native.frame_write import write_frame
from adelta.spark.classic.native.scan import native_frame
from adelta.spark.connect.writers import hook_writers, plain_remote_save, remote_formats
from adelta.spark.exceptions import CONFLICTS, as_spark_has_it, known_as_of
from adelta.spark.options.path_travel import read_options
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.options.replacing import REPLACE_OPTIONS, keeps_rows, replaces_matching
from adelta.spark.options.writer import after_write, write_options
from adelta.spark.rows.own_reads import made_of
from adelta.spark.rows.rebalancing import rebalanced
from adelta.spark.session.java import ensure_java
from adelta.spark.session.streams import hook_streams
from adelta.spark.source.datasource import FORMAT, AsDeltaDataSource, DeltaDataSource
from adelta.spark.sql_hook import has_sql_hook, hook_sql, unhook_sql
from adelta.spark.versions import warn_if_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from adelta.operations.write_transactions import DefinedBy
    from adelta.spark.classic.jvm import WriteState

__all__ = [
    "ensure_delta",
    "ensure_registered",
    "format_of",
    "get_session",
    "known_in_batches",
    "register",
    "save",
]

_registered: WeakSet[SparkSession] = WeakSet()

_LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def register(spark: SparkSession, *, as_delta: bool = False, sql: bool = False) -> None:
    """Make ``format("adelta")`` known to `spark`, for reading and for writing.

    Writers then have all modes, and heed the session's settings. In a classic session, Spark's own
    scan of Parquet reads tables where it can; so it does in the sessions that `spark.newSession()`
    makes. With `as_delta` they answer to ``format("delta")``, too, and with `sql` what
    `adelta.spark.sql` does is what `spark.sql` does in this session, and in classic ones of the
    same application that were not registered without it.
    """
    _register(spark, as_delta=as_delta, sql=sql)


def _register(spark: SparkSession, *, as_delta: bool, sql: bool | None) -> None:
    """Do so; where `sql` is None, statements go where they went before."""
    warn_if_unknown()
    if as_delta:
        forget_catalog_of_jar(spark)
    classic = jvm.unusable(spark) is None
    if classic:
        jvm.activate(spark)  # else Spark may register in the session of another thread
    spark.dataSource.register(DeltaDataSource)
    if as_delta:
        spark.dataSource.register(AsDeltaDataSource)
    elif classic and "delta" in hooked_formats(spark):
        jvm.forget_source(spark, "delta")
    formats = frozenset({FORMAT, "delta"} if as_delta else {FORMAT})
    if classic:
        hook(spark, Hooks(formats, _load, save))
        hook_names(spark, formats, ensure_registered, save)
    elif is_remote():
        hook_writers(spark, formats, save)
    hook_streams(_stream_formats, _prepare_stream)
    if sql:
        _take_sql(spark)
    elif sql is not None:
        unhook_sql(spark)
    _registered.add(spark)


def known_in_batches(
    spark: SparkSession, function: Callable[[DataFrame, int], object]
) -> Callable[[DataFrame, int], object]:
    """A function of micro-batches in whose sessions adelta is known as it is in `spark`.

    That is for Spark Connect, which runs the function in a process beside the server, in sessions
    that have the data source and know nothing of their client's.
    """
    return partial(_in_batch, function, remote_formats(spark), has_sql_hook(spark))


def _in_batch(
    function: Callable[[DataFrame, int], object],
    formats: frozenset[str],
    takes_sql: bool,
    df: DataFrame,
    batch_id: int,
) -> object:
    spark = df.sparkSession
    hook_writers(spark, formats, save)
    hook_streams(_stream_formats, _prepare_stream)
    if takes_sql:
        _take_sql(spark)
    _registered.add(spark)
    return function(df, batch_id)


def _take_sql(spark: SparkSession) -> None:
    from adelta.spark.statements.text import sql as runs  # which imports this module

    hook_sql(spark, runs)


def ensure_delta(spark: SparkSession) -> None:
    """Make a session answer to ``format("delta")`` and delta-spark's grammar where it does not.

    A session of an application that does has the format: there is only its SQL to take, so that
    those that Spark makes for each micro-batch cost nothing.
    """
    if "delta" in hooked_formats(spark):
        forget_catalog_of_jar(spark)
        _take_sql(spark)
        return
    if jvm.unusable(spark) is None:
        base, *others = CONFLICTS
        add_java_exceptions(spark, base, others)
    if "delta" not in _stream_formats(spark) or not has_sql_hook(spark):
        register(spark, as_delta=True, sql=True)


def format_of(spark: SparkSession) -> str:
    """The format by which a session's catalog is to know tables: delta-spark's where it answers."""
    return "delta" if "delta" in _stream_formats(spark) else FORMAT


def _stream_formats(spark: SparkSession) -> frozenset[str]:
    """The formats whose streams are adelta's."""
    if jvm.unusable(spark) is None:
        return hooked_formats(spark)
    return remote_formats(spark) if is_remote() else frozenset({FORMAT})


def _prepare_stream(spark: SparkSession) -> None:
    ensure_registered(spark)
    if jvm.unusable(spark) is None:
        jvm.activate(spark)


def _load(spark: SparkSession, options: dict[str, str]) -> DataFrame | None:
    """A table by Spark's own scan, where nothing but that was asked for."""
    ensure_registered(spark)
    jvm.activate(spark)
    try:
        given = read_options(options)
        if given.changes is not None or not given.native_scan:
            return None
        return native_frame(spark, given)
    except AdeltaError as error:  # as Spark has it of a data source
        raise _as_spark_says(error) from error


def save(
    df: DataFrame,
    told: WriteState,
    *,
    defined_by: DefinedBy | None = None,
    description: str | None = None,
    by_order: bool = False,
) -> None:
    """Write as a writer was told: from here, or by the data source where there is no driver here.

    `defined_by` and `description` are what statements say of a table besides.
    Where rows that match go, columns are for those of the table `by_order`, or by their names.

    Raises:
        CommitConflictError: another commit came first; it is delta-spark's exception, too.
        AdeltaError: any other, which is one of PySpark's, too.
        AnalysisException: it holds the text of an error that PySpark has no class for.
    """
    spark = df.sparkSession
    ensure_registered(spark)
    try:
        if replaces_matching(told.options):
            with known_as_of("replace"):
                _replaced(df, told, defined_by, by_order=by_order)
        else:
            with known_as_of("write"):
                _written(df, told, defined_by, description)
    except AdeltaError as error:
        raise _as_spark_says(error) from error.__cause__
    after_write(told, spark)


def _replaced(
    df: DataFrame, told: WriteState, defined_by: DefinedBy | None, *, by_order: bool
) -> None:
    """Write rows in the place of those that match; all of them where there is no table."""
    from adelta.spark.rows.replacing import replace_rows  # which imports this module

    if defined_by is not None:
        raise keeps_rows()
    asked = WriteOptions.parse(write_options(told, df.sparkSession))
    if asked.matching is not None and told.mode == "Overwrite":
        try:
            replace_rows(df, asked, asked.matching, by_order=by_order)
            return
        except TableNotFoundError:
            pass
    elif told.mode == "Append":
        asked.request(overwrite=False)
    known = [option.lower() for option in REPLACE_OPTIONS]
    options = {key: value for key, value in told.options.items() if key.lower() not in known}
    _written(df, replace(told, options=options), None, None)


def _written(
    df: DataFrame, told: WriteState, defined_by: DefinedBy | None, description: str | None
) -> None:
    spark, overwrite = df.sparkSession, told.mode == "Overwrite"
    options = write_options(told, spark)
    df, asked = rebalanced(df, options), WriteOptions.parse(options)
    if asked.made_of is None:
        asked = replace(asked, made_of=made_of(df, asked))
    if not is_remote():
        asked = replace(asked, defined_by=defined_by, description=description)
        write_frame(df, asked, overwrite=overwrite)
        return
    if asked.made_of is not None:
        options["madeOf"] = str(asked.made_of)
    if defined_by is not None:
        options["definedBy"] = defined_by
    if description is not None:
        options["description"] = description
    path = options.pop("path", "")
    writer = df.write.format(FORMAT).options(**options)
    plain_remote_save(writer.mode("overwrite" if overwrite else "append"), path)


def _as_spark_says(error: AdeltaError) -> Exception:
    """The error as one of Spark's as well; or one of Spark's that holds its text."""
    found = as_spark_has_it(error)
    if isinstance(found, PySparkException):
        return found
    return AnalysisException(f"{type(error).__name__}: {error}")


def ensure_registered(spark: SparkSession) -> None:
    """Register where `register` has not: Spark warns of a source that replaces another one."""
    if spark not in _registered:
        _register(spark, as_delta="delta" in hooked_formats(spark), sql=None)


def get_session(
    app_name: str = "adelta",
    master: str = "local[*]",
    conf: dict[str, str] | None = None,
) -> SparkSession:
    """A Spark session that knows adelta: the running one, or a new one.

    `conf` wins over adelta's defaults, which are for a session inside this process: no web
    interface, bound to loopback, workers that run this Python. They are left out where `master`
    is a cluster.

    Raises:
        InvalidUseError: there is no Java that Spark can use.
    """
    settings = dict(conf or {})
    if master.startswith("local"):
        settings = _LOCAL_DEFAULTS | settings
        if "spark.pyspark.python" not in settings:
            # Otherwise workers are the first `python3` of the search path, which in a virtual
            # environment that is not activated is another Python, without adelta.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        ensure_java()
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    ensure_registered(spark)
    return spark
