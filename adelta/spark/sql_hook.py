"""`spark.sql`, which in some sessions hands its text to adelta first.

In classic Spark other sessions of the same application do so with them, until they are told
otherwise: those of `spark.newSession()`, and those that Spark makes for each micro-batch.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    Runs = Callable[..., DataFrame]

__all__ = ["has_sql_hook", "hook_sql", "plain_sql", "unhook_sql"]

_hooked: WeakKeyDictionary[SparkSession, Runs] = WeakKeyDictionary()
_unhooked: WeakSet[SparkSession] = WeakSet()
_plain: dict[type[Any], Any] = {}  # Spark's own method, once there is a session that is hooked


def hook_sql(spark: SparkSession, runs: Runs) -> None:
    """Let `runs` answer what `spark.sql` is told.

    It does so for statements over DataFrames by name only through Spark Connect, as Spark itself
    knows Delta tables by their names elsewhere.
    """
    owner = _owner()
    if owner not in _plain:
        _plain[owner] = owner.__dict__["sql"]
        owner.sql = _replacement(_plain[owner])
    _hooked[spark] = runs
    _unhooked.discard(spark)


def has_sql_hook(spark: SparkSession) -> bool:
    """Whether adelta is handed what `spark.sql` is told."""
    return _runs_of(spark) is not None


def unhook_sql(spark: SparkSession) -> None:
    """Let `spark.sql` be Spark's own again."""
    _hooked.pop(spark, None)
    _unhooked.add(spark)


def _runs_of(spark: SparkSession) -> Runs | None:
    """What answers in a session: what it was told, or else another one of its application."""
    found = _hooked.get(spark)
    if found is None and spark not in _unhooked and not is_remote():
        of_this = (runs for other, runs in list(_hooked.items()) if _together(other, spark))
        found = next(of_this, None)
    return found


def _together(one: SparkSession, other: SparkSession) -> bool:
    """Whether two classic sessions are of one application."""
    return one.sparkContext is other.sparkContext


def plain_sql(spark: SparkSession, text: str, args: Any = None, **frames: DataFrame) -> DataFrame:
    """What Spark itself answers; ``{name}`` in the text is one of the `frames`."""
    method = _plain.get(_owner())
    if method is None:
        return spark.sql(text, args, **frames)
    found: DataFrame = method(spark, text, args, **frames)
    return found


def _owner() -> Any:
    """The class of sessions."""
    if not is_remote():
        return SparkSession
    from pyspark.sql.connect.session import SparkSession as RemoteSession  # which needs grpc

    return RemoteSession


def _replacement(plain: Any) -> Any:
    @wraps(plain)
    def sql(self: Any, sqlQuery: str, args: Any = None, **frames: Any) -> Any:
        runs = _runs_of(self)
        if runs is None or (frames and not is_remote()) or not isinstance(sqlQuery, str):
            return plain(self, sqlQuery, args, **frames)
        return runs(self, sqlQuery, args, **frames)

    return sql
