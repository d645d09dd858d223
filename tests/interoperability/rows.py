"""Rows of any engine, so that they can be compared with adelta's."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

__all__ = ["counted"]

kinds: Any = pa.types


def counted(rows: pa.Table, schema: pa.Schema) -> Counter[str]:
    """How often each row is there, its values written as those of `schema`.

    Engines give columns an order and layouts of their own, and some have no binary values.
    """
    assert sorted(rows.column_names) == sorted(schema.names), rows.column_names
    columns = [_in_microseconds(rows.column(name)).to_pylist() for name in schema.names]
    types = [field.type for field in schema]
    return Counter(
        repr([_plain(value, kind) for value, kind in zip(row, types, strict=True)])
        for row in zip(*columns, strict=True)
    )


def _in_microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind: Any = column.type
    if kinds.is_timestamp(kind) and kind.unit != "us":
        return column.cast(pa.timestamp("us", kind.tz))
    return column


def _plain(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if kinds.is_struct(kind):
        return {field.name: _plain(value.get(field.name), field.type) for field in kind}
    if kinds.is_map(kind):
        return [(_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in value]
    if kinds.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if kinds.is_string(kind) and isinstance(value, bytes):
        return value.decode()
    if kinds.is_binary(kind) and isinstance(value, str):
        return value.encode()
    if kinds.is_timestamp(kind) and isinstance(value, datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
        return zoned.astimezone(UTC).isoformat()
    return value
