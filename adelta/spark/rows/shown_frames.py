"""The DataFrames that a `DeltaTable` has given its user, whose columns expressions may name."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["ShownFrames"]

_LATEST = 4  # that are kept though nobody holds them any more: as of table.toDF()["id"]


class ShownFrames:
    """Those that somebody holds still, and the latest."""

    def __init__(self) -> None:
        self._latest: deque[DataFrame] = deque(maxlen=_LATEST)
        self._held: WeakSet[DataFrame] = WeakSet()

    def add(self, df: DataFrame) -> None:
        """Keep one in mind."""
        self._latest.appendleft(df)
        self._held.add(df)

    def __iter__(self) -> Iterator[DataFrame]:
        yield from self._latest
        yield from set(self._held).difference(self._latest)
