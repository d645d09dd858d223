"""Which formats are adelta's in sessions of Spark Connect, as their clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from adelta.spark.tables import names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["formats_of", "know_formats", "place_of"]

_formats: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()


def know_formats(spark: SparkSession, formats: frozenset[str]) -> None:
    """Let formats, in lower case, be adelta's in a session."""
    _formats[spark] = formats


def formats_of(spark: SparkSession) -> frozenset[str]:
    """The formats that are adelta's; none in a session that was not registered."""
    return _formats.get(spark, frozenset())


def place_of(spark: SparkSession, name: str) -> str | None:
    """Where the table of a name is, if it is of one of these formats.

    Raises:
        InvalidOptionError: it is no name.
    """
    formats = formats_of(spark)
    return names.place_of(spark, name, formats) if formats else None
