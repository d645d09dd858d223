"""Rows out of JSON lines: what `adelta.console.json_values` makes of rows, read back.

Columns whose types are known are read as these, whatever form JSON lacks of them; the types of the
others are inferred from the first lines.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read_json_lines"]

Decode = Callable[[Any], Any]
_AT_ONCE = 16_384  # lines


def read_json_lines(lines: Iterable[bytes], types: pa.Schema) -> pa.RecordBatchReader:
    """The rows that objects on lines are; a column that an object lacks is null in its row.

    `types` are those of the columns that are known. All columns are on the first 16,384 lines.

    Raises:
        InvalidOptionError: a line is no object, or a value is not of its column's type; reading
            rows raises it, too.
    """
    objects = _objects(lines)
    first = list(islice(objects, _AT_ONCE))
    names = list(dict.fromkeys(name for each in first for name in each))
    known = {name: types.field(name) for name in names if name in types.names}
    inferred = [known.get(name) or pa.field(name, _inferred(name, first)) for name in names]
    schema = pa.schema(inferred)
    decoders = {field.name: _decoder(field.type) for field in schema}

    def batches() -> Iterator[pa.RecordBatch]:
        part = first
        while part:
            yield _batch(part, schema, decoders)
            part = list(islice(objects, _AT_ONCE))

    return pa.RecordBatchReader.from_batches(schema, batches())


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InvalidOptionError(f"line {number} is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise InvalidOptionError(f"line {number} is {line[:40]!r}; give one object a line")
        yield found


def _inferred(name: str, rows: list[dict[str, Any]]) -> pa.DataType:
    try:
        values: pa.Array[Any] = pa.array([row.get(name) for row in rows])
        found: pa.DataType = values.type
    except pa.ArrowException as error:
        raise InvalidOptionError(f"the column {name!r} has no type in common: {error}") from error
    return found


def _batch(
    rows: list[dict[str, Any]], schema: pa.Schema, decoders: dict[str, Decode]
) -> pa.RecordBatch:
    for row in rows:
        if more := row.keys() - decoders.keys():
            raise InvalidOptionError(
                f"the column {min(more)!r} comes after the first {_AT_ONCE:,} lines alone; name it "
                "on one of these, with null"
            )
    columns = [_column(field, decoders[field.name], rows) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(field: pa.Field[Any], decode: Decode, rows: list[dict[str, Any]]) -> pa.Array[Any]:
    try:
        values = [None if (v := row.get(field.name)) is None else decode(v) for row in rows]
        made: pa.Array[Any] = pa.array(values, field.type)
        return made
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise InvalidOptionError(
            f"the column {field.name!r} is {field.type}, and a value is none of these: {error!r}"
        ) from error


def _decoder(kind: pa.DataType) -> Decode:
    """How a value that is not null is read back."""
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(str(value))
    if pa.types.is_date(kind):
        return dt.date.fromisoformat
    if isinstance(kind, pa.TimestampType):
        return _moment if kind.tz is not None else dt.datetime.fromisoformat
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda text: base64.b64decode(text, validate=True)
    if isinstance(kind, pa.StructType):
        fields = {field.name: _decoder(field.type) for field in kind}
        return lambda value: {
            name: None if (found := value.get(name)) is None else decode(found)
            for name, decode in fields.items()
        }
    if isinstance(kind, pa.MapType):
        return _map(_decoder(kind.key_type), _decoder(kind.item_type))
    if isinstance(kind, pa.ListType):
        decode = _decoder(kind.value_type)
        return lambda value: [None if item is None else decode(item) for item in value]
    return lambda value: value


def _moment(text: str) -> dt.datetime:
    """A time; one that names no zone is in UTC."""
    moment = dt.datetime.fromisoformat(text)
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def _map(key: Decode, item: Decode) -> Decode:
    def entries(value: Any) -> list[tuple[Any, Any]]:
        pairs = (
            value.items() if isinstance(value, dict) else ((e["key"], e["value"]) for e in value)
        )
        return [(key(k), None if v is None else item(v)) for k, v in pairs]

    return entries
