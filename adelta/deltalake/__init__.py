"""The names of the package `deltalake` 1.6, over `adelta.sync`.

A program moves by importing them from here::

    from adelta.deltalake import DeltaTable, write_deltalake

What differs on purpose is in docs/migrating_from_deltalake.md.
"""

from __future__ import annotations

from adelta.deltalake import exceptions as exceptions
from adelta.deltalake import schema as schema
from adelta.deltalake import table as table
from adelta.deltalake import transaction as transaction
from adelta.deltalake import writer as writer
from adelta.deltalake._features import TableFeatures
from adelta.deltalake._internal import __version__, rust_core_version
from adelta.deltalake._process import (
    _disable_nanosecond_timestamps as _disable_nanosecond_timestamps,
)
from adelta.deltalake._process import (
    _nanosecond_timestamps_enabled as _nanosecond_timestamps_enabled,
)
from adelta.deltalake._process import enable_nanosecond_timestamps, init_tracing
from adelta.deltalake.query import QueryBuilder
from adelta.deltalake.schema import DataType, Field, Schema, VariantType
from adelta.deltalake.table import DeltaTable, Metadata
from adelta.deltalake.transaction import CommitProperties, PostCommitHookProperties, Transaction
from adelta.deltalake.writer import (
    BloomFilterProperties,
    ColumnProperties,
    WriterProperties,
    convert_to_deltalake,
    write_deltalake,
)

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "CommitProperties",
    "DataType",
    "DeltaTable",
    "Field",
    "Metadata",
    "PostCommitHookProperties",
    "QueryBuilder",
    "Schema",
    "TableFeatures",
    "Transaction",
    "VariantType",
    "WriterProperties",
    "__version__",
    "convert_to_deltalake",
    "enable_nanosecond_timestamps",
    "init_tracing",
    "rust_core_version",
    "write_deltalake",
]
