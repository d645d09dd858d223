"""Arrow types as Delta's, the way deltalake takes them: narrowed to what Delta has, or refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "PRIMITIVES",
    "answered",
    "arrow_field",
    "arrow_type",
    "delta_type",
    "exported_field",
    "exported_schema",
    "in_rust",
    "metadata_of",
    "with_large_types",
    "with_views",
]

PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
"""The Arrow types of Delta's primitive ones."""
_VARIANT = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
_NAMES: dict[pa.DataType, str] = {
    **{arrow: name for name, arrow in PRIMITIVES.items()},
    pa.uint8(): "byte",
    pa.uint16(): "short",
    pa.uint32(): "integer",
    pa.uint64(): "long",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date64(): "date",
}


def exported_schema(value: Any) -> pa.Schema:
    """The schema of a pyarrow schema, or of anything that exports one through Arrow's C interface.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, pa.Schema):
        return value
    if not hasattr(value, "__arrow_c_schema__"):
        raise ValueError("Expected an object with dunder __arrow_c_schema__")
    return pa.schema(value)


def exported_field(value: Any) -> pa.Field[Any]:
    """The field of a pyarrow field or type, or of anything that exports one.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, pa.Field):
        return value
    if isinstance(value, pa.Schema):
        return pa.field("", pa.struct(list(value)), nullable=False)
    if not hasattr(value, "__arrow_c_schema__"):
        raise ValueError("Expected an object with dunder __arrow_c_schema__")
    exported: Any = pa.field
    return exported(value)  # type: ignore[no-any-return]


def delta_type(arrow: Any) -> t.DataType:
    """The Delta type in which values of an Arrow type are kept.

    Raises:
        ValueError: there is none.
    """
    if name := _NAMES.get(arrow):
        return t.PrimitiveType(name)
    if pa.types.is_timestamp(arrow) and arrow.tz in (None, "UTC", "+00:00"):
        return t.TIMESTAMP if arrow.tz else t.TIMESTAMP_NTZ
    if pa.types.is_fixed_size_binary(arrow):
        return t.BINARY
    if pa.types.is_dictionary(arrow):
        return delta_type(arrow.value_type)
    if pa.types.is_decimal(arrow) and arrow.scale < 0:
        raise ValueError("Invalid decimal: Negative scales are not supported in Delta")
    if pa.types.is_decimal(arrow) and arrow.precision <= 38:
        return t.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_map(arrow):
        key, item = arrow.key_type, arrow.item_field
        return t.MapType(delta_type(key), delta_type(item.type), item.nullable)
    if pa.types.is_struct(arrow):
        if arrow == _VARIANT:
            return t.VARIANT
        return t.StructType(tuple(_delta_field(field) for field in arrow))
    if hasattr(arrow, "value_field"):  # lists of every layout
        return t.ArrayType(delta_type(arrow.value_field.type), arrow.value_field.nullable)
    raise ValueError(f"Invalid data type for Delta Lake: {arrow}")


def _delta_field(field: pa.Field[Any]) -> t.StructField:
    return t.StructField(field.name, delta_type(field.type), field.nullable, metadata_of(field))


def metadata_of(field: pa.Field[Any]) -> dict[str, str]:
    """The texts that a field bears, but for those of extension types."""
    found = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return {key: value for key, value in found.items() if not key.startswith("ARROW:extension:")}


def arrow_type(kind: t.DataType) -> Any:
    """The Arrow type in which deltalake's readers give values of a Delta type."""
    if isinstance(kind, t.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, t.ArrayType):
        element = pa.field("element", arrow_type(kind.element_type), nullable=kind.contains_null)
        return pa.list_(element)
    if isinstance(kind, t.MapType):
        value = pa.field("value", arrow_type(kind.value_type), nullable=kind.value_contains_null)
        return pa.map_(pa.field("key", arrow_type(kind.key_type), nullable=False), value)
    if isinstance(kind, t.StructType):
        return pa.struct([arrow_field(field) for field in kind])
    return _VARIANT if kind == t.VARIANT else PRIMITIVES[kind.name]


def arrow_field(field: t.StructField) -> pa.Field[Any]:
    """The Arrow field of a field of Delta's, with its metadata as texts."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in field.metadata.items()
    }
    return pa.field(field.name, arrow_type(field.type), field.nullable, texts or None)


def with_large_types(arrow: Any) -> Any:
    """The type with texts, bytes and lists counted by 64 bits, at every depth."""
    if pa.types.is_string(arrow):
        return pa.large_string()
    if pa.types.is_binary(arrow):
        return pa.large_binary()
    if pa.types.is_map(arrow):
        return pa.map_(_large_field(arrow.key_field), _large_field(arrow.item_field))
    if pa.types.is_struct(arrow):
        return pa.struct([_large_field(field) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.large_list(_large_field(arrow.value_field))
    return arrow


def _large_field(field: Any) -> Any:
    return field.with_type(with_large_types(field.type))


def with_views(schema: pa.Schema, *, inside: bool = True) -> pa.Schema:
    """The schema with texts and bytes as views, as deltalake's engine answers.

    With `inside` those of lists and structs too; those of maps stay as they are.
    """
    return pa.schema([field.with_type(_viewed(field.type, inside)) for field in schema])


def _viewed(arrow: Any, inside: bool) -> Any:
    if pa.types.is_string(arrow):
        return pa.string_view()
    if pa.types.is_binary(arrow):
        return pa.binary_view()
    if inside and pa.types.is_struct(arrow) and arrow != _VARIANT:
        return pa.struct([field.with_type(_viewed(field.type, inside)) for field in arrow])
    if inside and pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_viewed(arrow.value_type, inside)))
    return arrow


def answered(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """The batches as a stream with the columns of `schema`, in its types."""
    return pa.RecordBatchReader.from_batches(
        schema, (batch.select(schema.names).cast(schema) for batch in batches)
    )


def in_rust(arrow: Any) -> str:
    """What the type is called in Rust, and by deltalake's engine."""
    if pa.types.is_timestamp(arrow):
        return "Timestamp(µs)" if arrow.tz is None else f'Timestamp(µs, "{arrow.tz}")'
    if pa.types.is_decimal(arrow):
        return f"Decimal128({arrow.precision}, {arrow.scale})"
    name = str(arrow)
    return _IN_RUST.get(name, name[:1].upper() + name[1:])


_IN_RUST = {
    "string": "Utf8",
    "string_view": "Utf8View",
    "binary_view": "BinaryView",
    "date32[day]": "Date32",
    "double": "Float64",
    "float": "Float32",
    "bool": "Boolean",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
}
