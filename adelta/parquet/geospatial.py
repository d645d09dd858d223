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
    typed = [_typed(field) for field in fields]
    changed = any(new is not old for new, old in zip(typed, fields, strict=True))
    return pa.schema(typed) if changed else schema


def _typed(field: pa.Field[Any]) -> pa.Field[Any]:
    data_type: Any = field.type
    if pa.types.is_binary(data_type):
        marks = field.metadata or {}
        told = orjson.loads(marks.get(_METADATA) or b"{}")
        if marks.get(_NAME) != _WKB.encode() or told.get("edges") not in _WRITTEN_EDGES:
            return field
        return field.with_type(_WellKnownBinary(orjson.dumps({"crs": _UNKNOWN, **told})))
    if not pa.types.is_nested(data_type):
        return field
    inside = [data_type.field(index) for index in range(data_type.num_fields)]
    if pa.types.is_map(data_type):
        inside = [data_type.key_field, data_type.item_field]
    typed = [_typed(each) for each in inside]
    if all(new is old for new, old in zip(typed, inside, strict=True)):
        return field
    made: Any = pa.struct(typed)
    if pa.types.is_map(data_type):
        made = pa.map_(*typed)
    elif not pa.types.is_struct(data_type):
        made = pa.list_(typed[0])
    return field.with_type(made)
