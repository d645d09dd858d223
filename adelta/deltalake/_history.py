"""The history as deltalake gives it: the log's `commitInfo`, newest first, and its version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adelta import HistoryEntry

__all__ = ["history_entry"]

_FEATURE = "delta.feature."
_COUNTS = {
    "WRITE": {
        "num_added_files": "numFiles",
        "num_removed_files": "numRemovedFiles",
        "num_added_rows": "numOutputRows",
        "execution_time_ms": "executionTimeMs",
    },
    "DELETE": {
        "num_added_files": "numAddedFiles",
        "num_removed_files": "numRemovedFiles",
        "num_deleted_rows": "numDeletedRows",
        "num_copied_rows": "numCopiedRows",
        "execution_time_ms": "executionTimeMs",
        "scan_time_ms": "scanTimeMs",
        "rewrite_time_ms": "rewriteTimeMs",
    },
    "UPDATE": {
        "num_added_files": "numAddedFiles",
        "num_removed_files": "numRemovedFiles",
        "num_updated_rows": "numUpdatedRows",
        "num_copied_rows": "numCopiedRows",
        "execution_time_ms": "executionTimeMs",
        "scan_time_ms": "scanTimeMs",
    },
    "MERGE": {
        "num_source_rows": "numSourceRows",
        "num_target_rows_inserted": "numTargetRowsInserted",
        "num_target_rows_updated": "numTargetRowsUpdated",
        "num_target_rows_deleted": "numTargetRowsDeleted",
        "num_target_rows_copied": "numTargetRowsCopied",
        "num_output_rows": "numOutputRows",
        "num_target_files_scanned": "numTargetFilesAfterSkipping",
        "num_target_files_added": "numTargetFilesAdded",
        "num_target_files_removed": "numTargetFilesRemoved",
        "execution_time_ms": "executionTimeMs",
        "scan_time_ms": "scanTimeMs",
        "rewrite_time_ms": "rewriteTimeMs",
    },
    "OPTIMIZE": {
        "numFilesAdded": "numAddedFiles",
        "numFilesRemoved": "numRemovedFiles",
        "partitionsOptimized": "partitionsOptimized",
        "numBatches": "numBatches",
        "totalConsideredFiles": "totalConsideredFiles",
        "totalFilesSkipped": "totalFilesSkipped",
        "maxBinSpanFiles": "maxBinSpanFiles",
    },
    "RESTORE": {"numRemovedFile": "numRemovedFiles", "numRestoredFile": "numRestoredFiles"},
    "VACUUM START": {
        "numFilesToDelete": "numFilesToDelete",
        "sizeOfDataToDelete": "sizeOfDataToDelete",
    },
    "VACUUM END": {
        "numDeletedFiles": "numDeletedFiles",
        "numVacuumedDirectories": "numVacuumedDirectories",
    },
}
"""deltalake's names of what adelta counts under Delta Spark's, by operation."""
_TOLD_HERE = (
    "executionTimeMs",
    "partitionsOptimized",
    "numBatches",
    "totalConsideredFiles",
    "totalFilesSkipped",
    "maxBinSpanFiles",
)
"""What commits of adelta's other faces may not say."""


def history_entry(entry: HistoryEntry) -> dict[str, Any]:
    """The entry as a mapping, with deltalake's names of the metrics beside Delta Spark's."""
    found: dict[str, Any] = {
        "timestamp": round(entry.timestamp.timestamp() * 1000),
        "operation": _operation(entry),
        "operationParameters": _parameters(entry),
        "readVersion": entry.read_version,
        "isolationLevel": entry.isolation_level,
        "isBlindAppend": entry.is_blind_append,
        "engineInfo": entry.engine_info,
        "operationMetrics": _metrics(entry),
        "txnId": entry.txn_id,
        "userMetadata": entry.user_metadata,
        "userId": entry.user_id,
        "userName": entry.user_name,
        "clusterId": entry.cluster_id,
        "job": entry.job,
        "notebook": entry.notebook,
        "clientVersion": _client(entry),
        **entry.others,
    }
    known = {key: value for key, value in found.items() if value is not None}
    if not entry.operation_metrics:
        del known["operationMetrics"]
    return {**known, "version": entry.version}


