"""A small async package in the facade grammar, from which the tests generate a blocking twin."""

from __future__ import annotations

from lake.changes.consumer import Consumer
from lake.changes.tail import tail
from lake.operations import create_table, history, merge
from lake.operations.history import Metrics
from lake.snapshot import Scan, Snapshot
from lake.table import Table, open_table
from lake.transaction import Transaction
from lake.values import VERSION, Closed, is_name

__all__ = [
    "VERSION",
    "Closed",
    "Consumer",
    "Metrics",
    "Scan",
    "Snapshot",
    "Table",
    "Transaction",
    "create_table",
    "history",
    "is_name",
    "merge",
    "open_table",
    "tail",
]
