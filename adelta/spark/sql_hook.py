"""`spark.sql`, which in some sessions hands its text to adelta first.

In classic Spark other sessions of the same application do so with them, until they are told
otherwise: those of `spark.newSession()`, and those that Spark makes for each micro-batch.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from adelta.spark.side import side_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    Runs = Callable[..., DataFrame]

__all__ = ["has_sql_hook", "hook_sql", "plain_sql", "unhook_sql"]

_hooked: WeakKeyDictionary[SparkSession, Runs] = WeakKeyDictionary()
_unhooked: WeakSet[SparkSession] = WeakSet()
_plain: dict[type[Any], Any] = {}  # Spark's own method, once there is a session that is hooked


def hook_sql(spark: SparkSession, runs: Runs) -> None:
    """Let `runs` answer what `spark.sql` is told."""
    owner = _owner(spark)
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
    if found is None and spark not in _unhooked:
        own = side_of(spark).application(spark)
        hooked = [(other, runs) for other, runs in _hooked.items() if type(other) is type(spark)]
        same = (runs for other, runs in hooked if side_of(other).application(other) is own)
        found = next(same, None)
    return found


def plain_sql(spark: SparkSession, text: str, args: Any = None, **frames: DataFrame) -> DataFrame:
    """What Spark itself answers; ``{name}`` in the text is one of the `frames`."""
    method = _plain.get(_owner(spark))
    if method is None:
        return spark.sql(text, args, **frames)
    found: DataFrame = method(spark, text, args, **frames)
    return found


def _owner(spark: SparkSession) -> Any:
    """The class that defines the session's method `sql`."""
    return next(kind for kind in type(spark).__mro__ if "sql" in vars(kind))


def _replacement(plain: Any) -> Any:
    @wraps(plain)
    def sql(self: Any, sqlQuery: str, args: Any = None, **frames: Any) -> Any:
        runs = _runs_of(self)
        if runs is None or not isinstance(sqlQuery, str):
            return plain(self, sqlQuery, args, **frames)
        return runs(self, sqlQuery, args, **frames)

    return sql