def _is_adeltas(entry: HistoryEntry) -> bool:
    return (entry.engine_info or "").startswith("adelta/")


def _client(entry: HistoryEntry) -> str | None:
    """What deltalake calls the program that wrote: its name and its version, by a dot."""
    return str(entry.engine_info).replace("/", ".") if _is_adeltas(entry) else None


def _features(entry: HistoryEntry) -> list[str]:
    """The properties that a commit sets, if these ask for features and for nothing else."""
    try:
        keys = list(json.loads(str(entry.operation_parameters.get("properties", "{}"))))
    except ValueError:
        return []
    return keys if all(key.startswith(_FEATURE) for key in keys) else []


def _operation(entry: HistoryEntry) -> str | None:
    """What deltalake calls the operation, where adelta has Delta Spark's name for it."""
    if _is_adeltas(entry):
        if entry.operation == "ADD COLUMNS":
            return "ADD COLUMN"
        if entry.operation == "SET TBLPROPERTIES" and _features(entry):
            return "ADD FEATURE"
    return entry.operation


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _parameters(entry: HistoryEntry) -> dict[str, Any]:
    """The parameters, with the predicate of a delete or an update as a text, not a list of it."""
    said = dict(entry.operation_parameters)
    if _is_adeltas(entry) and said.get("partitionBy") == "[]":
        del said["partitionBy"]
    if _operation(entry) == "ADD COLUMN":
        columns = json.loads(said.pop("columns", "[]"))
        said["fields"] = _json([each["column"] for each in columns])
        return said
    if _operation(entry) == "ADD FEATURE":
        return {"name": _json([key.removeprefix(_FEATURE) for key in _features(entry)])}
    if _is_adeltas(entry) and entry.operation == "ADD CONSTRAINT" and "name" in said:
        constraint = {"name": said["name"], "expr": said.get("expr")}
        return {**said, "constraints": _json([constraint])}
    if _is_adeltas(entry) and entry.operation == "CONVERT" and "partitionedBy" in said:
        return {**said, "partitionBy": said["partitionedBy"]}
    predicate = said.get("predicate")
    told = ("DELETE", "UPDATE", "MERGE")
    if not _is_adeltas(entry) or entry.operation not in told or not predicate:
        return said
    try:
        (said["predicate"],) = json.loads(predicate)
    except (TypeError, ValueError):
        return said
    if entry.operation == "MERGE":
        said["mergePredicate"] = said.pop("predicate")
    if entry.operation == "DELETE" and said["predicate"] == "true":
        del said["predicate"]
    return said


def _metrics(entry: HistoryEntry) -> dict[str, Any]:
    said = dict(entry.operation_metrics)
    for name, own in _COUNTS.get(entry.operation or "", {}).items():
        count = said.get(own, "0" if _is_adeltas(entry) and own not in _TOLD_HERE else None)
        if (name not in said or name == own) and isinstance(count, str) and count.isdigit():
            said[name] = int(count)
    before_skipping = str(said.get("numTargetFilesBeforeSkipping", ""))
    if "num_target_files_scanned" in said and before_skipping.isdigit():
        skipped = int(before_skipping) - said["num_target_files_scanned"]
        said["num_target_files_skipped_during_scan"] = skipped
    if _is_adeltas(entry) and entry.operation == "WRITE":
        before = -1 if entry.read_version is None else entry.read_version
        said["num_partitions"] = 0  # as deltalake has it, whatever the table
        said["num_retries"] = entry.version - 1 - before
    if _is_adeltas(entry) and entry.operation == "FSCK":
        said["dry_run"] = False
    if _is_adeltas(entry) and entry.operation == "OPTIMIZE":
        in_order = entry.operation_parameters.get("zOrderBy", "[]") == "[]"
        said["plannerStrategy"] = "preserveLocality" if in_order else "zOrder"
        said["preserveInsertionOrder"] = said["preservedStableOrder"] = in_order
    return said
