"""ScanPlan: which files and columns a scan reads, as a plain value that can be pickled to a worker.

The plan is made from a snapshot; carrying it out is `adelta.scan`'s. `assemble` turns what was read
of a file into rows of the table: columns matched and converted, partition values attached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.nodes import Node, columns_of
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.partition import parse_partition_values
from adelta.kernel.schema.arrow import to_arrow_schema, to_arrow_type
from adelta.kernel.schema.conform import ColumnMappingMode, conform, find_field
from adelta.kernel.schema.names import physical_name
from adelta.kernel.schema.types import StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ScanPlan", "assemble", "file_column_indices", "plan_columns", "project"]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What to read of every file, and what to make of it.

    `schema` is the whole table's, `output` the columns that the scan yields, in order, and `read`
    the ones that a file must give: `output`, and what `where` needs beside it.
    """

    schema: StructType
    output: StructType
    read: StructType
    partition_columns: tuple[str, ...]
    mapping_mode: ColumnMappingMode
    where: Node | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that the scan yields."""
        return to_arrow_schema(self.output)

    @property
    def file_columns(self) -> tuple[StructField, ...]:
        """The columns to look for in a file."""
        folded = {name.lower() for name in self.partition_columns}
        return tuple(f for f in self.read if f.name.lower() not in folded)

    @property
    def partition_fields(self) -> tuple[StructField, ...]:
        """The partition columns among `read`."""
        folded = {name.lower() for name in self.partition_columns}
        return tuple(f for f in self.read if f.name.lower() in folded)


def project(schema: StructType, columns: Sequence[str] | None) -> StructType:
    """The named columns of `schema`, in the order named; all of them for None.

    Raises:
        SchemaMismatchError: there is no such column.
    """
    if columns is None:
        return schema
    chosen = []
    for name in columns:
        field = schema.field(name)
        if field is None:
            raise SchemaMismatchError(
                f"the table has no column {name!r}; it has {', '.join(schema.names)}"
            )
        chosen.append(field)
    return StructType(tuple(chosen))


def plan_columns(
    schema: StructType,
    *,
    columns: Sequence[str] | None,
    where: Node | None,
    partition_columns: Sequence[str],
    mapping_mode: ColumnMappingMode,
) -> ScanPlan:
    """The plan of a scan that yields `columns` where `where` is true.

    Raises:
        SchemaMismatchError: there is no such column.
        InvalidExpressionError: the predicate does not fit the schema.
    """
    output = project(schema, columns)
    read = list(output)
    if where is not None:
        where = bind_predicate(where, schema)
        names = {f.name for f in read}
        needed = {path[0] for path in columns_of(where)}
        read += [f for f in schema if f.name in needed - names]
    return ScanPlan(
        schema, output, StructType(tuple(read)), tuple(partition_columns), mapping_mode, where
    )


def file_column_indices(
    plan: ScanPlan, file_schema: pa.Schema
) -> list[tuple[StructField, int | None]]:
    """For every column to look for, which of the file's columns holds it; None where none does."""
    fields = list(file_schema)
    return [(f, find_field(fields, f, plan.mapping_mode)) for f in plan.file_columns]


def assemble(
    plan: ScanPlan,
    table: pa.Table,
    partition_values: Mapping[str, str | None],
    source: str,
) -> pa.Table:
    """The rows that `plan` yields of what was read of one file.

    Raises:
        SchemaMismatchError: a column of the file cannot be converted; the message names `source`.
        InvalidTableError: a partition value cannot be parsed.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for field, index in file_column_indices(plan, table.schema):
        kind = to_arrow_type(field.type)
        if index is None:
            columns[field.name] = pa.chunked_array([pa.nulls(table.num_rows, kind)])
            continue
        try:
            chunks = [
                conform(chunk, field.type, plan.mapping_mode, field.name)
                for chunk in table.column(index).chunks
            ]
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"{source}: {error}") from error
        columns[field.name] = pa.chunked_array(chunks, kind)
    for field in plan.partition_fields:
        text = partition_values.get(physical_name(field, plan.mapping_mode))
        value = parse_partition_values(pa.array([text], pa.string()), field.type)
        columns[field.name] = pa.chunked_array([pa.repeat(value[0], table.num_rows)], value.type)
    if not plan.read.fields:
        return table.select([])
    rows = pa.table([columns[f.name] for f in plan.read], schema=to_arrow_schema(plan.read))
    if plan.where is not None:
        rows = rows.filter(filter_mask(plan.where, rows))
    return rows.select(list(plan.output.names)) if plan.output.fields else rows.select([])
