"""Data as deltalake takes it: what exports Arrow data, in types that Delta has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.deltalake._arrow import in_rust, metadata_of
from adelta.deltalake._sql import spark_sql
from adelta.deltalake.exceptions import DeltaError, SchemaMismatchError
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.expressions.nodes import Node

__all__ = ["GENERATED", "CastStream", "columns_of", "delta_schema", "fitted", "reader_of"]

GENERATED = b"delta.generationExpression"
"""The metadata key of the expression of a generated column."""
_METADATA_OF_SOURCE = (
    "PARQUET:",
    "delta.columnMapping.",
    "delta.identity.",
    "delta.typeChanges",
)
"""Prefixes of metadata keys that describe the source of the rows rather than the new table."""
_SMALL_FILE = 16 * 1024 * 1024
_FEW_ROWS = 1024
_SIGNED = {
    pa.uint8(): pa.int8(),
    pa.uint16(): pa.int16(),
    pa.uint32(): pa.int32(),
    pa.uint64(): pa.int64(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def reader_of(data: Any, *, one: bool = False) -> pa.RecordBatchReader:
    """The data as a stream; with `one` no sequence of batches is taken for data.

    Raises:
        ValueError: it exports no Arrow data, or an array that is no struct.
        IndexError: it is an empty sequence, which has no schema.
    """
    if isinstance(data, Sequence) and not one and not hasattr(data, "__arrow_c_stream__"):
        for batch in data:
            if not hasattr(batch, "__arrow_c_array__"):
                raise ValueError("Expected an object with dunder __arrow_c_array__")
        batches = [pa.record_batch(batch) for batch in data]
        return pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    if isinstance(data, pa.RecordBatchReader):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if not hasattr(data, "__arrow_c_array__"):
        raise ValueError("Expected object with __arrow_c_array__ or __arrow_c_stream__ method")
    array = pa.array(data) if not isinstance(data, pa.RecordBatch) else data
    if isinstance(array, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(array.schema, [array])
    if not pa.types.is_struct(array.type):
        raise ValueError(f"Unexpected data type {array.type}")
    batch = pa.RecordBatch.from_struct_array(array)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def delta_schema(schema: pa.Schema, existing: pa.Schema | None = None) -> pa.Schema:
    """The schema in types that Delta has; columns of nulls take the type that `existing` has.

    Unsigned numbers become signed ones of as many bits, times microseconds in UTC or in no zone.
    """
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_null(kind) and existing is not None and field.name in existing.names:
            kind = existing.field(field.name).type
        fields.append(field.with_type(_delta(kind)))
    return pa.schema(fields)


def _delta(kind: Any) -> Any:
    if kind in _SIGNED:
        return _SIGNED[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _delta(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_field(field) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(_field(kind.value_field))
    if hasattr(kind, "value_field"):
        return pa.list_(_field(kind.value_field))
    return kind


def _field(field: Any) -> Any:
    return field.with_type(_delta(field.type))


def columns_of(schema: pa.Schema) -> t.StructType:
    """The Delta columns of an Arrow schema, with the metadata of its fields at every depth.

    Raises:
        SchemaMismatchError: Delta has no such type. This is the class of `adelta.errors`.
    """
    kind = from_arrow_schema(schema)
    return t.StructType(tuple(map(_with_metadata, kind, schema)))


def _with_metadata(field: t.StructField, arrow: pa.Field[Any]) -> t.StructField:
    own = {
        key: value
        for key, value in metadata_of(arrow).items()
        if not key.startswith(_METADATA_OF_SOURCE)
    }
    return replace(field, type=_type_with_metadata(field.type, arrow.type), metadata=own)


def _type_with_metadata(kind: t.DataType, arrow: Any) -> t.DataType:
    if isinstance(kind, t.StructType) and pa.types.is_struct(arrow):
        return t.StructType(tuple(map(_with_metadata, kind, arrow)))
    if isinstance(kind, t.ArrayType):
        return replace(kind, element_type=_type_with_metadata(kind.element_type, arrow.value_type))
    if isinstance(kind, t.MapType):
        return replace(
            kind,
            key_type=_type_with_metadata(kind.key_type, arrow.key_type),
            value_type=_type_with_metadata(kind.value_type, arrow.item_type),
        )
    return kind


class CastStream:
    """A stream of Arrow data whose columns are cast to those of `schema`.

    `failure` is what was raised while it was read: whoever reads Arrow's streams hears of an error
    of Arrow's alone.
    """

    def __init__(self, reader: pa.RecordBatchReader, schema: pa.Schema) -> None:
        self._reader = reader
        self._most_rows: int | None = None
        self._condition: tuple[str, Node] | None = None
        self.schema = schema
        self.failure: Exception | None = None

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._reader:
                cast = _cast(batch, self.schema)
                self._check(cast)
                step = self._most_rows or max(1, cast.num_rows)
                for start in range(0, cast.num_rows, step):
                    yield cast.slice(start, step)
        except Exception as error:
            self.failure = error
            raise

    def _check(self, batch: pa.RecordBatch) -> None:
        if self._condition is None or batch.num_rows == 0:
            return
        text, node = self._condition
        wrong = batch.num_rows - (filter_mask(node, batch).true_count or 0)
        if wrong:
            raise DeltaError(
                f"Invalid data found: {wrong} rows failed validation check: {text}; leave them out"
            )

    def satisfying(self, predicate: str | None) -> CastStream:
        """The stream, which fails at a row for which the predicate in SQL is not true."""
        if predicate is not None:
            node = parse_expression(spark_sql(predicate))
            self._condition = predicate, bind_predicate(node, from_arrow_schema(self.schema))
        return self

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = self._reader
        checked = self._most_rows is not None or self._condition is not None
        if checked or not reader.schema.equals(self.schema):
            reader = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        exported: Any = reader
        return exported.__arrow_c_stream__(requested_schema)

    def for_files_of(self, size: int | None) -> CastStream:
        """The stream, in batches that are small enough to end files of about `size` bytes."""
        if size is not None and size < _SMALL_FILE:
            self._most_rows = _FEW_ROWS
        return self

    @contextmanager
    def told(self) -> Iterator[None]:
        """A block in which the stream is read, and what failed in it is raised as it was."""
        try:
            yield
        except Exception:
            if self.failure is None:
                raise
            failure = self.failure
        else:
            return
        raise failure


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:
            column = _cast_column(column, field)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast_column(column: Any, field: pa.Field[Any]) -> Any:
    """The column in another type; fractions are cut, as deltalake cuts them.

    Raises:
        SchemaMismatchError: values of its type are never such.
        DeltaError: a value does not fit.
    """
    if _is_binary(column.type) and not (_is_binary(field.type) or pa.types.is_string(field.type)):
        raise SchemaMismatchError(f"{_not_cast(field, column.type)}; cast it")
    try:
        if pa.types.is_integer(field.type) and _has_fractions(column.type):
            import pyarrow.compute as pc

            return pc.trunc(column).cast(field.type)
        if pa.types.is_integer(column.type) and pa.types.is_decimal(field.type):
            whole = pa.decimal128(19)  # the digits of any
            return column.cast(whole).cast(field.type)
        if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type):
            return column.cast(field.type, safe=column.type.unit != "ns")
        return _without_views(column).cast(field.type)
    except pa.ArrowNotImplementedError as error:
        raise SchemaMismatchError(f"{_not_cast(field, column.type)}; {error}") from error
    except pa.ArrowInvalid as error:
        raise DeltaError(f"Cast error: {_in_other_words(str(error), field)}") from error


def _in_other_words(message: str, field: pa.Field[Any]) -> str:
    """What deltalake says of a text that cannot be cast, and what Arrow says of anything."""
    found = re.search(r"Failed to parse string: ('.*') as a scalar", message, re.DOTALL)
    told = f"column {field.name!r}: {message}"
    if found is None:
        return told
    return f"Cannot cast string {found[1]} to value of {in_rust(field.type)} type: {told}"


def _is_binary(kind: Any) -> bool:
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view())


def _has_fractions(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _not_cast(field: pa.Field[Any], kind: Any) -> str:
    return f"Cannot cast field {field.name} from {in_rust(kind)} to {in_rust(field.type)}"


def _is_view(kind: Any) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _without_views(column: Any) -> Any:
    """The column without what Arrow casts wrongly, or not at all."""
    kind = column.type
    if _is_view(kind):
        return _of_view(column)
    if pa.types.is_dictionary(kind) and kind.value_type in _SIGNED:
        values = column.dictionary.cast(_SIGNED[kind.value_type])
        return pa.DictionaryArray.from_arrays(column.indices, values, safe=False)
    return column


def _of_view(column: Any) -> Any:
    """The lists of a list view one behind the other; pyarrow's own cast gives too few offsets."""
    import pyarrow.compute as pc

    counts = pc.fill_null(pc.list_value_length(column).cast(pa.int64()), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)])
    nulls = pc.is_null(column)
    return pa.LargeListArray.from_arrays(offsets, column.flatten(), mask=nulls)


