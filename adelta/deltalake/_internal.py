"""The names that others import from deltalake's own inside."""

from __future__ import annotations

from adelta.deltalake._actions import RemoveAction, Transaction
from adelta.deltalake._features import TableFeatures
from adelta.deltalake._merger import PyMergeBuilder
from adelta.deltalake._raw import RawDeltaTable, RawDeltaTableMetaData
from adelta.deltalake._types import (
    ArrayType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    VariantType,
)
from adelta.deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)
from adelta.deltalake.query import PyQueryBuilder

__all__ = [
    "ArrayType",
    "CommitFailedError",
    "DeltaError",
    "DeltaProtocolError",
    "Field",
    "MapType",
    "PrimitiveType",
    "PyMergeBuilder",
    "PyQueryBuilder",
    "RawDeltaTable",
    "RawDeltaTableMetaData",
    "RemoveAction",
    "Schema",
    "SchemaMismatchError",
    "StructType",
    "TableFeatures",
    "TableNotFoundError",
    "Transaction",
    "VariantType",
    "__version__",
    "rust_core_version",
]

__version__ = "1.6.6"
"""The release of deltalake whose names these are: libraries look for it."""


_NANOSECOND_TIMESTAMPS = False
"""Whether timestamps may have nanoseconds: adelta's have microseconds."""


def rust_core_version() -> str:
    """What runs here in the place of deltalake's Rust: adelta, and its version."""
    from adelta.write.spec import engine_info

    return engine_info()


def __getattr__(name: str) -> object:
    """The file system's names, which load `pyarrow.fs`."""
    if name in ("DeltaFileSystemHandler", "ObjectInputFile", "ObjectOutputStream"):
        from adelta.deltalake.fs import _base_handler

        return getattr(_base_handler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
