"""The package ``delta``, on request: what delta-spark's users import, over adelta."""

from __future__ import annotations

import os
import sys
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from adelta.errors import InvalidUseError
from adelta.spark import exceptions
from adelta.spark.delta_table import DeltaTable
from adelta.spark.exceptions import WrongTypeError
from adelta.spark.java import ensure_java
from adelta.spark.merge_builder import DeltaMergeBuilder
from adelta.spark.optimize_builder import DeltaOptimizeBuilder
from adelta.spark.session import register
from adelta.spark.table_builder import DeltaColumnBuilder, DeltaTableBuilder, IdentityGenerator
from adelta.write.spec import engine_info

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["configure_spark_with_delta_pip", "install_as_delta"]

_OF_THE_JAR = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings that name classes of delta-spark's jar, which is not there."""

_CONFLICTS = (
    "DeltaConcurrentModificationException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
)


def install_as_delta() -> None:
    """Let ``import delta`` and ``from delta.tables import DeltaTable`` mean adelta's, from now on.

    Jobs written for delta-spark then run without a changed line, as far as adelta goes: `delta`,
    `delta.tables`, `delta.exceptions` and `delta.pip_utils`. The session that is active, and those
    that ``configure_spark_with_delta_pip(builder).getOrCreate()`` makes, answer to
    ``format("delta")``; others do after ``register(spark, as_delta=True)``.

    Raises:
        InvalidUseError: delta-spark is installed, or another package of the name ``delta``.
    """
    installed = sys.modules.get("delta")
    if installed is None:
        found = find_spec("delta")
        if found is not None and found.origin is not None:
            raise InvalidUseError(
                f"there is a package delta already, at {found.origin}; uninstall it (delta-spark), "
                "or import DeltaTable from adelta.spark"
            )
        for module in _modules():
            sys.modules[module.__name__] = module
    elif not hasattr(installed, "_of_adelta"):
        raise InvalidUseError(
            "a package delta has been imported already; uninstall it (delta-spark), or import "
            "DeltaTable from adelta.spark"
        )
    spark = SparkSession.getActiveSession()
    if spark is not None:
        register(spark, as_delta=True)


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: list[str] | None = None
) -> SparkSession.Builder:
    """The builder, whose `getOrCreate` gives a session that knows Delta tables, without a jar.

    Settings that name classes of delta-spark's jar are taken out. `extra_packages` are jars that
    Spark is to fetch, by their names in Maven.

    Raises:
        WrongTypeError: it is no builder of a session.
    """
    if not isinstance(spark_session_builder, SparkSession.Builder):
        raise WrongTypeError(
            "This function must be called with a SparkSession builder as the argument, found one "
            f"of type {type(spark_session_builder)}"
        )
    builder: Any = spark_session_builder
    if extra_packages:
        builder.config("spark.jars.packages", ",".join(extra_packages))
    builder.getOrCreate = _registering(builder, builder.getOrCreate)
    made: SparkSession.Builder = builder
    return made


def _registering(builder: Any, get: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
    @wraps(get)
    def get_or_create() -> SparkSession:
        for key, value in _OF_THE_JAR.items():
            kept = [each for each in builder._options.get(key, "").split(",") if each != value]
            if any(kept):
                builder._options[key] = ",".join(kept)
            else:
                builder._options.pop(key, None)
        remote = "spark.remote" in builder._options or "SPARK_REMOTE" in os.environ
        if not remote and SparkSession.getActiveSession() is None:
            ensure_java()
            if builder._options.get("spark.master", "local").startswith("local"):
                # Workers that run this Python, which has adelta.
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        spark = get()
        register(spark, as_delta=True)
        return spark

    return get_or_create


def _modules() -> list[ModuleType]:
    version = engine_info().rpartition("/")[2]
    tables = _module(
        "delta.tables",
        DeltaColumnBuilder=DeltaColumnBuilder,
        DeltaMergeBuilder=DeltaMergeBuilder,
        DeltaOptimizeBuilder=DeltaOptimizeBuilder,
        DeltaTable=DeltaTable,
        DeltaTableBuilder=DeltaTableBuilder,
        IdentityGenerator=IdentityGenerator,
    )
    conflicts = {name: getattr(exceptions, name) for name in _CONFLICTS}
    raised = _module("delta.exceptions", package=True, **conflicts)
    base = _module("delta.exceptions.base", **conflicts)
    raised.base = base  # type: ignore[attr-defined]
    pip_utils = _module(
        "delta.pip_utils", configure_spark_with_delta_pip=configure_spark_with_delta_pip
    )
    numbered = _module("delta.version", __version__=version)
    delta = _module(
        "delta",
        package=True,
        DeltaTable=DeltaTable,
        configure_spark_with_delta_pip=configure_spark_with_delta_pip,
        __version__=version,
    )
    parts = {"tables": tables, "exceptions": raised, "pip_utils": pip_utils, "version": numbered}
    vars(delta).update(parts, _of_adelta=True)
    return [delta, tables, raised, base, pip_utils, numbered]


def _module(name: str, *, package: bool = False, **members: object) -> ModuleType:
    made = ModuleType(name, f"adelta, under the names of {name}.")
    made.__spec__ = ModuleSpec(name, None, is_package=package)
    if package:
        made.__path__ = []
    vars(made).update(members, __all__=list(members))
    return made
