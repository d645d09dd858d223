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
import pyarrow.parquet as pq

from adelta.parquet.nested_fields import change_fields

__all__ = ["first_damaged", "with_shape_types"]

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
    typed = [change_fields(field, _written) for field in fields]
    changed = any(new is not old for new, old in zip(typed, fields, strict=True))
    return pa.schema(typed) if changed else schema


def first_damaged(values: pa.Array[Any], field: pa.Field[Any]) -> int | None:
    """The first row in which a shape is no well-known binary; None where there is none. CPU-heavy.

    `field`, or fields inside, are marked as holding shapes. Arrow's writer parses each of them to
    its end for the bounding box, and has no box of a column with one that it cannot parse: so they
    are written to nowhere.
    """
    flat = pa.schema([change_fields(field.with_nullable(True), _flat)])
    return _search(pa.table([values], schema=pa.schema([field.with_nullable(True)])).cast(flat), 0)


def _search(table: pa.Table, start: int) -> int | None:
    if table.num_rows == 0 or _is_whole(table):
        return None
    if table.num_rows == 1:
        return start
    half = table.num_rows // 2
    found = _search(table.slice(0, half), start)
    return _search(table.slice(half), start + half) if found is None else found


def _is_whole(table: pa.Table) -> bool:
    with pq.ParquetWriter(
        pa.MockOutputStream(),
        table.schema,
        compression="none",
        use_dictionary=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
    footer: Any = writer.writer.metadata  # the stubs do not know Parquet's shapes
    leaves = range(footer.num_columns)
    shapes = [i for i in leaves if footer.schema.column(i).logical_type.type == "GEOMETRY"]
    return all(footer.row_group(0).column(i).is_geo_stats_set for i in shapes)


def _is_marked(field: pa.Field[Any]) -> bool:
    return pa.types.is_binary(field.type) and (field.metadata or {}).get(_NAME) == _WKB.encode()


def _flat(field: pa.Field[Any]) -> pa.Field[Any] | None:
    return field.with_type(_WellKnownBinary(b"{}")) if _is_marked(field) else None


def _written(field: pa.Field[Any]) -> pa.Field[Any] | None:
    if not _is_marked(field):
        return None
    properties = orjson.loads((field.metadata or {}).get(_METADATA) or b"{}")
    if properties.get("edges") not in _WRITTEN_EDGES:
        return None
    return field.with_type(_WellKnownBinary(orjson.dumps({"crs": _UNKNOWN, **properties})))
