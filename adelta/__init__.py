"""Delta Lake on asyncio: tables, snapshots, transactions and change consumers, all awaitable.

The blocking face, `adelta.sync`, has the same names. Spark's is `adelta.spark`.
"""

from adelta.changes import Commit, Position, changes, tail
from adelta.operations import (
    checkpoint,
    create_table,
    detail,
    fsck,
    history,
    write_table,
)
from adelta.scan import Scan
from adelta.snapshot import Snapshot
from adelta.table import Table, open_table
from adelta.transaction import Transaction

__all__ = [
    "Commit",
    "Position",
    "Scan",
    "Snapshot",
    "Table",
    "Transaction",
    "changes",
    "checkpoint",
    "create_table",
    "detail",
    "fsck",
    "history",
    "open_table",
    "tail",
    "write_table",
]
