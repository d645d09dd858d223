"""Shapes in Parquet: binary columns that bear the logical types GEOMETRY and GEOGRAPHY.

A field that GeoArrow's metadata mark as ``geoarrow.wkb`` becomes such a column, and for a GEOMETRY
Arrow puts the bounding box of each row group into the footer. What GeoArrow leaves unsaid is an
unknown coordinate reference system, and longitude and latitude in Parquet, so it is said there.
Arrow has no name for edges that run other than spherically: such columns stay plain binary, which
every reader of the table takes too.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
import pyarrow as pa

from adelta.parquet.nested_fields import change_fields

__all__ = ["with_shape_types"]

_NAME, _METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_WKB: Final = "geoarrow.wkb"
_UNKNOWN: Final = "SRID:0"
_WRITTEN_EDGES: Final = (None, "planar", "spherical")


class _WellKnownBinary(pa.ExtensionType):
    """The type by which Arrow's writer knows shapes; nobody else gets to see it."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), _WKB)

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: object, serialized: bytes) -> _WellKnownBinary:
        return cls(serialized)


def with_shape_types(schema: pa.Schema) -> pa.Schema:
    """The schema with marked fields, at any depth, of the type that Arrow writes as shapes.

    It is `schema` itself where no field is marked.
    """
    fields = list(schema)
    typed = [change_fields(field, _shapes) for field in fields]
    changed = any(new is not old for new, old in zip(typed, fields, strict=True))
    return pa.schema(typed) if changed else schema


def _shapes(field: pa.Field[Any]) -> pa.Field[Any] | None:
    marks = field.metadata or {}
    if not pa.types.is_binary(field.type) or marks.get(_NAME) != _WKB.encode():
        return None
    told = orjson.loads(marks.get(_METADATA) or b"{}")
    if told.get("edges") not in _WRITTEN_EDGES:
        return None
    return field.with_type(_WellKnownBinary(orjson.dumps({"crs": _UNKNOWN, **told})))
