"""What DELETE and UPDATE report, to their callers and to the table's history."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import anyio

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.write.transaction_core import TransactionCore

__all__ = ["RowMetrics", "Stopwatch", "measured", "report"]

_RENAMED = {"numFiles": "numAddedFiles", "numOutputBytes": "numAddedBytes", "numOutputRows": None}
_ALWAYS = (
    "numAddedFiles",
    "numRemovedFiles",
    "numAddedBytes",
    "numRemovedBytes",
    "numAddedChangeFiles",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
)


class Stopwatch:
    """Times the parts of an operation, in milliseconds."""

    def __init__(self) -> None:
        self._begun = anyio.current_time()
        self._lap = self._begun

    def lap_ms(self) -> int:
        """The time since the last lap."""
        before, self._lap = self._lap, anyio.current_time()
        return round((self._lap - before) * 1000)

    def total_ms(self) -> int:
        """The time since the beginning."""
        return round((anyio.current_time() - self._begun) * 1000)


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """What was done to the table's files to change rows; times are in milliseconds.

    `version` is the version that it became, None where no row was concerned and nothing was
    committed; nor is it in a dry run, which tells what would be done to rows and files. A deletion
    vector in place of another one counts as added, removed and updated.
    """

    version: int | None = None
    num_copied_rows: int = 0
    num_added_files: int = 0
    num_removed_files: int = 0
    num_added_bytes: int = 0
    num_removed_bytes: int = 0
    num_added_change_files: int = 0
    num_deletion_vectors_added: int = 0
    num_deletion_vectors_removed: int = 0
    num_deletion_vectors_updated: int = 0
    execution_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0


def report(tx: TransactionCore, **more: int | None) -> dict[str, int]:
    """Have the commit say in Spark's names what it has staged, and `more`; all of that.

    What is None is not known, and left out.
    """
    staged = tx.metrics
    said = {new: value for name, value in staged.items() if (new := _RENAMED.get(name, name))}
    found = dict.fromkeys(_ALWAYS, 0) | said
    found |= {name: value for name, value in more.items() if value is not None}
    staged.clear()
    staged.update(found)
    return found


def measured(version: int | None, reported: Mapping[str, int]) -> dict[str, Any]:
    """The fields of `RowMetrics` for what was reported of the commit of `version`.

    Example: ``numAddedFiles`` is the field ``num_added_files``.
    """
    known = {field.name for field in fields(RowMetrics)}
    snake = {re.sub(r"(?=[A-Z])", "_", name).lower(): value for name, value in reported.items()}
    return {"version": version, **{k: v for k, v in snake.items() if k in known}}
