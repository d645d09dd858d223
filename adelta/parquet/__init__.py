"""Parquet over the storage port. Nothing here knows of Delta."""

from __future__ import annotations

from adelta.parquet.columns import ColumnName
from adelta.parquet.footer import read_metadata
from adelta.parquet.reader import ChunkStatistics, ParquetFile

__all__ = ["ChunkStatistics", "ColumnName", "ParquetFile", "read_metadata"]
