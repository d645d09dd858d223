"""ScanPlan: which files and columns a scan reads, as a plain value that can be pickled to a worker.

The plan is made from a snapshot; carrying it out is `adelta.read`'s.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.nodes import Node, columns_of
from adelta.kernel.schema.arrow import to_arrow_schema, to_arrow_type
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.kernel.schema.variant.text import with_text
from adelta.kernel.schema.widening import check_type_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adelta.kernel.schema.conform import ColumnMappingMode

__all__ = [
    "ROW_COMMIT_VERSION",
    "ROW_ID",
    "ScanPlan",
    "plan_columns",
    "project",
]

ROW_ID = "_row_id"
"""The column of row ids that a scan adds on request."""

ROW_COMMIT_VERSION = "_row_commit_version"
"""The column beside it: the version that last wrote the row."""


@dataclass(frozen=True)
class ScanPlan:
    """What to read of every file, and what to make of it.

    `schema` is the whole table's, `output` the columns that the scan yields, in order, and `read`
    the ones that a file must give: `output`, and what `where` needs beside it. `row_ids` are the
    names of the hidden columns of files that hold row ids and row commit versions, where these are
    asked for; `row_id_names` are what they are called in what the scan yields. With
    `variants_as_json`, variants come out as JSON text. With `verifies`, the pages of files are held
    to their checksums, where they have any. With `keeps_dictionaries`, columns of texts that repeat
    may come as dictionaries of `adelta._dictionaries`; there is no predicate then.
    """

    schema: StructType
    output: StructType
    read: StructType
    partition_columns: tuple[str, ...]
    mapping_mode: ColumnMappingMode
    where: Node | None = None
    row_ids: tuple[str, str] | None = None
    row_id_names: tuple[str, str] = (ROW_ID, ROW_COMMIT_VERSION)
    variants_as_json: bool = False
    verifies: bool = False
    keeps_dictionaries: bool = False

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that the scan yields."""
        output = with_text(self.output) if self.variants_as_json else self.output
        assert isinstance(output, StructType)
        names = self.row_id_names if self.row_ids is not None else ()
        extra = (StructField(name, LONG) for name in names)
        return to_arrow_schema(StructType((*output.fields, *extra)))

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The Arrow schema of `output`."""
        return to_arrow_schema(self.output)

    @cached_property
    def read_schema(self) -> pa.Schema:
        """The Arrow schema of `read`."""
        return to_arrow_schema(self.read)

    @cached_property
    def reads_all_columns(self) -> bool:
        """Whether a file must give all of the table's columns that files hold."""
        read = {field.name for field in self.read.fields}
        stored = (f.name for f in self.schema.fields if f.name not in self.partition_columns)
        return read.issuperset(stored)

    @cached_property
    def deciding(self) -> ScanPlan:
        """The plan of nothing but which rows `where` keeps."""
        needed = {path[0] for path in columns_of(self.where)} if self.where is not None else set()
        read = StructType(tuple(f for f in self.read if f.name in needed))
        return replace(self, output=StructType(), read=read, row_ids=None)

    @cached_property
    def file_columns(self) -> tuple[StructField, ...]:
        """The columns to look for in a file."""
        folded = {name.lower() for name in self.partition_columns}
        return tuple(f for f in self.read if f.name.lower() not in folded)

    @cached_property
    def file_types(self) -> tuple[pa.DataType, ...]:
        """The Arrow types of `file_columns`."""
        return tuple(to_arrow_type(field.type) for field in self.file_columns)

    @cached_property
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
    row_ids: tuple[str, str] | None = None,
    row_id_names: tuple[str, str] = (ROW_ID, ROW_COMMIT_VERSION),
    variants_as_json: bool = False,
    verifies: bool = False,
) -> ScanPlan:
    """The plan of a scan that yields `columns` where `where` is true.

    Raises:
        SchemaMismatchError: there is no such column, or the row ids would hide one.
        InvalidExpressionError: the predicate does not fit the schema.
        UnsupportedFeatureError: some column of the table, read or not, had its type changed in a
            way that adelta does not know.
    """
    output = project(schema, columns)
    read = list(output)
    if where is not None:
        from adelta.kernel.expressions.resolve import bind_predicate

        where = bind_predicate(where, schema)
        names = {f.name for f in read}
        needed = {path[0] for path in columns_of(where)}
        read += [f for f in schema if f.name in needed - names]
    check_type_changes(schema)
    if row_ids is not None:
        taken = next(filter(None, (schema.field(name) for name in row_id_names)), None)
        if taken is not None:
            raise SchemaMismatchError(
                f"the table has a column {taken.name!r} of its own, which row ids would hide; "
                "rename it, or scan without row ids"
            )
    return ScanPlan(
        schema,
        output,
        StructType(tuple(read)),
        tuple(partition_columns),
        mapping_mode,
        where,
        row_ids,
        row_id_names,
        variants_as_json,
        verifies,
    )
