"""What a merge reports, to its caller and to the table's history."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from adelta._dataclasses import dataclass
from adelta.operations import row_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.operations.merge.matching import ChangedFile
    from adelta.operations.merge.plan import MergePlan
    from adelta.write.transaction_core import TransactionCore

__all__ = ["MergeMetrics", "measured", "report", "row_counts"]

_FILES = {
    "numTargetFilesAdded": "numFiles",
    "numTargetFilesRemoved": "numRemovedFiles",
    "numTargetBytesAdded": "numOutputBytes",
    "numTargetBytesRemoved": "numRemovedBytes",
    "numTargetChangeFilesAdded": "numAddedChangeFiles",
    "numTargetDeletionVectorsAdded": "numDeletionVectorsAdded",
    "numTargetDeletionVectorsRemoved": "numDeletionVectorsRemoved",
    "numTargetDeletionVectorsUpdated": "numDeletionVectorsUpdated",
}
"""What Delta Spark calls it in a merge, and what a transaction calls what it has staged."""

_ROWS = {"DELETE": "numTargetRowsDeleted", "UPDATE": "numTargetRowsUpdated"}
_OF_WRITE = {"numDeletedRows": "numTargetRowsDeleted", "numCopiedRows": "numTargetRowsCopied"}
_TIMES = ("executionTimeMs", "scanTimeMs", "rewriteTimeMs")


@dataclass(frozen=True, slots=True)
class MergeMetrics:
    """What a merge did; the names are Delta Spark's, times are in milliseconds.

    `version` is the version that it became, None where nothing was to change and nothing was
    committed. A deletion vector in place of another one counts as added, removed and updated.
    Before skipping are all files of the table, None where they were not counted; after it those
    that were looked into.
    """

    version: int | None = None
    num_source_rows: int = 0
    num_target_rows_inserted: int = 0
    num_target_rows_updated: int = 0
    num_target_rows_matched_updated: int = 0
    num_target_rows_not_matched_by_source_updated: int = 0
    num_target_rows_deleted: int = 0
    num_target_rows_matched_deleted: int = 0
    num_target_rows_not_matched_by_source_deleted: int = 0
    num_target_rows_copied: int = 0
    num_output_rows: int = 0
    num_target_files_before_skipping: int | None = None
    num_target_files_after_skipping: int = 0
    num_target_files_added: int = 0
    num_target_files_removed: int = 0
    num_target_bytes_added: int = 0
    num_target_bytes_removed: int = 0
    num_target_change_files_added: int = 0
    num_target_deletion_vectors_added: int = 0
    num_target_deletion_vectors_removed: int = 0
    num_target_deletion_vectors_updated: int = 0
    execution_time_ms: int = 0
    materialize_source_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0


def row_counts(plan: MergePlan, changed: Iterable[ChangedFile]) -> dict[str, int]:
    """How many rows each kind of clause updates and deletes."""
    clauses = (*plan.matched, *plan.not_matched_by_source)
    counts = np.zeros(len(clauses), np.int64)
    for each in changed:
        counts += np.bincount(each.clauses, minlength=len(clauses))
    found = {
        "numTargetRowsMatchedUpdated": 0,
        "numTargetRowsNotMatchedBySourceUpdated": 0,
        "numTargetRowsMatchedDeleted": 0,
        "numTargetRowsNotMatchedBySourceDeleted": 0,
    }
    for number, clause in enumerate(clauses):
        matched = number < len(plan.matched) and not clause.unmatched
        kind = "Matched" if matched else "NotMatchedBySource"
        action = "Deleted" if clause.update is None else "Updated"
        found[f"numTargetRows{kind}{action}"] += int(counts[number])
    for action in ("Updated", "Deleted"):
        kinds = ("Matched", "NotMatchedBySource")
        found[f"numTargetRows{action}"] = sum(found[f"numTargetRows{k}{action}"] for k in kinds)
    return found


def report(
    tx: TransactionCore, counted: Mapping[str, int], *, stands_for: str = "MERGE"
) -> dict[str, int]:
    """Have the commit say in Spark's names what it has staged, and what was counted.

    Where the merge `stands_for` DELETE, UPDATE or WRITE, the commit says it as for these.
    """
    staged = tx.metrics
    if stands_for == "WRITE":
        said = {"numRemovedFiles": 0, "numRemovedBytes": 0, "numAddedChangeFiles": 0, **staged}
        said |= {name: counted[known] for name, known in _OF_WRITE.items()}
        found = {name: staged.get(known, 0) for name, known in _FILES.items()} | dict(counted)
        staged.clear()
        staged.update(said)
        return found
    if stands_for != "MERGE":
        row_metrics.report(
            tx,
            **{f"num{stands_for.capitalize()}dRows": counted[_ROWS[stands_for]]},
            numCopiedRows=counted["numTargetRowsCopied"],
            **{name: counted[name] for name in _TIMES},
        )
        return dict(counted)
    found = {name: staged.get(known, 0) for name, known in _FILES.items()} | dict(counted)
    rows = ("Inserted", "Updated", "Copied")
    found["numOutputRows"] = sum(found[f"numTargetRows{each}"] for each in rows)
    staged.clear()
    staged.update(found)
    return found


def measured(version: int | None, reported: Mapping[str, int]) -> MergeMetrics:
    """What was reported, as a value.

    Example: ``numTargetRowsCopied`` is the field ``num_target_rows_copied``.
    """
    known = {each.name for each in fields(MergeMetrics)}
    snake = {re.sub(r"(?=[A-Z])", "_", name).lower(): value for name, value in reported.items()}
    return MergeMetrics(version=version, **{k: v for k, v in snake.items() if k in known})
