"""The verbs over a table, one file each: free functions that return frozen values."""

from adelta.operations.checkpoint import CheckpointMetrics, checkpoint
from adelta.operations.create import create_table
from adelta.operations.detail import TableDetail, detail
from adelta.operations.fsck import FsckProblem, FsckReport, fsck
from adelta.operations.history import HistoryEntry, history
from adelta.operations.write import WriteMetrics, write_table

__all__ = [
    "CheckpointMetrics",
    "FsckProblem",
    "FsckReport",
    "HistoryEntry",
    "TableDetail",
    "WriteMetrics",
    "checkpoint",
    "create_table",
    "detail",
    "fsck",
    "history",
    "write_table",
]
