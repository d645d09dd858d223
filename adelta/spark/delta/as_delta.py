"""The package ``delta``, on request: what delta-spark's users import, over adelta."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn

from pyspark.sql import Column, SparkSession

from adelta.errors import InvalidUseError
from adelta.spark.classic.names.through_jvm import conflict_of
from adelta.spark.delta.optimize_builder import DeltaOptimizeBuilder
from adelta.spark.delta.table import DeltaTable
from adelta.spark.delta.table_builder import (
    DeltaColumnBuilder,
    DeltaTableBuilder,
    IdentityGenerator,
)
from adelta.spark.delta.test_cases import test_case
from adelta.spark.exceptions import CONFLICTS, WrongTypeError
from adelta.spark.rows.merge_builder import DeltaMergeBuilder
from adelta.spark.session.new_sessions import MARK, want_delta, watch_new_sessions
from adelta.spark.session.registration import ensure_delta
from adelta.write.spec import engine_info

__all__ = ["configure_spark_with_delta_pip", "install_as_delta"]

_TYPES: dict[str, object] = {
    "ExpressionOrColumn": str | Column,
    "OptionalExpressionOrColumn": str | Column | None,
    "ColumnMapping": dict[str, str | Column],
    "OptionalColumnMapping": dict[str, str | Column] | None,
}


def install_as_delta() -> None:
    """Let ``import delta`` and ``from delta.tables import DeltaTable`` mean adelta's, from now on.

    Jobs written for delta-spark then run without a changed line, as far as adelta goes: `delta`,
    `delta.tables`, `delta.exceptions`, `delta.connect` and `delta.pip_utils`. The session that is
    active, and those that are made from now on, answer to ``format("delta")`` and to the statements
    of delta-spark's grammar in `spark.sql`. Settings that name classes of delta-spark's jar do not
    matter: ``spark.sql.extensions``, ``spark.sql.catalog.spark_catalog``, and packages of
    ``io.delta`` in ``spark.jars.packages``.

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
    elif not hasattr(installed, MARK):
        raise InvalidUseError(
            "a package delta has been imported already; uninstall it (delta-spark), or import "
            "DeltaTable from adelta.spark"
        )
    watch_new_sessions()
    spark = SparkSession.getActiveSession()
    if spark is not None:
        ensure_delta(spark)


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
            "This function must be called with a SparkSession builder as the argument. The "
            f"argument found is of type {type(spark_session_builder)}."
        )
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    want_delta(spark_session_builder)
    return spark_session_builder


def _no_plan(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"there is no {name} here")
    raise ImportError(
        f"delta.connect.plan has no {name}: adelta needs no extension in the server of Spark "
        "Connect, and sends it no plans; call the method of DeltaTable that does it"
    )


def _modules() -> list[ModuleType]:
    conflicts: dict[str, object] = {**CONFLICTS}
    lazily = "__getattr__"
    builders = {
        "DeltaMergeBuilder": DeltaMergeBuilder,
        "DeltaOptimizeBuilder": DeltaOptimizeBuilder,
        "DeltaTable": DeltaTable,
        "DeltaTableBuilder": DeltaTableBuilder,
    }
    pip_utils: dict[str, object] = {
        "configure_spark_with_delta_pip": configure_spark_with_delta_pip
    }
    version: dict[str, object] = {"__version__": engine_info().rpartition("/")[2]}
    members: dict[str, dict[str, object]] = {
        "delta": {"DeltaTable": DeltaTable, **pip_utils, **version},
        "delta._typing": _TYPES,
        "delta.connect": {"DeltaTable": DeltaTable},
        "delta.connect._typing": _TYPES,
        "delta.connect.exceptions": conflicts,
        "delta.connect.plan": {lazily: _no_plan},
        "delta.connect.testing": {},
        "delta.connect.testing.utils": {lazily: test_case("connectutils", "ReusedConnectTestCase")},
        "delta.connect.tables": {**builders, "IdentityGenerator": IdentityGenerator},
        "delta.exceptions": conflicts,
        "delta.exceptions.base": conflicts,
        "delta.exceptions.captured": {**conflicts, "_convert_delta_exception": conflict_of},
        "delta.pip_utils": pip_utils,
        "delta.tables": {
            **builders,
            "DeltaColumnBuilder": DeltaColumnBuilder,
            "IdentityGenerator": IdentityGenerator,
        },
        "delta.testing": {},
        "delta.testing.utils": {lazily: test_case("sqlutils", "ReusedSQLTestCase")},
        "delta.version": version,
    }
    made = {name: _module(name, each) for name, each in members.items()}
    for name, module in made.items():
        above, _, last = name.rpartition(".")
        if above:
            made[above].__path__ = []  # a package
            setattr(made[above], last, module)
    setattr(made["delta"], MARK, True)
    return list(made.values())


def _module(name: str, members: dict[str, object]) -> ModuleType:
    made = ModuleType(name, f"adelta, under the names of {name}.")
    made.__spec__ = ModuleSpec(name, None)
    vars(made).update(members)
    if "__getattr__" not in members:
        vars(made)["__all__"] = [
            each for each in members if not each.startswith("_") or each == "__version__"
        ]
    return made
