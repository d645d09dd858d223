"""Making a session know adelta: its side, the data source, and hooks in PySpark's methods."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql.utils import is_remote

from adelta.spark.classic.side import ClassicSide, PythonSourceSide
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.session.jar_settings import forget_catalog_of_jar
from adelta.spark.session.streams import hook_streams
from adelta.spark.side import Registration, side_of, use_side
from adelta.spark.source.datasource import AsDeltaDataSource, DeltaDataSource
from adelta.spark.sql_hook import hook_sql, unhook_sql
from adelta.spark.translate.identifiers import FORMAT
from adelta.spark.versions import SPARK, warn_if_unknown

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from adelta.spark.side import SparkSide

__all__ = ["choose_side", "ensure_delta", "ensure_registered", "register", "sql"]

_registered: WeakSet[SparkSession] = WeakSet()
_known: WeakSet[type] = WeakSet()  # classes of sessions that have a side


def choose_side(spark: SparkSession) -> SparkSide:
    """The side of a session, which is chosen for all sessions of its class at the first call."""
    if type(spark) not in _known:
        use_side(spark, _side())
        _known.add(type(spark))
    return side_of(spark)


def _side() -> SparkSide:
    warn_if_unknown()
    registration = Registration(ensure_registered, register, _adopt)
    if is_remote():
        from adelta.spark.connect.side import ConnectSide  # which needs grpc

        return ConnectSide(registration)
    return (ClassicSide if SPARK.is_known else PythonSourceSide)(registration)


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
    """Register a session; where `sql` is None, statements go where they went before."""
    side = choose_side(spark)
    if as_delta:
        forget_catalog_of_jar(spark)
    side.activate(spark)  # else Spark may register in the session of another thread
    spark.dataSource.register(DeltaDataSource)
    if as_delta:
        spark.dataSource.register(AsDeltaDataSource)
    _hook(spark, frozenset({FORMAT, "delta"} if as_delta else {FORMAT}), sql)


def _adopt(spark: SparkSession, formats: frozenset[str], sql: bool) -> None:
    """Register a session whose server has the data sources already."""
    choose_side(spark)
    _hook(spark, formats, sql or None)


def _hook(spark: SparkSession, formats: frozenset[str], takes_sql: bool | None) -> None:
    side = side_of(spark)
    side.hook(spark, formats)
    hook_streams(side)
    if takes_sql:
        hook_sql(spark, sql)
    elif takes_sql is not None:
        unhook_sql(spark)
    _registered.add(spark)


def ensure_registered(spark: SparkSession) -> None:
    """Register where `register` has not: Spark warns of a source that replaces another one."""
    if spark not in _registered:
        _register(spark, as_delta="delta" in choose_side(spark).formats(spark), sql=None)


def ensure_delta(spark: SparkSession) -> None:
    """Make a session answer to ``format("delta")`` and delta-spark's grammar where it does not.

    A session of an application that does has the format: there is only its SQL to take, so that
    those that Spark makes for each micro-batch cost nothing.
    """
    side = choose_side(spark)
    if "delta" in side.formats(spark):
        forget_catalog_of_jar(spark)
        hook_sql(spark, sql)
        return
    side.add_exceptions(spark)
    register(spark, as_delta=True, sql=True)


@raises_as_spark
def sql(
    spark: SparkSession,
    text: str,
    args: dict[str, Any] | list[Any] | None = None,
    **frames: DataFrame | Any,
) -> DataFrame:
    """What `spark.sql` answers; and statements over Delta tables that it does not know.

    In every session these are the ones that no grammar of Spark's has, such as ``DESCRIBE
    HISTORY``, ``CREATE TABLE ... CLONE`` and ``ALTER TABLE ... DROP FEATURE``; what is much work in
    them is done by tasks of Spark's. Through Spark Connect they are all that `adelta.sql` has,
    where they are about Delta tables: by path (``delta.`/lake/sales` ``), or by a name that the
    session knows. Times that name no zone are of the session's. ``table_changes('name', 3, 7)`` and
    ``table_changes_by_path`` stand for the rows that commits changed. `args` are values for
    parameters, and `frames` DataFrames and values for ``{name}`` in the text, as `spark.sql` takes
    them. What adelta does not know goes to Spark as it is.

    Raises:
        InvalidStatementError: a statement that only adelta knows is not written as it is to be.
        TableNotFoundError: such a statement is about no Delta table.
        AdeltaError: as `adelta.sql` does, each of them as Spark's error, too.
    """
    return choose_side(spark).sql(spark, text, args, frames)
