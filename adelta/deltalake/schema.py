"""The types of a table's schema, under deltalake's names."""

from __future__ import annotations

from adelta.deltalake._types import (
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    VariantType,
)

__all__ = [
    "ArrayType",
    "DataType",
    "Field",
    "MapType",
    "PrimitiveType",
    "Schema",
    "StructType",
    "VariantType",
]
