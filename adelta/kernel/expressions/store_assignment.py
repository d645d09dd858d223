"""Values cast to the types of the columns that store them, at any depth.

Values that a statement computes are stored as Spark's ANSI store assignment stores them in a Delta
table: by the cast that Spark makes in ANSI mode. It rounds decimals half up, truncates fractions
that become integers, and fails if a value does not fit. Rows that a caller passes as data follow
stricter rules (`adelta.kernel.schema.cast`); only their dates and timestamps are converted here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta.errors import InvalidExpressionError, SchemaMismatchError
from adelta.kernel.expressions.casts import can_cast, cast_values
from adelta.kernel.expressions.text_values import UTC_NAMES
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import (
    from_arrow_type,
    is_list,
    is_variant_field,
    storage_type,
    to_arrow_type,
)
from adelta.kernel.schema.cast import decoded, rebuild
from adelta.kernel.schema.geospatial import is_shape_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["assign_rows", "assign_values", "times_in_zone"]

arrow: Any = pa  # types that are known at run time only

_IsCast: TypeAlias = "Callable[[pa.DataType, pa.DataType], bool]"
"""Whether values of the first type, which is not nested, are cast to the second type."""


def assign_rows(rows: pa.RecordBatch, target: pa.Schema, zone: str) -> pa.RecordBatch:
    """`rows` with their values cast to the types that the columns of `target` have. CPU-heavy.

    Strings without a time zone become timestamps in `zone`, and timestamps become dates, strings
    and timestamps without a time zone in `zone`. Columns and struct fields are matched by name.
    Values of types that Spark does not cast are returned unchanged.

    Raises:
        SchemaMismatchError: a value does not fit the type of its column.
    """
    return _cast_rows(rows, target, zone, _is_assigned)


def assign_values(values: pa.Array[Any], field: pa.Field[Any], zone: str) -> pa.Array[Any]:
    """`values` cast to the type of the column `field`, as `assign_rows` does. CPU-heavy.

    Raises:
        SchemaMismatchError: a value does not fit the type of the column.
    """
    wanted = _wanted(values.type, field, _is_assigned)
    return values if wanted == values.type else _cast(values, field.with_type(wanted), zone)


def times_in_zone(rows: pa.RecordBatch, target: pa.Schema, zone: str) -> pa.RecordBatch:
    """`rows` with timestamps converted, by `zone`, between those with and without a time zone.

    `target` decides which of the two each column and struct field gets; they are matched by name. A
    date becomes the timestamp of its midnight. All other values are returned unchanged.

    Raises:
        SchemaMismatchError: a timestamp has a unit finer than microseconds.
    """
    if zone in UTC_NAMES:  # Later steps convert timestamps in UTC by themselves.
        return rows
    return _cast_rows(rows, target, zone, _is_other_time)


def _cast_rows(
    rows: pa.RecordBatch, target: pa.Schema, zone: str, is_cast: _IsCast
) -> pa.RecordBatch:
    named = _by_name(target)
    for place, field in enumerate(rows.schema):
        wanted = _wanted(field.type, named(field.name), is_cast)
        if wanted != field.type:
            values = _cast(rows.column(place), field.with_type(wanted), zone)
            rows = rows.set_column(place, field.with_type(wanted), values)
    return rows


def _by_name(fields: Iterable[pa.Field[Any]]) -> Callable[[str], pa.Field[Any] | None]:
    """A lookup of `fields` by name: by the exact name first, then ignoring case."""
    exact = {field.name: field for field in fields}
    folded = {name.lower(): field for name, field in exact.items()}
    return lambda name: exact.get(name, folded.get(name.lower()))


def _wanted(have: Any, target: pa.Field[Any] | None, is_cast: _IsCast) -> Any:
    """The type `have`, with the types of `target` for the parts that are cast."""
    if target is None or is_variant_field(target) or is_shape_field(target):
        return have
    to: Any = target.type
    part = partial(_wanted_part, is_cast=is_cast)
    if pa.types.is_struct(have) and pa.types.is_struct(to):
        named = _by_name(to)
        return arrow.struct([f.with_type(_wanted(f.type, named(f.name), is_cast)) for f in have])
    if pa.types.is_map(have) and pa.types.is_map(to):
        return arrow.map_(part(have.key_field, to.key_field), part(have.item_field, to.item_field))
    if is_list(have) and pa.types.is_list(to):
        element = part(have.value_field, to.value_field)
        return have if element.type == have.value_type else arrow.list_(element)
    if pa.types.is_nested(have) or pa.types.is_nested(to):
        return have
    return to if is_cast(have, to) else have


def _wanted_part(field: Any, target: pa.Field[Any], is_cast: _IsCast) -> Any:
    return field.with_type(_wanted(field.type, target, is_cast))


def _is_other_time(have: pa.DataType, to: pa.DataType) -> bool:
    if not pa.types.is_timestamp(to):
        return False
    if pa.types.is_date(have):
        return to.tz is not None
    return pa.types.is_timestamp(have) and (have.tz is None) != (to.tz is None)


def _is_assigned(have: pa.DataType, to: pa.DataType) -> bool:
    if isinstance(storage_type(have), pa.BaseExtensionType) or pa.types.is_null(have):
        return False
    try:
        source, target = from_arrow_type(have), from_arrow_type(to)
    except SchemaMismatchError:  # Delta has no such type; a later check refuses it.
        return False
    return source != target and target != t.VOID and can_cast(source, target)


def _cast(values: pa.Array[Any], field: pa.Field[Any], zone: str) -> pa.Array[Any]:
    def part(values: Any, inner: Any) -> Any:
        if values.type == inner.type:
            return values
        if pa.types.is_nested(inner.type):
            return None
        source, target = from_arrow_type(values.type), from_arrow_type(inner.type)
        try:
            plain = decoded(values).cast(to_arrow_type(source))
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"column {field.name!r} has times that Delta does not keep: {error}; round them to "
                "microseconds first"
            ) from error
        try:
            return cast_values(plain, target, zone=zone)
        except InvalidExpressionError as error:
            raise SchemaMismatchError(
                f"column {field.name!r}: {error}",
                reason="cast_invalid" if source == t.STRING else "cast_overflow",
            ) from error

    return rebuild(values, field, part)
