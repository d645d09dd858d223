"""The verbs over a table, one file each: free functions that return frozen values."""

from adelta.operations.add_columns import add_columns
from adelta.operations.add_feature import add_feature
from adelta.operations.alter import AlterMetrics
from adelta.operations.change_column import change_column
from adelta.operations.checkpoint import CheckpointMetrics, checkpoint
from adelta.operations.cleanup_log import LogCleanupMetrics, cleanup_log
from adelta.operations.cluster_by import cluster_by
from adelta.operations.compact_log import LogCompactionMetrics, compact_log
from adelta.operations.constraints import add_constraint, drop_constraint
from adelta.operations.create import create_table
from adelta.operations.delete import DeleteMetrics, delete
from adelta.operations.detail import TableDetail, detail
from adelta.operations.drop_columns import drop_columns
from adelta.operations.drop_feature import drop_feature
from adelta.operations.fsck import FsckProblem, FsckReport, fsck
from adelta.operations.history import HistoryEntry, history
from adelta.operations.identity_column import identity_column
from adelta.operations.rename_column import rename_column
from adelta.operations.set_properties import set_properties, unset_properties
from adelta.operations.update import UpdateMetrics, update
from adelta.operations.write import WriteMetrics, write_table

__all__ = [
    "AlterMetrics",
    "CheckpointMetrics",
    "DeleteMetrics",
    "FsckProblem",
    "FsckReport",
    "HistoryEntry",
    "LogCleanupMetrics",
    "LogCompactionMetrics",
    "TableDetail",
    "UpdateMetrics",
    "WriteMetrics",
    "add_columns",
    "add_constraint",
    "add_feature",
    "change_column",
    "checkpoint",
    "cleanup_log",
    "cluster_by",
    "compact_log",
    "create_table",
    "delete",
    "detail",
    "drop_columns",
    "drop_constraint",
    "drop_feature",
    "fsck",
    "history",
    "identity_column",
    "rename_column",
    "set_properties",
    "unset_properties",
    "update",
    "write_table",
]
