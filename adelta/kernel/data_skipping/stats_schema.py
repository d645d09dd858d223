"""Which statistics a rewritten predicate reads, where the log has them, and in which types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from adelta.kernel.data_skipping.statistic import (
    MAX_VALUES,
    MIN_VALUES,
    NULL_COUNT,
    NUM_RECORDS,
    PARTITION_VALUES,
    Columns,
    Statistic,
)
from adelta.kernel.expressions.nodes import Node, columns_of
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import physical_name
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY

__all__ = ["nest", "partition_fields_of", "statistics_of"]

_KINDS = (NUM_RECORDS, MIN_VALUES, MAX_VALUES, NULL_COUNT)


def statistics_of(rewritten: Node, schema: t.StructType, mode: str) -> tuple[Statistic, ...]:
    """The statistics that a rewritten predicate reads; `mode` is the table's column mapping."""
    found = []
    for path in sorted(columns_of(rewritten)):
        if path[0] not in _KINDS:
            continue
        names, kind, widened = _locate(path[1:], schema, mode)
        source = (path[0], *names)
        if path[0] in (MIN_VALUES, MAX_VALUES):
            found.append(Statistic(path, source, kind, was_float=widened and kind == t.DOUBLE))
        else:
            found.append(Statistic(path, source, t.LONG))
    return tuple(found)


def partition_fields_of(rewritten: Node, schema: t.StructType) -> tuple[t.StructField, ...]:
    """The partition columns that a rewritten predicate reads."""
    names = sorted(path[1] for path in columns_of(rewritten) if path[0] == PARTITION_VALUES)
    return tuple(f for f in map(schema.field, names) if f is not None)


def _locate(
    path: tuple[str, ...], schema: t.StructType, mode: str
) -> tuple[tuple[str, ...], t.DataType, bool]:
    """The names in statistics, the type, and whether it has been widened."""
    here: t.DataType = schema
    names: list[str] = []
    widened = False
    for name in path:
        assert isinstance(here, t.StructType)  # the predicate is bound to this schema
        field = here.field(name)
        assert field is not None
        names.append(physical_name(field, mode))
        here = field.type
        widened = TYPE_CHANGES_KEY in field.metadata
    return tuple(names), here, widened


def nest(columns: Columns) -> pa.RecordBatch:
    """The columns at these paths as a batch of structs."""
    names, arrays = _branches(columns)
    return pa.RecordBatch.from_arrays(arrays, names)


def _branches(columns: Columns) -> tuple[list[str], list[pa.Array[Any]]]:
    names = list(dict.fromkeys(path[0] for path in columns))
    below = [{p[1:]: v for p, v in columns.items() if p[0] == name} for name in names]
    return names, [_tree(branch) for branch in below]


def _tree(columns: Columns) -> pa.Array[Any]:
    if () in columns:
        return columns[()]
    names, arrays = _branches(columns)
    return pa.StructArray.from_arrays(arrays, names)