def fitted(
    reader: pa.RecordBatchReader, existing: pa.Schema, schema_mode: str | None
) -> CastStream:
    """The stream with the table's columns in their types, and where schemas are merged others.

    Raises:
        SchemaMismatchError: the columns are others, and the schemas are not merged.
    """
    schema = delta_schema(reader.schema, existing)
    if schema_mode is None:
        computed = [
            name
            for name in existing.names
            if name not in schema.names and GENERATED in (existing.field(name).metadata or {})
        ]
        if len(schema) + len(computed) != len(existing):
            raise SchemaMismatchError(
                "Cannot cast schema, number of fields does not match: "
                f"{len(schema)} vs {len(existing)}; schema_mode='merge' takes in columns that the "
                "table lacks, and leaves out those that the data lacks"
            )
        for name in schema.names:
            if name not in existing.names:
                raise SchemaMismatchError(f"Field {name} not found in schema")
    for field in schema:
        if field.name in existing.names:
            _check_fits(field.type, existing.field(field.name), exact=schema_mode is None)
    fields = [
        existing.field(field.name).with_nullable(field.nullable)
        if field.name in existing.names and not pa.types.is_nested(field.type)
        else field
        for field in schema
    ]
    return CastStream(reader, pa.schema(fields))


def _check_fits(kind: Any, has: pa.Field[Any], *, exact: bool) -> None:
    """Refuse decimals with digits that the table's have not, and with `exact` structs of others.

    Raises:
        SchemaMismatchError: the values of a column, or of a field in it, are such.
    """
    if pa.types.is_decimal(kind) and pa.types.is_decimal(has.type):
        if kind.precision > has.type.precision or kind.scale > has.type.scale:
            raise SchemaMismatchError(f"{_not_cast(has, kind)}, which has fewer digits; cast it")
    elif pa.types.is_struct(kind) and pa.types.is_struct(has.type):
        own = {field.name: field for field in has.type}
        if exact and kind.num_fields != len(own):
            raise SchemaMismatchError(
                f"Cannot cast schema, number of fields does not match: {kind.num_fields} vs "
                f"{len(own)} in {has.name}; schema_mode='merge' takes in fields that the table "
                "lacks, and leaves out those that the data lacks"
            )
        for field in kind:
            if field.name in own:
                _check_fits(field.type, own[field.name], exact=exact)
            elif exact:
                raise SchemaMismatchError(f"Field {field.name} not found in schema of {has.name}")
    elif pa.types.is_map(kind) and pa.types.is_map(has.type):
        _check_fits(kind.item_type, has.type.item_field, exact=exact)
    elif hasattr(kind, "value_field") and hasattr(has.type, "value_field"):
        _check_fits(kind.value_type, has.type.value_field, exact=exact)
