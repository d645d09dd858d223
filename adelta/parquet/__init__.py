"""Parquet over the storage port. Nothing here knows of Delta."""

from __future__ import annotations

from adelta.parquet.file import ParquetFile
from adelta.parquet.footer.columns import ColumnName
from adelta.parquet.footer.fetch_footer import read_metadata
from adelta.parquet.skip.chunk_statistics import ChunkStatistics
from adelta.parquet.write.options import BloomFilter, ColumnOptions, WriterOptions
from adelta.parquet.write.statistics import ColumnStatistics, FileStatistics, StatisticsCollector
from adelta.parquet.write.writer import ParquetObjectWriter, WrittenFile, write_parquet

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
