"""Delta Lake on asyncio: tables, snapshots, transactions and change consumers, all awaitable.

The blocking face, `adelta.sync`, has the same names. Spark's is `adelta.spark`.
"""

from adelta.changes import changes, tail
from adelta.commit.catalog import (
    CatalogClient,
    CommitResponse,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
)
from adelta.commit.unity_catalog import UnityCatalogClient
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.commit import Commit
from adelta.kernel.position import Position
from adelta.operations import (
    add_columns,
    add_constraint,
    add_feature,
    change_column,
    checkpoint,
    cleanup_log,
    cluster_by,
    compact_log,
    create_table,
    delete,
    detail,
    drop_columns,
    drop_constraint,
    drop_feature,
    fsck,
    history,
    identity_column,
    rename_column,
    set_properties,
    unset_properties,
    update,
    write_table,
)
from adelta.parquet.options import BloomFilter, ColumnOptions, WriterOptions
from adelta.retry import retry
from adelta.scan import Scan
from adelta.snapshot import Snapshot
from adelta.table import Table, open_table
from adelta.transaction import Transaction
from adelta.write.spec import DataFileOptions

__all__ = [
    "AddFile",
    "BloomFilter",
    "CatalogClient",
    "ColumnOptions",
    "Commit",
    "CommitInfo",
    "CommitResponse",
    "DataFileOptions",
    "DeletionVectorDescriptor",
    "Metadata",
    "Position",
    "ProposedCommit",
    "Protocol",
    "RatifiedCommit",
    "RatifiedCommits",
    "Scan",
    "Snapshot",
    "Table",
    "Transaction",
    "UnityCatalogClient",
    "WriterOptions",
    "add_columns",
    "add_constraint",
    "add_feature",
    "change_column",
    "changes",
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
    "open_table",
    "rename_column",
    "retry",
    "set_properties",
    "tail",
    "unset_properties",
    "update",
    "write_table",
]
