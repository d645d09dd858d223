"""A table's folder as a file system for pyarrow."""

from __future__ import annotations

from adelta.deltalake.fs.fs_handler import DeltaStorageHandler

__all__ = ["DeltaStorageHandler"]
