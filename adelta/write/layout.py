"""DataFileLayout: what a WriteSpec means for a file: columns, statistics, Parquet options, name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from adelta._chance import new_uuid
from adelta._dataclasses import dataclass
from adelta._dictionaries import TEXTS, with_dictionaries
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.partition import partition_directory
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.cast import relabel
from adelta.kernel.schema.json import schema_from_string
from adelta.kernel.schema.names import FIELD_ID_KEY, as_nullable, contains_type, physical_schema
from adelta.kernel.statistics import bounded_leaves, stats_json, stats_leaves
from adelta.kernel.table_features import CHANGE_DATA_DIRECTORY, CHANGE_TYPE
from adelta.kernel.table_properties import TableProperties
from adelta.parquet.footer.columns import ColumnTree
from adelta.parquet.write.options import WriterOptions
from adelta.write.identity_values import IdentityValues
from adelta.write.row_rules import RowRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adelta.parquet.footer.columns import ColumnName, ColumnNode
    from adelta.parquet.write.statistics import FileStatistics
    from adelta.write.spec import WriteSpec

__all__ = ["DataFileLayout"]

_SUFFIXES: Final = {
    "uncompressed": ".parquet",
    "snappy": ".snappy.parquet",
    "gzip": ".gz.parquet",
    "lz4": ".lz4.parquet",
    "lz4_raw": ".lz4raw.parquet",
    "zstd": ".zstd.parquet",
    "brotli": ".br.parquet",
    "none": ".parquet",
}
_ROW_LINEAGE_IDS: Final = (2147483540, 2147483539)
"""The field ids that Iceberg reserves for row ids and the versions of last changes (B12-10)."""
_ROW_LINEAGE_FROM: Final = 3  # version of IcebergCompat


@dataclass(frozen=True, slots=True)
class DataFileLayout:
    """How the rows of a table become files.

    `table_schema` has all columns under their logical names, `physical_schema` the same under the
    names that files use. `file_schema` has those that data files hold. Void columns, which have no
    values, are left out, and so are partition columns, whose values are in the log, unless the
    table `keeps_partition_columns`, behind the others. `hidden` columns, which are none of the
    table's, come last. Without `rules`, rows are taken as they are. Files lie
    below `directory`, and their names begin with `prefix`. `task` is the spec's.
    """

    table_schema: pa.Schema
    physical_schema: pa.Schema
    file_schema: pa.Schema
    partition_columns: tuple[tuple[str, t.DataType], ...]
    statistics_leaves: tuple[tuple[str, ...], ...]
    bounded_leaves: tuple[tuple[str, ...], ...] | None
    options: WriterOptions
    suffix: str
    string_prefix_length: int
    rules: RowRules | None
    hidden: pa.Schema
    directory: str = ""
    prefix: str = "part"
    keeps_partition_columns: bool = False
    task: int | None = None

    @classmethod
    def of(cls, spec: WriteSpec) -> DataFileLayout:
        """The layout of files written by `spec`.

        Raises:
            SchemaMismatchError: files of such a table could hold no column.
            InvalidPropertyError: a property that says how to write has a bad value.
            InvalidExpressionError: an expression of the table is not one that adelta evaluates.
            InvalidTableError: the metadata of a column that holds an expression is damaged.
        """
        schema = schema_from_string(spec.schema_string)
        physical = as_nullable(physical_schema(schema, spec.column_mapping_mode))
        properties = TableProperties.parse(dict(spec.properties))
        places = [_place(schema, name) for name in spec.partition_columns]
        partitions = tuple((physical.fields[i].name, physical.fields[i].type) for i in places)
        stored = t.StructType(
            tuple(f for i, f in enumerate(physical) if i not in places and f.type != t.VOID)
        )
        if not stored.fields:
            raise SchemaMismatchError(
                "every column of the table is a partition column or has no type (`void`, as "
                "columns of nulls alone have), so that its data files would hold none; add a "
                "column, or cast one to a type, first"
            )
        for field in stored:
            if _repeats_void(field.type):
                raise SchemaMismatchError(
                    f"column {field.name!r} has arrays or maps of what has no type (`void`), which "
                    "data files cannot hold; cast it to a type first"
                )
        hidden, changes = _hidden(spec), spec.content == "changes"
        leaves = (
            ()
            if changes
            else stats_leaves(schema, properties, spec.partition_columns, spec.column_mapping_mode)
        )
        table_schema = to_arrow_schema(schema)
        kept = [physical.fields[i] for i in places] if spec.partition_columns_in_files else []
        file_schema = to_arrow_schema(t.StructType((*stored.fields, *kept, *hidden)))
        options = _writer_options(spec, properties)
        if options.names_columns:
            options = options.renamed(_FileNames(table_schema, physical, file_schema))
        options.arrow_arguments(file_schema)  # refuses what does not fit before rows are taken in
        return cls(
            table_schema=table_schema,
            physical_schema=to_arrow_schema(physical),
            file_schema=file_schema,
            partition_columns=partitions,
            statistics_leaves=leaves,
            bounded_leaves=bounded_leaves(stored, leaves),
            options=options,
            suffix=_SUFFIXES[(options.compression or "none").lower()],
            string_prefix_length=properties.data_skipping_string_prefix_length,
            rules=_rules(spec, schema) if spec.content == "rows" else None,
            hidden=to_arrow_schema(t.StructType(hidden)),
            directory=CHANGE_DATA_DIRECTORY if changes else "",
            prefix="cdc" if changes else "part",
            keeps_partition_columns=bool(kept),
            task=spec.task,
        )

    def identity_values(self) -> IdentityValues:
        """What numbers the rows that one writer takes in; copied rows have their numbers."""
        schema = t.StructType() if self.rules is None else self.rules.schema
        return IdentityValues(schema, task=self.task)

    def path_of(self, values: Sequence[str | None], number: int) -> str:
        """A path that no other file has, for a writer's file of this number.

        `values` are those of the partition columns, in their order.
        """
        names = [name for name, _ in self.partition_columns]
        directory = partition_directory(zip(names, values, strict=True))
        name = f"{self.prefix}-{number:05d}-{new_uuid()}.c000{self.suffix}"
        return "/".join(filter(None, (self.directory, directory, name)))

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with the table's columns but the void ones, in its types, under physical names.

        Texts of rows that are copied may stay dictionaries.

        Raises:
            SchemaMismatchError: a column is not the table's, or holds what it cannot hold.
            InvariantViolationError: a column that must not be null holds a null, or a row does not
                satisfy a constraint.
            InvalidExpressionError: a value of a constraint or a computed column cannot be computed.
        """
        complete = self.complete(batch)
        numbered = (at for at, f in enumerate(complete.schema) if f.type.equals(TEXTS))
        rows = relabel(complete, with_dictionaries(self.physical_schema, numbered))
        kept = {*self.file_schema.names, *(name for name, _ in self.partition_columns)}
        rows = rows.select([name for name in rows.schema.names if name in kept])
        for field in self.hidden:
            rows = rows.append_column(field, batch.column(field.name))
        return rows

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with all of the table's columns, under their logical names, held to the rules.

        Raises: as `conform` does.
        """
        if self.rules is not None:
            return self.rules.apply(batch, self.table_schema)
        return batch.select(self.table_schema.names)

    def stats_json(self, statistics: FileStatistics) -> str:
        """The `stats` of a file's `add`."""
        return stats_json(statistics, self.string_prefix_length)


