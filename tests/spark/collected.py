"""Rows of DataFrames, as tests compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["rows"]


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    """All rows, in an order that does not depend on the plan."""
    return sorted(tuple(row) for row in df.collect())
