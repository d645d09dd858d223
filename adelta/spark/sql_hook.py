"""`spark.sql`, which in some sessions hands its text to adelta first."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    Runs = Callable[[SparkSession, str, Any], DataFrame]

__all__ = ["has_sql_hook", "hook_sql", "plain_sql", "unhook_sql"]

_hooked: WeakKeyDictionary[SparkSession, Runs] = WeakKeyDictionary()
_plain: dict[type[Any], Any] = {}  # Spark's own method, once there is a session that is hooked


def hook_sql(spark: SparkSession, runs: Runs) -> None:
    """Let `runs` answer what `spark.sql` is told, but for statements over DataFrames by name."""
    owner = _owner()
    if owner not in _plain:
        _plain[owner] = owner.__dict__["sql"]
        owner.sql = _replacement(_plain[owner])
    _hooked[spark] = runs


def has_sql_hook(spark: SparkSession) -> bool:
    """Whether adelta is handed what `spark.sql` is told."""
    return spark in _hooked


def unhook_sql(spark: SparkSession) -> None:
    """Let `spark.sql` be Spark's own again."""
    _hooked.pop(spark, None)


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
        runs = _hooked.get(self)
        if runs is None or frames or not isinstance(sqlQuery, str):
            return plain(self, sqlQuery, args, **frames)
        return runs(self, sqlQuery, args)

    return sql
