"""`stats_parsed` and `partitionValues_parsed`: what checkpoints say of files in typed columns.

They are made of what `add` says in text (PROTOCOL.md, "Checkpoint Schema"), with physical names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.data_skipping.statistic import Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.data_skipping.stats_schema import nest
from adelta.kernel.partition import lookup_partition_values, parse_partition_values
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import leaf_fields
from adelta.kernel.statistics import bounded_leaves, stats_leaves
from adelta.kernel.table_features import DELETION_VECTORS

if TYPE_CHECKING:
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["ParsedColumns"]

STATS = "stats_parsed"
PARTITION_VALUES = "partitionValues_parsed"


class ParsedColumns:
    """The typed columns for the files of one table."""

    def __init__(self, configuration: TableConfiguration) -> None:
        mode = configuration.column_mapping_mode
        data = configuration.physical_data_schema
        leaves = stats_leaves(
            configuration.schema, configuration.properties, configuration.partition_columns, mode
        )
        kinds = {path: field.type for path, field in leaf_fields(data)}
        bounded = bounded_leaves(data, leaves)
        paths: list[tuple[tuple[str, ...], t.DataType]] = [
            (("numRecords",), t.LONG),
            *((("minValues", *leaf), kinds[leaf]) for leaf in bounded),
            *((("maxValues", *leaf), kinds[leaf]) for leaf in bounded),
            *((("nullCount", *leaf), t.LONG) for leaf in leaves),
        ]
        if configuration.supports(DELETION_VECTORS):  # which make bounds wide; must not be lost
            paths.append((("tightBounds",), t.BOOLEAN))
        self._statistics = [Statistic(path, path, kind) for path, kind in paths]
        self._partitions = [
            (name, field.type)
            for name, field in zip(
                configuration.physical_partition_columns,
                configuration.partition_fields,
                strict=True,
            )
        ]

    @property
    def fields(self) -> list[pa.Field[Any]]:
        """The fields that `add` has beside its plain ones."""
        empty = pa.nulls(0, pa.string())
        stats = self.stats(empty)
        parsed: list[pa.Field[Any]] = [pa.field(STATS, stats.type)]
        if self._partitions:
            kinds = [(name, to_arrow_type(kind)) for name, kind in self._partitions]
            parsed.insert(0, pa.field(PARTITION_VALUES, pa.struct(kinds)))
        return parsed

    def of(self, files: pa.Table) -> dict[str, pa.Array[Any]]:
        """The columns for `files` of `ADD_SCHEMA`.

        Raises:
            InvalidTableError: a partition value is not of its column's type.
        """
        columns = {STATS: self.stats(files.column("stats"))}
        if self._partitions:
            columns[PARTITION_VALUES] = self._values(files.column("partition_values"))
        return columns

    def stats(self, texts: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
        """The statistics of files as typed values, of those of the `stats` of `add` actions."""
        rows = nest(parse_stats(texts, self._statistics))
        arrays: list[pa.Array[Any]] = list(rows.columns)
        return pa.StructArray.from_arrays(arrays, rows.schema.names)

    def _values(self, maps: pa.ChunkedArray[Any]) -> pa.Array[Any]:
        arrays = []
        for name, kind in self._partitions:
            texts = lookup_partition_values(maps, name)
            arrays.append(parse_partition_values(texts, kind, column=name))
        return pa.StructArray.from_arrays(arrays, [name for name, _ in self._partitions])
