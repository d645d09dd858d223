"""Checks of what `DeltaTable` is told: of types alone, in delta-spark's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.spark.exceptions import NoSessionError
from adelta.spark.session.registration import choose_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_clone", "check_session", "check_type"]


def check_type(what: str, value: object, kind: type, shown: str) -> None:
    """Refuse a value of another type.

    Raises:
        InvalidOptionError: it is of another one.
    """
    if not isinstance(value, kind):
        raise InvalidOptionError(f"{what} needs to be {shown} but got '{type(value)}'.")


def check_session(spark: SparkSession | None) -> SparkSession:
    """The session, whose side is chosen now.

    Raises:
        NoSessionError: it is None.
    """
    if spark is None:
        raise NoSessionError("there is no active session; hand one over")
    choose_side(spark)
    return spark


def check_clone(target: object, shallow: object, replace: object, properties: object) -> None:
    """Refuse wrong types of what a clone is to be like.

    Raises:
        InvalidOptionError: one of them is of another type than it has to be.
    """
    check_type("target", target, str, "a string")
    check_type("isShallow", shallow, bool, "a boolean")
    check_type("replace", replace, bool, "a boolean")
    if properties is None:
        return
    check_type("properties", properties, dict, "a dict")
    assert isinstance(properties, dict)
    for key, value in properties.items():
        check_type(f"All property keys including {key}", key, str, "a string")
        check_type(f"All property values including {value}", value, str, "a string")
