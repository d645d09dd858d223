"""Sessions that are made: while the package `delta` is adelta's, they know Delta tables.

PySpark has no hook for that. So what makes sessions is replaced, once in a process: builders, the
`SparkSession` that is made over a `SparkContext`, and what starts the JVM of that.
"""

from __future__ import annotations

import os
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from adelta.spark.session.jar_settings import changed_without_jar, leave_jar_out
from adelta.spark.session.java import ensure_java
from adelta.spark.session.registration import ensure_delta

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import SparkConf

__all__ = ["MARK", "want_delta", "watch_new_sessions"]

MARK = "_of_adelta"
"""What a package `delta` has that is adelta's, and a builder whose sessions are to know tables."""


def want_delta(builder: SparkSession.Builder) -> None:
    """Let the sessions of a builder know Delta tables, whatever the package `delta` is."""
    watch_new_sessions()
    setattr(builder, MARK, True)


def watch_new_sessions() -> None:
    """Let sessions that are made from now on know Delta tables, while `delta` is adelta's."""
    builder: Any = SparkSession.Builder
    if hasattr(builder.getOrCreate, MARK):
        return
    for name in ("getOrCreate", "create"):
        setattr(builder, name, _of_builder(builder.__dict__[name]))
    context: Any = SparkContext
    context._ensure_initialized = classmethod(
        _starting(context.__dict__["_ensure_initialized"].__func__)
    )
    session: Any = SparkSession
    session.__init__ = _initialised(session.__dict__["__init__"])


def _installed() -> bool:
    return hasattr(sys.modules.get("delta"), MARK)


def _of_builder(get: Callable[..., SparkSession]) -> Callable[..., SparkSession]:
    @wraps(get)
    def made(self: Any) -> SparkSession:
        if not _installed() and not hasattr(self, MARK):
            return get(self)
        options = self._options
        for key, kept in changed_without_jar(options).items():
            if kept is None:
                del options[key]
            else:
                options[key] = kept
        if not _is_remote(options) and SparkSession.getActiveSession() is None:
            _prepare_start({"spark.master": "local", **options})
        spark = get(self)
        ensure_delta(spark)
        return spark

    setattr(made, MARK, True)
    return made


def _is_remote(options: dict[str, Any]) -> bool:
    return "spark.remote" in options or "SPARK_REMOTE" in os.environ


def _starting(initialize: Callable[..., None]) -> Callable[..., None]:
    @wraps(initialize)
    def ensure_initialized(
        cls: Any, instance: Any = None, gateway: Any = None, conf: SparkConf | None = None
    ) -> None:
        if _installed() and instance is not None:
            if conf is not None:
                leave_jar_out(conf)
            if SparkContext._gateway is None and gateway is None:
                _prepare_start({} if conf is None else dict(conf.getAll()))
        initialize(cls, instance, gateway, conf)

    return ensure_initialized


def _initialised(initialize: Callable[..., None]) -> Callable[..., None]:
    @wraps(initialize)
    def init(self: SparkSession, *arguments: Any, **named: Any) -> None:
        initialize(self, *arguments, **named)
        if _installed():
            ensure_delta(self)

    return init


def _prepare_start(settings: Mapping[str, Any]) -> None:
    """See to a Java for the JVM that is started, and to workers of it that run this Python.

    Where `spark-submit` has started it, or the workers are a cluster's, all of that is seen to.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    ensure_java()
    local = str(settings.get("spark.master", "")).startswith("local")
    if local and "spark.pyspark.python" not in settings:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
