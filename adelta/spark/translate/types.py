"""Spark's types ⇄ Delta's, and the exact Arrow schema that Spark exchanges.

Delta's schema string *is* the JSON of a Spark schema, so both directions go through it. What
differs is field metadata: keys under ``delta.`` configure the table and mean nothing to a
DataFrame, and Spark's own bookkeeping means nothing to a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import IllegalArgumentException
from pyspark.sql import types as s

from adelta.errors import InvalidTableError, SchemaMismatchError, UnsupportedFeatureError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.char_types import CHAR_TYPE, with_plain_texts
from adelta.kernel.schema.geospatial import shape_of
from adelta.kernel.schema.json import data_type_from_json, type_to_json
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "SAME_IN_PARQUET",
    "arrow_schema",
    "conform",
    "fits",
    "to_declared_schema",
    "to_delta_schema",
    "to_spark_schema",
]

SAME_IN_PARQUET = (
    t.BINARY, t.BOOLEAN, t.BYTE, t.DATE, t.DOUBLE, t.FLOAT, t.INTEGER, t.LONG, t.SHORT, t.STRING,
    t.TIMESTAMP, t.TIMESTAMP_NTZ,
)  # fmt: skip
"""Delta's types that Spark's own Parquet reads and writes as adelta does; so it does decimals."""

_COLLATIONS = "__COLLATIONS"
_EXISTS_DEFAULT = "EXISTS_DEFAULT"  # which Spark would serve for rows from before the column
_PLAIN = (
    s.BinaryType,
    s.BooleanType,
    s.ByteType,
    s.CharType,
    s.DateType,
    s.DecimalType,
    s.DoubleType,
    s.FloatType,
    s.IntegerType,
    s.LongType,
    s.ShortType,
    s.TimestampNTZType,
    s.TimestampType,
    s.VarcharType,
    s.VariantType,
    *SPARK.geospatial_types(),
)


def to_delta_schema(schema: s.StructType) -> t.StructType:
    """The Delta schema of a table that holds rows of a Spark schema.

    Nulls are allowed wherever there can be any: that the rows at hand have none says nothing of
    those to come. It is what delta-spark does.

    Raises:
        SchemaMismatchError: a column has a type that Delta does not have.
    """
    return _with_fields(_converted(schema), _of_table)


def to_declared_schema(schema: s.StructType) -> t.StructType:
    """The Delta schema of a table whose columns a user has declared, nulls and metadata included.

    Raises:
        SchemaMismatchError: a column has a type that Delta does not have.
    """
    return _with_fields(_converted(schema), _declared)


def check_columns(schema: s.StructType) -> None:
    """Refuse columns that tables do not hold.

    Raises:
        SchemaMismatchError: a column has a type that Delta does not have.
    """
    for field in schema.fields:
        _check(field.dataType, field.name)


def _converted(schema: s.StructType) -> t.StructType:
    check_columns(schema)
    try:
        converted = data_type_from_json(schema.jsonValue())
    except InvalidTableError as error:
        raise SchemaMismatchError(f"Spark's schema is no table schema: {error}") from error
    assert isinstance(converted, t.StructType)
    return t.StructType(tuple(map(with_plain_texts, converted)))


def to_spark_schema(schema: t.StructType) -> s.StructType:
    """The Spark schema of a DataFrame over a table with a Delta schema.

    Raises:
        UnsupportedFeatureError: a column holds shapes of a kind that Spark does not have.
    """
    raw: Any = type_to_json(_with_fields(schema, _of_frame))
    try:
        return s.StructType.fromJson(raw)
    except IllegalArgumentException as error:
        raise UnsupportedFeatureError(
            f"Spark has no type for one of the columns {', '.join(schema.names)}: "
            f"{str(error).strip()}; leave it out of the columns asked for"
        ) from error


def arrow_schema(schema: s.StructType) -> pa.Schema:
    """The Arrow schema that Spark demands, field for field, of batches with a Spark schema."""
    return SPARK.arrow_schema(schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows under `schema`, whose types differ from the batch's in nothing but labels.

    Labels are what Arrow calls the items of a list, time zones, metadata, and whether nulls are
    allowed. No value is touched or copied.

    Raises:
        SchemaMismatchError: a column is laid out in another way.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if len(batch.schema) != len(schema):
        raise SchemaMismatchError(f"{len(batch.schema)} columns came where {len(schema)} belong")
    for have, want in zip(batch.schema, schema, strict=True):
        if not _same_layout(have.type, want.type):
            raise SchemaMismatchError(
                f"column {want.name!r} came as {have.type} where {want.type} belongs"
            )
    return pa.record_batch(_Relabelled(batch, schema))


class _Relabelled:
    """A batch's buffers offered under another schema, by Arrow's exchange protocol."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, buffers = self._batch.__arrow_c_array__()  # type: ignore[no-untyped-call]  # pyarrow's
        return self._schema.__arrow_c_schema__(), buffers


