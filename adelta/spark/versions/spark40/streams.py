"""Streams of data sources in Python as Spark 4.0 runs them.

Spark asks how much data there is, and says neither where the micro-batch starts nor how much it may
have. A reader knows where it is from the micro-batches that it plans: Spark has the last one of a
checkpoint planned again when a query is restarted. It cannot know whether Spark will ask again,
which it does not with the trigger `availableNow`: so the first answer of a run is everything that
there is.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pyspark import __version__
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from adelta.changes.source_rules import Admission

if TYPE_CHECKING:
    from adelta.changes.source_rules import SourceRules

__all__ = ["StreamReader", "StreamWriter"]

_log = logging.getLogger("adelta.spark")


class StreamReader(DataSourceStreamReader, ABC):
    """Asks `next_offset` for the ends of micro-batches, from where the last one ended."""

    rules: SourceRules
    _position: dict[str, Any] | None = None
    _is_asked_again = False

    @abstractmethod
    def next_offset(
        self, start: dict[str, Any] | None, admission: Admission, *, ends: bool
    ) -> dict[str, Any]:
        """The end of the micro-batch from `start` on; None is where the stream begins.

        With `ends` there is nothing after what there is at the first such call.
        """

    def has_planned(self, end: dict[str, Any]) -> None:
        """Note that a micro-batch up to `end` has been planned."""
        self._position = end

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # of PySpark 4.2
        """The end of the next micro-batch."""
        limit = Admission.unlimited()
        if self._is_asked_again and self._position is not None:
            limit = Admission(self.rules.max_files, self.rules.max_bytes)
        elif (self.rules.max_files, self.rules.max_bytes) != (None, None):
            _log.warning(
                "the first micro-batch of a run has all rows that are there: Spark %s does not "
                "tell where a micro-batch starts, as Spark 4.2 does. maxFilesPerTrigger and "
                "maxBytesPerTrigger limit those after it",
                __version__,
            )
        self._is_asked_again = True
        return self.next_offset(self._position, limit, ends=False)


class StreamWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """Is given Arrow batches: Spark 4.0 asks for the class of batch writers alone."""
