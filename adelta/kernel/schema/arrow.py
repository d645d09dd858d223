"""Delta's types ⇄ Arrow's types.

Every Delta type has exactly one Arrow type here, so a table's Arrow schema is the same whoever
wrote the files. The other direction accepts all Arrow types whose values a Delta type can hold, in
any of Arrow's layouts (large, view, dictionary, run-end), and refuses the rest by name.

A `variant` is the struct of its two binary parts, told from an ordinary struct by field metadata
under the name that Arrow's canonical extension types use; and shapes are told from other binary
values by GeoArrow's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from adelta._lazy_arrow import pa
from adelta.errors import SchemaMismatchError, UnsupportedFeatureError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.geospatial import marked_shape, marks_of, shape_of
from adelta.kernel.schema.names import FIELD_ID_KEY, NESTED_FIELD_IDS_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "from_arrow_field",
    "from_arrow_schema",
    "from_arrow_type",
    "is_list",
    "is_variant_field",
    "storage_type",
    "to_arrow_field",
    "to_arrow_schema",
    "to_arrow_type",
]

_COMMENT = "comment"
_PARQUET_FIELD_ID = b"PARQUET:field_id"
_EXTENSION = b"ARROW:extension:name"
_VARIANT_EXTENSIONS = ("arrow.parquet.variant", "parquet.variant")
_MAX_DECIMAL = 38

_UNITS = ("day", "hour", "minute", "second")


@cache
def _arrow_types() -> Mapping[t.PrimitiveType, pa.DataType]:
    return {
        t.STRING: pa.string(),
        t.LONG: pa.int64(),
        t.INTEGER: pa.int32(),
        t.SHORT: pa.int16(),
        t.BYTE: pa.int8(),
        t.FLOAT: pa.float32(),
        t.DOUBLE: pa.float64(),
        t.BOOLEAN: pa.bool_(),
        t.BINARY: pa.binary(),
        t.DATE: pa.date32(),
        t.TIMESTAMP: pa.timestamp("us", "UTC"),
        t.TIMESTAMP_NTZ: pa.timestamp("us"),
        t.VARIANT: pa.struct(
            [pa.field("value", pa.binary(), nullable=True), pa.field("metadata", pa.binary())]
        ),
        t.VOID: pa.null(),
    }


@cache
def _interval_types() -> Mapping[str, pa.DataType]:
    """Intervals have no logical Parquet type: files hold months and microseconds as integers."""
    return {
        **dict.fromkeys(("year", "month", "year to month"), pa.int32()),
        **dict.fromkeys(_UNITS, pa.int64()),
        **{f"{a} to {b}": pa.int64() for i, a in enumerate(_UNITS) for b in _UNITS[i + 1 :]},
    }


@cache
def _delta_types() -> Mapping[pa.DataType, t.DataType]:
    return {
        pa.null(): t.VOID,
        pa.bool_(): t.BOOLEAN,
        pa.int8(): t.BYTE,
        pa.int16(): t.SHORT,
        pa.int32(): t.INTEGER,
        pa.int64(): t.LONG,
        pa.uint8(): t.SHORT,
        pa.uint16(): t.INTEGER,
        pa.uint32(): t.LONG,
        pa.uint64(): t.DecimalType(20, 0),
        pa.float32(): t.FLOAT,
        pa.float64(): t.DOUBLE,
        pa.string(): t.STRING,
        pa.large_string(): t.STRING,
        pa.string_view(): t.STRING,
        pa.binary(): t.BINARY,
        pa.large_binary(): t.BINARY,
        pa.binary_view(): t.BINARY,
        pa.date32(): t.DATE,
        pa.date64(): t.DATE,
    }


def to_arrow_schema(schema: t.StructType) -> pa.Schema:
    """The Arrow schema of a Delta schema, column for column.

    Raises:
        UnsupportedFeatureError: a column's type has no Arrow counterpart.
    """
    return pa.schema([to_arrow_field(f) for f in schema])


def to_arrow_field(field: t.StructField) -> pa.Field[Any]:
    """The Arrow field of a Delta field; its comment and its Parquet field id go along.

    Raises:
        UnsupportedFeatureError: the type has no Arrow counterpart.
    """
    metadata: dict[bytes | str, bytes | str] = {}
    comment = field.metadata.get(_COMMENT)
    if isinstance(comment, str):
        metadata[_COMMENT] = comment
    field_id = field.metadata.get(FIELD_ID_KEY)
    if isinstance(field_id, int):
        metadata[_PARQUET_FIELD_ID] = str(field_id)
    made = _field(field.name, field.type, field.nullable, metadata)
    ids = field.metadata.get(NESTED_FIELD_IDS_KEY)
    return made.with_type(_with_ids(made.type, field.name, ids)) if ids else made


def _with_ids(data_type: Any, path: str, ids: Mapping[str, int]) -> Any:
    """A list or a map whose parts bear the ids that they have by their paths below a field."""

    def part(field: Any, step: str) -> Any:
        inner = f"{path}.{step}"
        made = field.with_type(_with_ids(field.type, inner, ids))
        if inner not in ids:
            return made
        return made.with_metadata({**(field.metadata or {}), _PARQUET_FIELD_ID: str(ids[inner])})

    if pa.types.is_list(data_type):
        return pa.list_(part(data_type.value_field, "element"))
    if pa.types.is_map(data_type):
        return pa.map_(part(data_type.key_field, "key"), part(data_type.item_field, "value"))
    return data_type


def to_arrow_type(data_type: t.DataType) -> pa.DataType:
    """The one Arrow type that stands for a Delta type.

    Raises:
        UnsupportedFeatureError: the type has no Arrow counterpart.
    """
    match data_type:
        case t.DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case t.StructType(fields):
            return pa.struct([to_arrow_field(f) for f in fields])
        case t.ArrayType(element, contains_null):
            return pa.list_(_field("element", element, contains_null))
        case t.MapType(key, value, value_contains_null):
            parts: Any = (_field("key", key, False), _field("value", value, value_contains_null))
            made: pa.DataType = pa.map_(*parts)  # the stubs take types only
            return made
    found = _arrow_types().get(data_type)
    if found is not None:
        return found
    interval = _interval_types().get(data_type.name.removeprefix("interval "))
    if interval is not None and data_type.name.startswith("interval "):
        return interval
    if shape_of(data_type) is not None:
        return pa.binary()
    raise UnsupportedFeatureError(
        f"columns of the type {data_type} cannot be read or written by this adelta; leave them out "
        "of the columns asked for, or upgrade adelta"
    )


def _field(
    name: str,
    data_type: t.DataType,
    nullable: bool,
    metadata: dict[bytes | str, bytes | str] | None = None,
) -> pa.Field[Any]:
    marked = dict(metadata or {})
    if data_type == t.VARIANT:
        marked[_EXTENSION] = _VARIANT_EXTENSIONS[0]
    elif (shape := shape_of(data_type)) is not None:
        marked.update(marks_of(shape))
    return pa.field(name, to_arrow_type(data_type), nullable=nullable, metadata=marked or None)


def from_arrow_schema(schema: pa.Schema) -> t.StructType:
    """The Delta schema that holds every value of an Arrow schema.

    Unsigned integers become the next wider signed type, timestamps of any unit microseconds, and
    timestamps of any zone UTC: whether the values fit is for the one who converts them to check.

    Raises:
        SchemaMismatchError: a column, named by its path, has a type that Delta does not have.
    """
    return t.StructType(tuple(from_arrow_field(f) for f in schema))


def from_arrow_field(field: pa.Field[Any], path: str = "") -> t.StructField:
    """The Delta field of an Arrow field; of its metadata the comment goes along.

    Raises:
        SchemaMismatchError: the field, or one inside it, has a type that Delta does not have.
    """
    path = f"{path}.{field.name}" if path else field.name
    comment = (field.metadata or {}).get(_COMMENT.encode())
    metadata = {} if comment is None else {_COMMENT: comment.decode(errors="replace")}
    return t.StructField(field.name, _from_field(field, path), field.nullable, metadata)


def from_arrow_type(data_type: pa.DataType, path: str = "value") -> t.DataType:
    """The Delta type that holds every value of an Arrow type; `path` is for the message.

    Raises:
        SchemaMismatchError: Delta has no such type.
    """
    found = _delta_types().get(data_type)
    if found is not None:
        return found
    if pa.types.is_timestamp(data_type):
        return t.TIMESTAMP_NTZ if data_type.tz is None else t.TIMESTAMP
    if pa.types.is_decimal(data_type):
        return _decimal(data_type, path)
    if pa.types.is_struct(data_type):
        return t.StructType(tuple(from_arrow_field(f, path) for f in data_type.fields))
    if pa.types.is_map(data_type):
        return t.MapType(
            _from_field(data_type.key_field, f"{path}.key"),
            _from_field(data_type.item_field, f"{path}.value"),
            data_type.item_field.nullable,
        )
    if is_list(data_type):
        element: pa.Field[Any] = data_type.value_field  # type: ignore[attr-defined]  # all lists
        return t.ArrayType(_from_field(element, f"{path}.element"), element.nullable)
    if pa.types.is_fixed_size_binary(data_type):
        return t.BINARY
    stored = storage_type(data_type)
    if stored != data_type:
        if _is_variant_extension(data_type):
            return t.VARIANT
        shape = marked_shape(data_type, path)
        return from_arrow_type(stored, path) if shape is None else shape.type
    raise SchemaMismatchError(
        f"column {path!r} is of the Arrow type {data_type}, which Delta does not have; "
        "cast the column to another type"
    )


def storage_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the values behind a dictionary, run-end encoded or extension type."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return storage_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return storage_type(data_type.storage_type)
    return data_type


def is_variant_field(field: pa.Field[Any]) -> bool:
    """Whether an Arrow field is marked as holding variants."""
    name = (field.metadata or {}).get(_EXTENSION, b"")
    return name.decode(errors="replace") in _VARIANT_EXTENSIONS or _is_variant_extension(field.type)


def _is_variant_extension(data_type: pa.DataType) -> bool:
    return (
        isinstance(data_type, pa.BaseExtensionType)
        and data_type.extension_name in _VARIANT_EXTENSIONS
    )


def _from_field(field: pa.Field[Any], path: str) -> t.DataType:
    if is_variant_field(field):
        return t.VARIANT
    shape = marked_shape(field, path)
    return from_arrow_type(field.type, path) if shape is None else shape.type


def is_list(data_type: pa.DataType) -> bool:
    """Whether a type is a list in any of Arrow's layouts."""
    return (
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
        or pa.types.is_list_view(data_type)
        or pa.types.is_large_list_view(data_type)
    )


def _decimal(data_type: Any, path: str) -> t.DecimalType:
    # Arrow allows scales below zero and above the precision; Delta needs 0 <= scale <= precision.
    scale = max(data_type.scale, 0)
    precision = max(data_type.precision + max(-data_type.scale, 0), scale)
    if precision > _MAX_DECIMAL:
        raise SchemaMismatchError(
            f"column {path!r} is of the Arrow type {data_type}, but Delta's decimals have at most "
            f"{_MAX_DECIMAL} digits; cast the column to another type"
        )
    return t.DecimalType(precision, scale)