def _same_layout(have: pa.DataType, want: pa.DataType) -> bool:
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(want):
        return have.unit == want.unit and (have.tz is None) == (want.tz is None)
    if have.id != want.id or have.num_fields != want.num_fields:
        return False
    if have.num_fields == 0:
        return have.equals(want)
    return all(_same_layout(have.field(i).type, want.field(i).type) for i in range(have.num_fields))


def _check(data_type: s.DataType, path: str, *, repeats: bool = False) -> None:
    """Refuse what tables do not hold, as a column does or as what `repeats` in one."""
    match data_type:
        case s.StructType():
            for field in data_type.fields:
                _check(field.dataType, f"{path}.{field.name}", repeats=repeats)
        case s.ArrayType():
            _check(data_type.elementType, f"{path}.element", repeats=True)
        case s.MapType():
            _check(data_type.keyType, f"{path}.key", repeats=True)
            _check(data_type.valueType, f"{path}.value", repeats=True)
        case s.UserDefinedType():
            _check(data_type.sqlType(), path, repeats=repeats)
        case s.NullType() if not repeats:
            pass  # rows have nulls there, and files have no such column
        case s.StringType() if data_type.jsonValue() != "string":
            raise SchemaMismatchError(
                f"column {path!r} is a {data_type.simpleString()}; Delta tables of adelta hold "
                "plain strings: cast it to string"
            )
        case s.StringType():
            pass
        case _ if not isinstance(data_type, _PLAIN):
            raise SchemaMismatchError(
                f"column {path!r} is of type {data_type.simpleString()}, which Delta tables do "
                "not have; cast it or leave it out"
            )


def _of_table(field: t.StructField) -> t.StructField:
    kept = {k: v for k, v in field.metadata.items() if not k.startswith(("__", "delta."))}
    return t.StructField(field.name, _nullable(field.type), True, kept)


def _declared(field: t.StructField) -> t.StructField:
    kept = {k: v for k, v in field.metadata.items() if k == CHAR_TYPE or not k.startswith("__")}
    return t.StructField(field.name, field.type, field.nullable, kept)


def _of_frame(field: t.StructField) -> t.StructField:
    hidden = ("delta.", _EXISTS_DEFAULT)
    kept = {k: v for k, v in field.metadata.items() if not k.startswith(hidden)}
    if isinstance(names := kept.get(_COLLATIONS), dict):  # Spark demands who provides each
        kept[_COLLATIONS] = {path: _with_provider(str(name)) for path, name in names.items()}
    return t.StructField(field.name, field.type, field.nullable, kept)


def _with_provider(collation: str) -> str:
    if "." in collation:
        return collation
    return f"{'spark' if collation.startswith('UTF8_') else 'icu'}.{collation}"


def _nullable(data_type: t.DataType) -> t.DataType:
    match data_type:
        case t.ArrayType(element, _):
            return t.ArrayType(_nullable(element))
        case t.MapType(key, value, _):
            return t.MapType(_nullable(key), _nullable(value))
    return data_type


def _with_fields(
    schema: t.StructType, change: Callable[[t.StructField], t.StructField]
) -> t.StructType:
    """The same schema with `change` applied to every field in it, the innermost first."""
    return t.StructType(
        tuple(
            change(t.StructField(f.name, _rebuilt(f.type, change), f.nullable, f.metadata))
            for f in schema
        )
    )


def _rebuilt(data_type: t.DataType, change: Callable[[t.StructField], t.StructField]) -> t.DataType:
    match data_type:
        case t.StructType():
            return _with_fields(data_type, change)
        case t.ArrayType(element, contains_null):
            return t.ArrayType(_rebuilt(element, change), contains_null)
        case t.MapType(key, value, contains_null):
            return t.MapType(_rebuilt(key, change), _rebuilt(value, change), contains_null)
    shape = shape_of(data_type)
    return data_type if shape is None else shape.type  # Spark reads one spelling of several


def fits(have: s.StructField, want: s.StructField) -> bool:
    """Whether values of `have` can pass for values of `want`: the same type, no more nulls."""
    return (want.nullable or not have.nullable) and _type_fits(have.dataType, want.dataType)


def _type_fits(have: s.DataType, want: s.DataType) -> bool:
    match have, want:
        case s.StructType(), s.StructType():
            return have.fieldNames() == want.fieldNames() and all(
                fits(h, w) for h, w in zip(have, want, strict=True)
            )
        case s.ArrayType(), s.ArrayType():
            return (want.containsNull or not have.containsNull) and _type_fits(
                have.elementType, want.elementType
            )
        case s.MapType(), s.MapType():
            return (
                (want.valueContainsNull or not have.valueContainsNull)
                and _type_fits(have.keyType, want.keyType)
                and _type_fits(have.valueType, want.valueType)
            )
    return have == want
