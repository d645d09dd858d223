"""Values of a stream as those of a table's types, where only a cast makes them that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.expressions.casts import cast_values
from adelta.kernel.expressions.coercion import INTEGERS, is_numeric
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from adelta.kernel.schema.types import DataType, StructType

__all__ = ["in_types_of"]

_TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_OF_TEXT = (t.BOOLEAN, *_TIMES)


def in_types_of(rows: pa.RecordBatch, schema: StructType, zone: str) -> pa.RecordBatch:
    """The rows, in which texts, fractions and times are what columns of `schema` hold. CPU-heavy.

    Texts become numbers, booleans, dates and times, which are of `zone` if they name none;
    fractions become whole numbers and decimals, and times their dates. Other values stay.

    Raises:
        InvalidExpressionError: a value is none of its column's type.
    """
    fields: list[pa.Field[Any]] = []
    columns: list[Any] = []
    for field, values in zip(rows.schema, rows.columns, strict=True):
        target = schema.field(field.name)
        if target is not None and _is_cast(field.type, target.type):
            cast: Any = cast_values(values, target.type, zone=zone)
            field, values = field.with_type(cast.type), cast
        fields.append(field)
        columns.append(values)
    if not columns:  # of rows that have none there are still so many
        return rows
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _is_cast(source: pa.DataType, target: DataType) -> bool:
    if pa.types.is_string(source):
        return is_numeric(target) or target in _OF_TEXT
    if pa.types.is_floating(source) or pa.types.is_decimal(source):
        return target in INTEGERS or isinstance(target, t.DecimalType)
    return pa.types.is_timestamp(source) and target == t.DATE
