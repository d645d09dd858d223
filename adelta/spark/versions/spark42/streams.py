"""Streams of data sources in Python as Spark runs them as of 4.2: micro-batches have limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from adelta.changes.source_rules import DEFAULT_MAX_FILES, Admission

if TYPE_CHECKING:
    from adelta.changes.source_rules import SourceRules

__all__ = ["StreamReader"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, ABC):
    """Asks `next_offset` for the ends of micro-batches, as Spark tells their starts and limits."""

    rules: SourceRules
    _ends = False

    @abstractmethod
    def next_offset(
        self, start: dict[str, Any] | None, admission: Admission, *, ends: bool
    ) -> dict[str, Any]:
        """The end of the micro-batch from `start` on.

        With `ends` there is nothing after what there is at the first such call.
        """

    def has_planned(self, end: dict[str, Any]) -> None:
        """Note that a micro-batch up to `end` has been planned."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a micro-batch has; where bytes are limited, too, `latestOffset` knows."""
        if self.rules.max_files is None and self.rules.max_bytes is not None:
            return ReadMaxBytes(self.rules.max_bytes)
        return ReadMaxFiles(self.rules.max_files or DEFAULT_MAX_FILES)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than to what is there when the first micro-batch is cut."""
        self._ends = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the micro-batch from `start` on."""
        return self.next_offset(start, self._admission(limit), ends=self._ends)

    def _admission(self, limit: ReadLimit) -> Admission:
        rules = self.rules
        match limit:
            case ReadAllAvailable():
                return Admission.unlimited()
            case ReadMaxFiles(files):
                return Admission(files, rules.max_bytes)
            case ReadMaxBytes(size):
                return Admission(rules.max_files, size)
        return Admission(rules.max_files, rules.max_bytes)