def _rules(spec: WriteSpec, schema: t.StructType) -> RowRules:
    return RowRules.of(
        schema,
        dict(spec.properties),
        generates=spec.generates,
        has_defaults=spec.has_defaults,
        where=spec.where,
        zone=spec.zone,
        now=spec.now,
        partition_by=spec.partition_columns,
        assigns=spec.assigns,
    )


def _hidden(spec: WriteSpec) -> tuple[t.StructField, ...]:
    if spec.content == "changes":
        return (t.StructField(CHANGE_TYPE, t.STRING),)
    names = spec.row_id_columns or ()
    if spec.iceberg_compat < _ROW_LINEAGE_FROM:
        return tuple(t.StructField(name, t.LONG) for name in names)
    return tuple(
        t.StructField(name, t.LONG, metadata={FIELD_ID_KEY: field_id})
        for name, field_id in zip(names, _ROW_LINEAGE_IDS, strict=False)
    )


def _writer_options(spec: WriteSpec, properties: TableProperties) -> WriterOptions:
    """The writer's own options, and the table's properties where these leave a choice."""
    given = spec.writer_options
    codec = spec.compression or properties.parquet_compression_codec
    if given is None:
        return WriterOptions(
            compression=codec,
            row_group_bytes=min(spec.row_group_bytes, spec.target_file_size),
            data_page_version="1.0" if properties.parquet_format_version == "1.0.0" else "2.0",
        )
    if given.compression is None or spec.compression is not None:
        return replace(given, compression=codec)
    return given


class _FileNames:
    """From the names that users give columns to those that data files have."""

    def __init__(self, table: pa.Schema, physical: t.StructType, file: pa.Schema) -> None:
        self._logical = ColumnTree(table)
        self._physical = ColumnTree(to_arrow_schema(physical))
        self._stored = frozenset(file.names)

    def __call__(self, name: ColumnName) -> ColumnName:
        chain = self._logical.find(name)
        if not chain:
            raise InvalidOptionError(
                f"writer_options names the column {name!r}, and the table has none of that name"
            )
        found: list[ColumnNode] = []
        logical, physical = self._logical.columns, self._physical.columns
        for node in chain:
            found.append(physical[logical.index(node)])
            logical, physical = node.children, found[-1].children
        if found[0].name not in self._stored:
            raise InvalidOptionError(
                f"writer_options names the column {name!r}, which data files do not hold: "
                "partition columns are in the log"
            )
        return tuple(node.name for node in found)


def _repeats_void(data_type: t.DataType) -> bool:
    match data_type:
        case t.StructType():
            return any(_repeats_void(field.type) for field in data_type)
        case t.ArrayType(element):
            return contains_type(element, t.VOID)
        case t.MapType(key, value):
            return contains_type(key, t.VOID) or contains_type(value, t.VOID)
    return False


def _place(schema: t.StructType, name: str) -> int:
    field = schema.field(name)
    if field is None:
        raise SchemaMismatchError(
            f"the table is partitioned by {name!r}, which is not among its columns"
        )
    return schema.fields.index(field)
