"""Delta Lake on asyncio: tables, snapshots, transactions and change consumers, all awaitable.

The blocking face, `adelta.sync`, has the same names. Spark's is `adelta.spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._exports import exports

if TYPE_CHECKING:
    from adelta import errors as errors
    from adelta import operations as operations
    from adelta import plot as plot
    from adelta import sync as sync
    from adelta._handles import Table as Table
    from adelta._handles import open_table as open_table
    from adelta._preload import preload as preload
    from adelta._version import __version__ as __version__
    from adelta.changes.feed import changes as changes
    from adelta.changes.tail import tail as tail
    from adelta.commit.catalog import CatalogClient as CatalogClient
    from adelta.commit.owner import CommitOwner as CommitOwner
    from adelta.commit.owner import CommitOwnerClient as CommitOwnerClient
    from adelta.commit.owner import CommitResponse as CommitResponse
    from adelta.commit.owner import ManagedTable as ManagedTable
    from adelta.commit.owner import ProposedCommit as ProposedCommit
    from adelta.commit.owner import RatifiedCommit as RatifiedCommit
    from adelta.commit.owner import RatifiedCommits as RatifiedCommits
    from adelta.commit.owner_registry import register_commit_owner as register_commit_owner
    from adelta.commit.unity_catalog import StagedTable as StagedTable
    from adelta.commit.unity_catalog import UnityCatalogClient as UnityCatalogClient
    from adelta.consumers.batch import Batch as Batch
    from adelta.consumers.batch import Lag as Lag
    from adelta.consumers.batch import SchemaChange as SchemaChange
    from adelta.consumers.change_consumer import ChangeConsumer as ChangeConsumer
    from adelta.consumers.consumer import Consumer as Consumer
    from adelta.consumers.positions import FilePositions as FilePositions
    from adelta.consumers.positions import PositionStore as PositionStore
    from adelta.consumers.positions import StoredPosition as StoredPosition
    from adelta.consumers.postgresql import PostgresqlPositions as PostgresqlPositions
    from adelta.kernel.actions.commit_info import CommitInfo as CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata as DomainMetadata
    from adelta.kernel.actions.file_actions import AddFile as AddFile
    from adelta.kernel.actions.file_actions import (
        DeletionVectorDescriptor as DeletionVectorDescriptor,
    )
    from adelta.kernel.actions.file_actions import RemoveFile as RemoveFile
    from adelta.kernel.actions.metadata import Metadata as Metadata
    from adelta.kernel.actions.protocol import Protocol as Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction as SetTransaction
    from adelta.kernel.commit import Commit as Commit
    from adelta.kernel.position import Position as Position
    from adelta.kernel.schema.types import ArrayType as ArrayType
    from adelta.kernel.schema.types import DecimalType as DecimalType
    from adelta.kernel.schema.types import MapType as MapType
    from adelta.kernel.schema.types import PrimitiveType as PrimitiveType
    from adelta.kernel.schema.types import StructField as StructField
    from adelta.kernel.schema.types import StructType as StructType
    from adelta.lake.lake import Lake as Lake
    from adelta.lake.values import LakeTable as LakeTable
    from adelta.lake.values import TableChange as TableChange
    from adelta.operations.add_columns import add_columns as add_columns
    from adelta.operations.add_feature import add_feature as add_feature
    from adelta.operations.alter import AlterMetrics as AlterMetrics
    from adelta.operations.analyze import AnalyzeMetrics as AnalyzeMetrics
    from adelta.operations.analyze import analyze as analyze
    from adelta.operations.change_column import change_column as change_column
    from adelta.operations.checkpoint import CheckpointMetrics as CheckpointMetrics
    from adelta.operations.checkpoint import checkpoint as checkpoint
    from adelta.operations.cleanup_log import LogCleanupMetrics as LogCleanupMetrics
    from adelta.operations.cleanup_log import cleanup_log as cleanup_log
    from adelta.operations.clone import CloneMetrics as CloneMetrics
    from adelta.operations.clone import clone as clone
    from adelta.operations.cluster_by import cluster_by as cluster_by
    from adelta.operations.compact_log import LogCompactionMetrics as LogCompactionMetrics
    from adelta.operations.compact_log import compact_log as compact_log
    from adelta.operations.constraints import add_constraint as add_constraint
    from adelta.operations.constraints import drop_constraint as drop_constraint
    from adelta.operations.convert import ConvertMetrics as ConvertMetrics
    from adelta.operations.convert import convert as convert
    from adelta.operations.convert_iceberg import convert_iceberg as convert_iceberg
    from adelta.operations.create import create_table as create_table
    from adelta.operations.delete import DeleteMetrics as DeleteMetrics
    from adelta.operations.delete import delete as delete
    from adelta.operations.detail import TableDetail as TableDetail
    from adelta.operations.detail import detail as detail
    from adelta.operations.drop_columns import drop_columns as drop_columns
    from adelta.operations.drop_feature import drop_feature as drop_feature
    from adelta.operations.drop_table import DropMetrics as DropMetrics
    from adelta.operations.drop_table import drop_table as drop_table
    from adelta.operations.fsck import FsckProblem as FsckProblem
    from adelta.operations.fsck import FsckReport as FsckReport
    from adelta.operations.fsck import fsck as fsck
    from adelta.operations.generate_manifest import ManifestMetrics as ManifestMetrics
    from adelta.operations.generate_manifest import generate_manifest as generate_manifest
    from adelta.operations.history import HistoryEntry as HistoryEntry
    from adelta.operations.history import history as history
    from adelta.operations.identity_column import identity_column as identity_column
    from adelta.operations.merge.builder import Merge as Merge
    from adelta.operations.merge.builder import merge as merge
    from adelta.operations.merge.metrics import MergeMetrics as MergeMetrics
    from adelta.operations.optimize import optimize as optimize
    from adelta.operations.ownership import adopt_table as adopt_table
    from adelta.operations.ownership import recover_table as recover_table
    from adelta.operations.ownership import release_table as release_table
    from adelta.operations.rearrange.metrics import ClusteringStats as ClusteringStats
    from adelta.operations.rearrange.metrics import DeletionVectorStats as DeletionVectorStats
    from adelta.operations.rearrange.metrics import FilesAndBytes as FilesAndBytes
    from adelta.operations.rearrange.metrics import FileSizeMetrics as FileSizeMetrics
    from adelta.operations.rearrange.metrics import OptimizeMetrics as OptimizeMetrics
    from adelta.operations.rearrange.metrics import ZOrderStats as ZOrderStats
    from adelta.operations.rename_column import rename_column as rename_column
    from adelta.operations.reorg import reorg_purge as reorg_purge
    from adelta.operations.replace import replace_table as replace_table
    from adelta.operations.replace_matching import replace_matching as replace_matching
    from adelta.operations.restore import RestoreMetrics as RestoreMetrics
    from adelta.operations.restore import restore as restore
    from adelta.operations.set_properties import set_properties as set_properties
    from adelta.operations.set_properties import unset_properties as unset_properties
    from adelta.operations.snapshots import snapshots as snapshots
    from adelta.operations.transaction_over import TransactionOver as TransactionOver
    from adelta.operations.transaction_over import transaction_over as transaction_over
    from adelta.operations.update import UpdateMetrics as UpdateMetrics
    from adelta.operations.update import update as update
    from adelta.operations.upgrade_protocol import upgrade_protocol as upgrade_protocol
    from adelta.operations.vacuum import VacuumMetrics as VacuumMetrics
    from adelta.operations.vacuum import vacuum as vacuum
    from adelta.operations.write import WriteMetrics as WriteMetrics
    from adelta.operations.write import write_table as write_table
    from adelta.parquet.write.options import BloomFilter as BloomFilter
    from adelta.parquet.write.options import ColumnOptions as ColumnOptions
    from adelta.parquet.write.options import WriterOptions as WriterOptions
    from adelta.retry import retry as retry
    from adelta.scan import Scan as Scan
    from adelta.snapshot import Snapshot as Snapshot
    from adelta.sql.run import sql as sql
    from adelta.sql.run import sql_batches as sql_batches
    from adelta.transaction import Transaction as Transaction
    from adelta.write.commit_options import CommitOptions as CommitOptions
    from adelta.write.spec import DataFileOptions as DataFileOptions

__all__ = exports(
    __name__,
    {
        "adelta._handles": ("Table", "open_table"),
        "adelta._preload": ("preload",),
        "adelta._version": ("__version__",),
        "adelta.changes.feed": ("changes",),
        "adelta.changes.tail": ("tail",),
        "adelta.commit.catalog": ("CatalogClient",),
        "adelta.commit.owner": (
            "CommitOwner",
            "CommitOwnerClient",
            "CommitResponse",
            "ManagedTable",
            "ProposedCommit",
            "RatifiedCommit",
            "RatifiedCommits",
        ),
        "adelta.commit.owner_registry": ("register_commit_owner",),
        "adelta.commit.unity_catalog": ("StagedTable", "UnityCatalogClient"),
        "adelta.consumers.batch": ("Batch", "Lag", "SchemaChange"),
        "adelta.consumers.change_consumer": ("ChangeConsumer",),
        "adelta.consumers.consumer": ("Consumer",),
        "adelta.consumers.positions": ("FilePositions", "PositionStore", "StoredPosition"),
        "adelta.consumers.postgresql": ("PostgresqlPositions",),
        "adelta.kernel.actions.commit_info": ("CommitInfo",),
        "adelta.kernel.actions.domain_metadata": ("DomainMetadata",),
        "adelta.kernel.actions.file_actions": ("AddFile", "DeletionVectorDescriptor", "RemoveFile"),
        "adelta.kernel.actions.metadata": ("Metadata",),
        "adelta.kernel.actions.protocol": ("Protocol",),
        "adelta.kernel.actions.set_transaction": ("SetTransaction",),
        "adelta.kernel.commit": ("Commit",),
        "adelta.kernel.position": ("Position",),
        "adelta.kernel.schema.types": (
            "ArrayType",
            "DecimalType",
            "MapType",
            "PrimitiveType",
            "StructField",
            "StructType",
        ),
        "adelta.lake.lake": ("Lake",),
        "adelta.lake.values": ("LakeTable", "TableChange"),
        "adelta.operations.add_columns": ("add_columns",),
        "adelta.operations.add_feature": ("add_feature",),
        "adelta.operations.alter": ("AlterMetrics",),
        "adelta.operations.analyze": ("AnalyzeMetrics", "analyze"),
        "adelta.operations.change_column": ("change_column",),
        "adelta.operations.checkpoint": ("CheckpointMetrics", "checkpoint"),
        "adelta.operations.cleanup_log": ("LogCleanupMetrics", "cleanup_log"),
        "adelta.operations.clone": ("CloneMetrics", "clone"),
        "adelta.operations.cluster_by": ("cluster_by",),
        "adelta.operations.compact_log": ("LogCompactionMetrics", "compact_log"),
        "adelta.operations.constraints": ("add_constraint", "drop_constraint"),
        "adelta.operations.convert": ("ConvertMetrics", "convert"),
        "adelta.operations.convert_iceberg": ("convert_iceberg",),
        "adelta.operations.create": ("create_table",),
        "adelta.operations.delete": ("DeleteMetrics", "delete"),
        "adelta.operations.detail": ("TableDetail", "detail"),
        "adelta.operations.drop_columns": ("drop_columns",),
        "adelta.operations.drop_feature": ("drop_feature",),
        "adelta.operations.drop_table": ("DropMetrics", "drop_table"),
        "adelta.operations.fsck": ("FsckProblem", "FsckReport", "fsck"),
        "adelta.operations.generate_manifest": ("ManifestMetrics", "generate_manifest"),
        "adelta.operations.history": ("HistoryEntry", "history"),
        "adelta.operations.identity_column": ("identity_column",),
        "adelta.operations.merge.builder": ("Merge", "merge"),
        "adelta.operations.merge.metrics": ("MergeMetrics",),
        "adelta.operations.optimize": ("optimize",),
        "adelta.operations.ownership": ("adopt_table", "recover_table", "release_table"),
        "adelta.operations.rearrange.metrics": (
            "ClusteringStats",
            "DeletionVectorStats",
            "FileSizeMetrics",
            "FilesAndBytes",
            "OptimizeMetrics",
            "ZOrderStats",
        ),
        "adelta.operations.rename_column": ("rename_column",),
        "adelta.operations.reorg": ("reorg_purge",),
        "adelta.operations.replace": ("replace_table",),
        "adelta.operations.replace_matching": ("replace_matching",),
        "adelta.operations.restore": ("RestoreMetrics", "restore"),
        "adelta.operations.set_properties": ("set_properties", "unset_properties"),
        "adelta.operations.snapshots": ("snapshots",),
        "adelta.operations.transaction_over": ("TransactionOver", "transaction_over"),
        "adelta.operations.update": ("UpdateMetrics", "update"),
        "adelta.operations.upgrade_protocol": ("upgrade_protocol",),
        "adelta.operations.vacuum": ("VacuumMetrics", "vacuum"),
        "adelta.operations.write": ("WriteMetrics", "write_table"),
        "adelta.parquet.write.options": ("BloomFilter", "ColumnOptions", "WriterOptions"),
        "adelta.retry": ("retry",),
        "adelta.scan": ("Scan",),
        "adelta.snapshot": ("Snapshot",),
        "adelta.sql.run": ("sql", "sql_batches"),
        "adelta.transaction": ("Transaction",),
        "adelta.write.commit_options": ("CommitOptions",),
        "adelta.write.spec": ("DataFileOptions",),
    },
    modules=("errors", "operations", "plot", "sync"),
)
