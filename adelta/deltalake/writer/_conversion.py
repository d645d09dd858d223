"""Schemas in types that Delta has, under the name that others import it by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.deltalake._arrow import exported_schema
from adelta.deltalake.writer.data import delta_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["_convert_arro3_schema_to_delta"]


def _convert_arro3_schema_to_delta(schema: Any, existing_schema: Any | None = None) -> pa.Schema:
    """The schema, of anything that exports one, in types that Delta has."""
    existing = None if existing_schema is None else exported_schema(existing_schema)
    return delta_schema(exported_schema(schema), existing)
