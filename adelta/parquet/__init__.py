"""Parquet over the storage port. Nothing here knows of Delta."""

from __future__ import annotations

from adelta.parquet.chunk_statistics import ChunkStatistics
from adelta.parquet.columns import ColumnName
from adelta.parquet.footer import read_metadata
from adelta.parquet.options import BloomFilter, ColumnOptions, WriterOptions
from adelta.parquet.reader import ParquetFile
from adelta.parquet.statistics import ColumnStatistics, FileStatistics, StatisticsCollector
from adelta.parquet.writer import ParquetObjectWriter, WrittenFile, write_parquet

__all__ = [
    "BloomFilter",
    "ChunkStatistics",
    "ColumnName",
    "ColumnOptions",
    "ColumnStatistics",
    "FileStatistics",
    "ParquetFile",
    "ParquetObjectWriter",
    "StatisticsCollector",
    "WriterOptions",
    "WrittenFile",
    "read_metadata",
    "write_parquet",
]
