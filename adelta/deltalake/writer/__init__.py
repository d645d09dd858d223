"""What writes rows and files into tables."""

from __future__ import annotations

from adelta.deltalake.writer.convert_to import convert_to_deltalake
from adelta.deltalake.writer.properties import (
    BloomFilterProperties,
    ColumnProperties,
    WriterProperties,
)
from adelta.deltalake.writer.writer import write_deltalake

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "WriterProperties",
    "convert_to_deltalake",
    "write_deltalake",
]
