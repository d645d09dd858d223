"""The live files as the table that `DeltaTable.get_add_actions` gives."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.deltalake._arrow import arrow_type
from adelta.deltalake._filters import typed as typed_text
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import PHYSICAL_NAME_KEY
from adelta.kernel.statistics import stats_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adelta.kernel.table_properties import TableProperties

__all__ = ["add_actions", "partition_values", "physical_name"]

_EXACT = Context(prec=100)
_FIXED: tuple[pa.Field[Any], ...] = (
    pa.field("path", pa.string(), nullable=False),
    pa.field("size_bytes", pa.int64(), nullable=False),
    pa.field("modification_time", pa.int64(), nullable=False),
    pa.field("num_records", pa.int64()),
)


def physical_name(field: t.StructField) -> str:
    """The name by which the log knows a column."""
    return str(field.metadata.get(PHYSICAL_NAME_KEY, field.name))


def partition_values(
    values: Mapping[str, str | None], fields: Sequence[t.StructField]
) -> dict[str, Any]:
    """The values of the partition columns, by their names, from the texts of the log."""
    found: dict[str, Any] = {}
    for field in fields:
        text = values.get(physical_name(field))
        found[field.name] = None if text in (None, "") else typed_text(str(text), field.type)
    return found


def add_actions(
    files: pa.Table,
    schema: t.StructType,
    partition_columns: Sequence[str],
    properties: TableProperties,
    *,
    flatten: bool,
) -> pa.Table:
    """One row a file of `files`, which is what `Snapshot.files` gives."""
    known = [schema.field(name) for name in partition_columns]
    partitions = [field for field in known if field is not None]
    leaves = stats_leaves(schema, properties, partition_columns)
    others = _of_leaves(schema, leaves) if leaves else t.StructType(())
    # Parsing numbers as doubles would round decimals.
    stats = [
        json.loads(text, parse_float=Decimal) if text else {}
        for text in files.column("stats").to_pylist()
    ]
    arrays: list[Any] = [
        files.column("path").cast(pa.string()),
        files.column("size"),
        files.column("modification_time"),
        pa.array([one.get("numRecords") for one in stats], pa.int64()),
    ]
    fields = list(_FIXED)
    for name, key, of_type in (
        ("null_count", "nullCount", _count_type),
        ("min", "minValues", _bound_type),
        ("max", "maxValues", _bound_type),
    ):
        kind = of_type(others)
        if kind is not None:
            rows = [_values(one.get(key) or {}, others, of_type, up=name == "max") for one in stats]
            fields.append(pa.field(name, kind))
            arrays.append(pa.array(rows, kind))
    if partitions:
        kind = pa.struct([pa.field(each.name, arrow_type(each.type)) for each in partitions])
        texts = (dict(each or ()) for each in files.column("partition_values").to_pylist())
        rows = [partition_values(each, partitions) for each in texts]
        fields.append(pa.field("partition", kind))
        arrays.append(pa.array(rows, kind))
    found = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return _flattened(found) if flatten else found


def _of_leaves(schema: t.StructType, leaves: Sequence[tuple[str, ...]]) -> t.StructType:
    """The schema with these leaves alone."""
    below: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in leaves:
        below.setdefault(name, []).append(tuple(rest))
    return t.StructType(
        tuple(
            replace(field, type=_of_leaves(field.type, below[field.name]))
            if isinstance(field.type, t.StructType)
            else field
            for field in schema
            if field.name in below
        )
    )


def _flattened(table: pa.Table) -> pa.Table:
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _count_type(kind: t.DataType) -> Any:
    if not isinstance(kind, t.StructType):
        return pa.int64()
    return _struct(kind, _count_type)


def _bound_type(kind: t.DataType) -> Any:
    """The type of a column's least and greatest values, None where it has none."""
    if isinstance(kind, t.StructType):
        return _struct(kind, _bound_type)
    if isinstance(kind, t.ArrayType | t.MapType) or kind in (t.BINARY, t.VARIANT, t.VOID):
        return None
    return arrow_type(kind)


def _struct(kind: t.StructType, typed: Callable[[t.DataType], Any]) -> Any:
    fields = [(field.name, typed(field.type)) for field in kind]
    found = [pa.field(name, arrow) for name, arrow in fields if arrow is not None]
    return pa.struct(found) if found else None


def _values(
    raw: Mapping[str, Any],
    kind: t.StructType,
    typed: Callable[[t.DataType], Any],
    *,
    up: bool,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in kind:
        arrow = typed(field.type)
        if arrow is None:
            continue
        value = raw.get(physical_name(field))
        if isinstance(field.type, t.StructType):
            inner = value if isinstance(value, dict) else {}
            found[field.name] = _values(inner, field.type, typed, up=up)
        elif isinstance(value, dict):
            found[field.name] = None
        else:
            found[field.name] = _value(value, arrow, up=up)
    return found


def _value(raw: Any, arrow: Any, *, up: bool) -> Any:
    """A value from the JSON of statistics as the type `arrow`; None if it is not a value of it.

    A value with too many digits is rounded: up with `up`, otherwise down.
    """
    if raw is None or pa.types.is_boolean(arrow):
        return raw if isinstance(raw, bool | None) else None
    try:
        if pa.types.is_decimal(arrow):
            return _decimal(Decimal(str(raw)), arrow, up=up)
        if pa.types.is_date(arrow):
            return date.fromisoformat(str(raw)[:10])
        if pa.types.is_timestamp(arrow):
            found = datetime.fromisoformat(str(raw))
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
            return found if arrow.tz else found.astimezone(UTC).replace(tzinfo=None)
        if pa.types.is_floating(arrow):
            return float(raw)
        if pa.types.is_integer(arrow):
            limit = 1 << (arrow.bit_width - 1)
            value = Decimal(raw)
            if not -limit <= value < limit:
                return None
            return int(value.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))
    except (ValueError, ArithmeticError):
        return None
    return raw if isinstance(raw, str) else None


def _decimal(value: Decimal, arrow: Any, *, up: bool) -> Decimal | None:
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    found = value.quantize(Decimal(1).scaleb(-arrow.scale), rounding, _EXACT)
    fits = not found or found.adjusted() < arrow.precision - arrow.scale
    return found if fits else None
