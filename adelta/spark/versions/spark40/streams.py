"""Streams of data sources in Python as Spark 4.0 runs them.

Spark asks how much data there is, without saying where a micro-batch starts or how much it may
have. A reader therefore learns where it is from the micro-batches that it plans: the first one of a
run reads everything that is there, the next ones are limited as the stream asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from adelta.changes.source_rules import Admission

if TYPE_CHECKING:
    from adelta.changes.source_rules import SourceRules

__all__ = ["StreamReader", "StreamWriter"]


class StreamReader(DataSourceStreamReader, ABC):
    """Asks `next_offset` for the ends of micro-batches, from where the last one ended."""

    rules: SourceRules
    _position: dict[str, Any] | None = None

    @abstractmethod
    def next_offset(
        self, start: dict[str, Any] | None, admission: Admission, *, ends: bool
    ) -> dict[str, Any]:
        """The end of the micro-batch from `start` on; of all data where `start` is not known.

        With `ends` there is nothing after what there is at the first such call.
        """

    def has_planned(self, end: dict[str, Any]) -> None:
        """Note that a micro-batch up to `end` has been planned."""
        self._position = end

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # of PySpark 4.2
        """The end of the next micro-batch."""
        limit = Admission(self.rules.max_files, self.rules.max_bytes)
        return self.next_offset(self._position, limit, ends=False)


class StreamWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """Is given Arrow batches: Spark 4.0 asks for the class of batch writers alone."""
