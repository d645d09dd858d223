"""What was read of a file → rows of the table.

Columns are matched and converted, partition values and row ids attached, rows filtered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._dictionaries import TEXTS, with_dictionaries
from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.partition import lookup_partition_value, parse_partition_values
from adelta.kernel.scan_plan.row_ids import attached
from adelta.kernel.schema.conform import conform, conforms, find_fields
from adelta.kernel.schema.names import physical_name
from adelta.kernel.schema.variant.text import variants_as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.scan_plan.plan import ScanPlan
    from adelta.kernel.schema.types import StructField

__all__ = ["assemble", "file_column_indices", "matches"]

arrow: Any = pa  # the stubs do not know types chosen at run time


def file_column_indices(
    plan: ScanPlan, file_schema: pa.Schema
) -> list[tuple[StructField, int | None]]:
    """For every column to look for, which of the file's columns holds it; None where none does."""
    wanted = plan.file_columns
    found = find_fields(list(file_schema), wanted, plan.mapping_mode)
    return list(zip(wanted, found, strict=True))


def assemble(
    plan: ScanPlan,
    table: pa.Table,
    partition_values: Mapping[str, str | None],
    source: str,
) -> pa.Table:
    """The rows that `plan` yields of what was read of one file.

    Row ids have to be attached to `table` where the plan has them.

    Raises:
        SchemaMismatchError: a column of the file cannot be converted; the message names `source`.
        InvalidTableError: a partition value cannot be parsed.
    """
    columns = _columns(plan, table, partition_values, source)
    names = list(plan.output.names)
    rows, mask = None, None
    if plan.where is not None:
        read = _read(plan, table, columns)
        mask = _mask(plan.where, read)
        rows = read.select(names) if plan.read.fields else None
    if rows is None:
        rows = table.select([])
        if names:
            found = [columns[n] for n in names]
            numbered = (at for at, column in enumerate(found) if column.type.equals(TEXTS))
            rows = pa.table(found, schema=with_dictionaries(plan.output_schema, numbered))
    if plan.row_ids is not None:
        ids = zip(plan.row_id_names, attached(table), strict=True)
        for name, values in ids:
            rows = rows.append_column(pa.field(name, pa.int64()), values)
    if mask is not None:
        rows = _kept(rows, mask)
    return _with_text(plan, rows) if plan.variants_as_json else rows


def matches(
    plan: ScanPlan, table: pa.Table, partition_values: Mapping[str, str | None], source: str
) -> pa.BooleanArray:
    """For which rows of what was read of one file the plan's predicate is true.

    Raises: as `assemble` does.
    """
    assert plan.where is not None
    columns = _columns(plan, table, partition_values, source)
    return _mask(plan.where, _read(plan, table, columns))


def _mask(where: Node, rows: pa.Table) -> pa.BooleanArray:
    from adelta.kernel.expressions.compute import filter_mask

    return filter_mask(where, rows)


def _read(plan: ScanPlan, table: pa.Table, columns: Mapping[str, pa.ChunkedArray[Any]]) -> pa.Table:
    """The plan's columns; where it reads none, the rows of `table` without a column."""
    if not plan.read.fields:
        return table.select([])
    return pa.table([columns[f.name] for f in plan.read], schema=plan.read_schema)


def _columns(
    plan: ScanPlan, table: pa.Table, partition_values: Mapping[str, str | None], source: str
) -> dict[str, pa.ChunkedArray[Any]]:
    columns: dict[str, pa.ChunkedArray[Any]] = {}
    found = file_column_indices(plan, table.schema)
    for (field, index), kind in zip(found, plan.file_types, strict=True):
        if index is None:
            columns[field.name] = pa.chunked_array([arrow.nulls(table.num_rows, kind)])
            continue
        column = table.column(index)
        kept = plan.keeps_dictionaries and column.type.equals(TEXTS) and kind.equals(pa.string())
        if kept or conforms(column.type, kind, plan.mapping_mode):
            columns[field.name] = column
            continue
        try:
            chunks = [
                conform(chunk, field.type, plan.mapping_mode, field.name) for chunk in column.chunks
            ]
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"{source}: {error}") from error
        columns[field.name] = arrow.chunked_array(chunks, kind)
    for field in plan.partition_fields:
        name = physical_name(field, plan.mapping_mode)
        try:
            texts = array_of([lookup_partition_value(partition_values, name)], pa.string())
            value = parse_partition_values(texts, field.type, column=field.name)
        except InvalidTableError as error:
            raise InvalidTableError(f"{source}: {error}") from error
        columns[field.name] = pa.chunked_array([pa.repeat(value[0], table.num_rows)], value.type)
    return columns


def _kept(rows: pa.Table, mask: Any) -> pa.Table:
    if rows.num_columns:
        kept: pa.Table = pc.filter(rows, mask)
        return kept
    return pa.table({"": arrow.nulls(mask.true_count)}).select([])


def _with_text(plan: ScanPlan, rows: pa.Table) -> pa.Table:
    schema = plan.arrow_schema
    for index, field in enumerate(plan.output):
        kind = schema.field(index).type
        if rows.schema.field(index).type.equals(kind):
            continue
        chunks = [variants_as_text(c, field.type, kind) for c in rows.column(index).chunks]
        rows = rows.set_column(index, schema.field(index), pa.chunked_array(chunks, kind))
    return rows
