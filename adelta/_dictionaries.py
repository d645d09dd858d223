"""Columns of texts that repeat, held as numbers and a dictionary on their way from file to file.

To lay the texts out, and to look for each again in order to number them, takes a good part of what
it costs to copy such rows. Only rows that nobody looks into are held so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TEXTS", "numbered_columns", "with_dictionaries", "without_dictionaries"]

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

TEXTS: pa.DataType = pa.dictionary(pa.int32(), pa.string())
"""The type of such a column."""


def numbered_columns(schemas: Iterable[pa.Schema]) -> frozenset[str]:
    """The columns that are held as numbers in one of the schemas."""
    return frozenset(f.name for schema in schemas for f in schema if f.type.equals(TEXTS))


def with_dictionaries(schema: pa.Schema, places: Iterable[int]) -> pa.Schema:
    """The schema with the columns at these places, which are of texts, as numbers."""
    for place in places:
        field = schema.field(place)
        if field.type.equals(pa.string()):
            schema = schema.set(place, field.with_type(TEXTS))
    return schema


def without_dictionaries(rows: Rows) -> Rows:
    """The rows with all texts laid out."""
    for place, field in enumerate(rows.schema):
        if field.type.equals(TEXTS):
            texts = rows.column(place).cast(pa.string())
            rows = rows.set_column(place, field.with_type(pa.string()), texts)
    return rows
