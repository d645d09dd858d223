"""Shapes as Spark exchanges them ⇄ shapes as tables hold them.

In Spark's Arrow data a shape is a struct of its well-known binary and the number of its coordinate
reference system, which is the column's. Tables hold the binary alone.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from adelta.kernel.schema.cast import rebuild
from adelta.kernel.schema.geospatial import DEFAULT_ALGORITHM, Shape, crs_of_srid, marks_of
from adelta.parquet.nested_fields import change_fields

__all__ = ["holds_shapes", "with_systems", "without_systems"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars

_SRID, _WKB = "srid", "wkb"


def holds_shapes(schema: pa.Schema) -> bool:
    """Whether batches of Spark's with this schema hold shapes, at any depth."""
    return any(_stored(field) is not field for field in list(schema))


def with_systems(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a table with their shapes as `schema`, which is Spark's, has them. CPU-heavy."""
    fields = list(schema)
    columns = [
        column if _stored(field) is field else rebuild(column, field, _as_struct)
        for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def without_systems(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of Spark's with their shapes as tables hold them, and their marks. CPU-heavy."""
    given = list(batch.schema)
    fields = [_stored(field) for field in given]
    columns = [
        column if new is old else rebuild(column, new, _as_binary)
        for column, new, old in zip(batch.columns, fields, given, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _as_struct(values: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any] | None:
    data_type: Any = field.type
    shape = _shape(data_type)
    if shape is None:
        return None
    srid = pa.repeat(pa.scalar(shape[0], pa.int32()), len(values))
    parts = {_SRID: srid, _WKB: pc.fill_null(values, b"")}  # neither may be null
    from_arrays: Any = pa.StructArray.from_arrays  # the stubs do not know the mask
    made: pa.Array[Any] = from_arrays(
        [parts[each.name] for each in data_type.fields],
        fields=list(data_type.fields),
        mask=values.is_null(),
    )
    return made


def _as_binary(values: Any, _field: pa.Field[Any]) -> pa.Array[Any] | None:
    if _shape(values.type) is None:
        return None
    made: pa.Array[Any] = pc.if_else(values.is_valid(), values.field(_WKB), None)
    return made


def _shape(data_type: Any) -> tuple[int, Shape] | None:
    """The number of the system, and what tables call it, where Spark's type is one of shapes."""
    if not pa.types.is_struct(data_type) or {f.name for f in data_type.fields} != {_SRID, _WKB}:
        return None
    metadata = data_type.field(_WKB).metadata or {}
    srid = int(metadata.get(b"srid", -1))
    crs = crs_of_srid(srid) if srid >= 0 else "SRID:ANY"
    if metadata.get(b"geometry") == b"true":
        return srid, Shape(crs)
    return (srid, Shape(crs, DEFAULT_ALGORITHM)) if metadata.get(b"geography") == b"true" else None


def _stored(field: pa.Field[Any]) -> pa.Field[Any]:
    """The field of a table for one of Spark's: itself where there are no shapes in it."""
    return change_fields(field, _binary)


def _binary(field: pa.Field[Any]) -> pa.Field[Any] | None:
    shape = _shape(field.type)
    if shape is None:
        return None
    return pa.field(field.name, pa.binary(), field.nullable, marks_of(shape[1]))
