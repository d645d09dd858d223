"""Dates and times that become times of the other kind: by the clocks of a zone, at any depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.casts import instants_of, wall_clock
from adelta.kernel.expressions.text_values import UTC_NAMES
from adelta.kernel.schema.cast import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["times_in_zone"]

arrow: Any = pa  # types that are known at run time only


def times_in_zone(rows: pa.RecordBatch, target: pa.Schema, zone: str) -> pa.RecordBatch:
    """`rows` in which times name a zone, or none, where those of `target` do.

    Dates are the midnights that they begin with. Columns and fields of structs are matched by
    name; what is no time, or is one as it should be, stays.

    Raises:
        SchemaMismatchError: a time is finer than microseconds.
    """
    if zone in UTC_NAMES:  # as which all rows are taken else
        return rows
    named = _by_name(target)
    for place, field in enumerate(rows.schema):
        wanted = _wanted(field.type, named(field.name))
        if wanted != field.type:
            made = _in_zone(rows.column(place), field.with_type(wanted), zone)
            rows = rows.set_column(place, field.with_type(wanted), made)
    return rows


def _by_name(fields: Iterable[pa.Field[Any]]) -> Callable[[str], pa.DataType | None]:
    """The types of `fields` by name: as written, else ignoring case."""
    found = {field.name: field.type for field in fields}
    folded = {each.lower(): kind for each, kind in found.items()}
    return lambda name: found.get(name, folded.get(name.lower()))


def _wanted(have: pa.DataType, target: pa.DataType | None) -> Any:
    """The type `have` with the times of `target`."""
    source, to = arrow.field("x", have).type, arrow.field("x", target or have).type
    if pa.types.is_timestamp(to):
        if pa.types.is_date(have):
            return have if to.tz is None else to
        changes = pa.types.is_timestamp(have) and (source.tz is None) != (to.tz is None)
        return to if changes else have
    if pa.types.is_struct(have) and pa.types.is_struct(to):
        named = _by_name(to)
        return arrow.struct([f.with_type(_wanted(f.type, named(f.name))) for f in source])
    if pa.types.is_map(have) and pa.types.is_map(to):
        return arrow.map_(
            _part(source.key_field, to.key_type), _part(source.item_field, to.item_type)
        )
    if pa.types.is_list(have) and pa.types.is_list(to):
        return arrow.list_(_part(source.value_field, to.value_type))
    if pa.types.is_large_list(have) and pa.types.is_list(to):
        return arrow.large_list(_part(source.value_field, to.value_type))
    return have


def _part(field: Any, target: pa.DataType) -> Any:
    return field.with_type(_wanted(field.type, target))


def _in_zone(values: pa.Array[Any], field: pa.Field[Any], zone: str) -> pa.Array[Any]:
    def part(values: Any, field: Any) -> Any:
        if values.type == field.type:
            return values
        if not pa.types.is_timestamp(field.type):
            return None
        if field.type.tz is None:
            return wall_clock(values, zone)
        if pa.types.is_date(values.type):
            values = pc.cast(values, pa.timestamp("s"))
        try:
            return instants_of(pc.cast(values, pa.timestamp("us")), zone)
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"column {field.name!r} has times that Delta does not keep: {error}; round them to "
                "microseconds first"
            ) from error

    return rebuild(values, field, part)
