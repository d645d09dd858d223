"""The verbs over a table, one file each: free functions that return frozen values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._exports import exports

if TYPE_CHECKING:
    from adelta.operations.add_columns import add_columns as add_columns
    from adelta.operations.add_feature import add_feature as add_feature
    from adelta.operations.alter import AlterMetrics as AlterMetrics
    from adelta.operations.change_column import change_column as change_column
    from adelta.operations.checkpoint import CheckpointMetrics as CheckpointMetrics
    from adelta.operations.checkpoint import checkpoint as checkpoint
    from adelta.operations.cleanup_log import LogCleanupMetrics as LogCleanupMetrics
    from adelta.operations.cleanup_log import cleanup_log as cleanup_log
    from adelta.operations.cluster_by import cluster_by as cluster_by
    from adelta.operations.compact_log import LogCompactionMetrics as LogCompactionMetrics
    from adelta.operations.compact_log import compact_log as compact_log
    from adelta.operations.constraints import add_constraint as add_constraint
    from adelta.operations.constraints import drop_constraint as drop_constraint
    from adelta.operations.create import create_table as create_table
    from adelta.operations.delete import DeleteMetrics as DeleteMetrics
    from adelta.operations.delete import delete as delete
    from adelta.operations.detail import TableDetail as TableDetail
    from adelta.operations.detail import detail as detail
    from adelta.operations.drop_columns import drop_columns as drop_columns
    from adelta.operations.drop_feature import drop_feature as drop_feature
    from adelta.operations.fsck import FsckProblem as FsckProblem
    from adelta.operations.fsck import FsckReport as FsckReport
    from adelta.operations.fsck import fsck as fsck
    from adelta.operations.history import HistoryEntry as HistoryEntry
    from adelta.operations.history import history as history
    from adelta.operations.identity_column import identity_column as identity_column
    from adelta.operations.rename_column import rename_column as rename_column
    from adelta.operations.set_properties import set_properties as set_properties
    from adelta.operations.set_properties import unset_properties as unset_properties
    from adelta.operations.update import UpdateMetrics as UpdateMetrics
    from adelta.operations.update import update as update
    from adelta.operations.write import WriteMetrics as WriteMetrics
    from adelta.operations.write import write_table as write_table

__all__ = exports(
    __name__,
    {
        "adelta.operations.add_columns": ("add_columns",),
        "adelta.operations.add_feature": ("add_feature",),
        "adelta.operations.alter": ("AlterMetrics",),
        "adelta.operations.change_column": ("change_column",),
        "adelta.operations.checkpoint": ("CheckpointMetrics", "checkpoint"),
        "adelta.operations.cleanup_log": ("LogCleanupMetrics", "cleanup_log"),
        "adelta.operations.cluster_by": ("cluster_by",),
        "adelta.operations.compact_log": ("LogCompactionMetrics", "compact_log"),
        "adelta.operations.constraints": ("add_constraint", "drop_constraint"),
        "adelta.operations.create": ("create_table",),
        "adelta.operations.delete": ("DeleteMetrics", "delete"),
        "adelta.operations.detail": ("TableDetail", "detail"),
        "adelta.operations.drop_columns": ("drop_columns",),
        "adelta.operations.drop_feature": ("drop_feature",),
        "adelta.operations.fsck": ("FsckProblem", "FsckReport", "fsck"),
        "adelta.operations.history": ("HistoryEntry", "history"),
        "adelta.operations.identity_column": ("identity_column",),
        "adelta.operations.rename_column": ("rename_column",),
        "adelta.operations.set_properties": ("set_properties", "unset_properties"),
        "adelta.operations.update": ("UpdateMetrics", "update"),
        "adelta.operations.write": ("WriteMetrics", "write_table"),
    },
)
