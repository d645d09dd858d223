"""Where an object has its columns, as its footer says: a frozen value, which does no I/O."""

from __future__ import annotations

from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError, SchemaMismatchError
from adelta.parquet.faults import reading
from adelta.parquet.footer.chunk_ranges import ChunkLayout, chunk_layouts
from adelta.parquet.footer.columns import (
    ColumnNode,
    ColumnTree,
    column_tree,
    evenly,
    top_level_order,
)
from adelta.parquet.footer.fetch_footer import check_counts
from adelta.parquet.footer.known_shapes import known_chunks
from adelta.parquet.skip.chunk_statistics import ChunkStatistics, chunk_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.footer.columns import ColumnName

__all__ = ["FileLayout", "SelectedColumns"]


@dataclass(frozen=True, slots=True)
class SelectedColumns:
    """Columns that `FileLayout.select` has found: their leaves, and the order asked for."""

    leaves: tuple[int, ...]
    order: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class FileLayout:
    """What the footer of one object says.

    Where its chunks are is found when it is first asked for, which is CPU-heavy, and then known.

    Attributes:
        path: the object's path in its store.
        size: the object's size in bytes.
        metadata: the footer.
        schema: the Arrow schema of the whole file.
        tree: the schema's fields, over Parquet's leaves.
        footer: the footer's bytes, with the eight after it; None where `metadata` was given.
    """

    path: str
    size: int
    metadata: pq.FileMetaData
    schema: pa.Schema
    tree: ColumnTree
    footer: memoryview | None = None
    _chunks: dict[tuple[int, int], ChunkLayout] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        path: str,
        size: int,
        metadata: pq.FileMetaData,
        schema: pa.Schema,
        footer: memoryview | None = None,
    ) -> FileLayout:
        """The layout, once its numbers of columns and rows are held to its schema.

        Raises:
            InvalidTableError: the footer is damaged.
        """
        with reading(path):  # names that are no text
            tree = column_tree(schema)
        check_counts(path, metadata, tree.num_leaves)
        return cls(path, size, metadata, schema, tree, footer)

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        return self.metadata.num_rows

    @property
    def footer_start(self) -> int:
        """Where the footer starts; the end of the object where that is not known."""
        return self.size - (0 if self.footer is None else len(self.footer))

    @property
    def num_row_groups(self) -> int:
        """Row groups in the file."""
        return self.metadata.num_row_groups

    def groups(self, row_groups: Sequence[int] | None) -> list[int]:
        """The row groups named; all where that is None.

        Raises:
            InvalidUseError: the file has no such row group.
        """
        if row_groups is None:
            return list(range(self.num_row_groups))
        for group in row_groups:
            if not 0 <= group < self.num_row_groups:
                raise InvalidUseError(
                    f"{self.path}: has no row group {group}; it has {self.num_row_groups}, "
                    "counted from 0"
                )
        return list(row_groups)

    def rows_of(self, row_groups: Sequence[int]) -> int:
        """How many rows these row groups have."""
        return sum(self.metadata.row_group(group).num_rows for group in row_groups)

    # --------------------------------------------------------------------------------- columns

    def select(self, columns: Sequence[ColumnName] | SelectedColumns | None) -> SelectedColumns:
        """The columns, found: to be found once where each row group is fetched by itself.

        Raises:
            SchemaMismatchError: the file has no such column.
        """
        if isinstance(columns, SelectedColumns):
            return columns
        selection = self._find(columns)
        order = top_level_order(selection)
        leaves = self.tree.leaf_indices(selection)
        return SelectedColumns(tuple(leaves), None if order is None else tuple(order))

    def shares(
        self, columns: SelectedColumns, row_groups: Sequence[int], most: int
    ) -> list[SelectedColumns]:
        """The columns in at most `most` parts, in the file's order, to be decoded at once."""
        chosen = set(columns.leaves)
        each = [
            [n for n in range(c.first_leaf, c.end_leaf) if n in chosen] for c in self.tree.columns
        ]
        each = [leaves for leaves in each if leaves]
        sizes = [sum(self.decoded_bytes(leaves, group) for group in row_groups) for leaves in each]
        return [
            SelectedColumns(tuple(chain.from_iterable(each[start:end])), None)
            for start, end in evenly(sizes, most)
        ]

    def has_column(self, column: ColumnName) -> bool:
        """Whether the file has the column."""
        return bool(self.tree.find(column))

    def leaf(self, column: ColumnName) -> int:
        """The number of a column that is a leaf among all leaves.

        Raises:
            SchemaMismatchError: the file has no such column, or the column is no leaf.
        """
        (found,) = self._find((column,))
        if not found[-1].is_leaf:
            raise SchemaMismatchError(
                f"{self.path}: {_text(column)} is {found[-1].type}, and statistics are of leaves: "
                "name one of its fields"
            )
        return found[-1].first_leaf

    def physical_types(self, column: ColumnName) -> tuple[str, ...]:
        """Parquet's own types of the leaves of a column, such as ``INT96``.

        Raises:
            SchemaMismatchError: the file has no such column.
        """
        (found,) = self._find((column,))
        leaves = range(found[-1].first_leaf, found[-1].end_leaf)
        with reading(self.path):
            return tuple(self.metadata.schema.column(leaf).physical_type for leaf in leaves)

    def texts(self, leaves: Sequence[int]) -> dict[int, str]:
        """Those of the leaves that are columns of texts by themselves, with their names."""
        wanted = set(leaves)
        return {
            node.first_leaf: node.name
            for node in self.tree.columns
            if node.first_leaf in wanted and node.type.equals(pa.string()) and "." not in node.name
        }

    def _find(self, columns: Sequence[ColumnName] | None) -> list[tuple[ColumnNode, ...]]:
        if columns is None:
            return [(node,) for node in self.tree.columns]
        selection = []
        for column in columns:
            found = self.tree.find(column)
            if not found:
                raise SchemaMismatchError(
                    f"{self.path}: has no column {_text(column)}; it has "
                    f"{', '.join(node.name for node in self.tree.columns[:50]) or 'none at all'}"
                )
            selection.append(found)
        return selection

    # ---------------------------------------------------------------------------------- chunks

    def knows_places(self, leaves: Sequence[int], groups: Sequence[int]) -> bool:
        """Whether `places` has its answer at hand."""
        return all((group, leaf) in self._chunks for group in groups for leaf in leaves)

    def places(self, leaves: Sequence[int], groups: Sequence[int]) -> list[ByteRange]:
        """Where the store holds the leaves' chunks, one row group after the other. CPU-heavy.

        Raises:
            InvalidTableError: the metadata of a chunk is damaged.
        """
        return [chunk.place for chunk in self._layouts(leaves, groups)]

    def _layouts(self, leaves: Sequence[int], groups: Sequence[int]) -> list[ChunkLayout]:
        pairs = [(group, leaf) for group in groups for leaf in leaves]
        chunks = self._chunks
        unknown = [pair for pair in pairs if pair not in chunks]
        if unknown:
            found = None
            if not chunks:  # the file is asked about for the first time
                found = known_chunks(self.path, self.size, self.metadata, self.footer, self.tree)
            if found is None:
                new_groups = list(dict.fromkeys(group for group, _ in unknown))
                new_leaves = sorted({leaf for _, leaf in unknown})
                found = chunk_layouts(self.path, self.size, self.metadata, new_groups, new_leaves)
            chunks.update(found)
        return [chunks[pair] for pair in pairs]

    def byte_arrays(self, leaves: Sequence[int], group: int) -> list[int]:
        """Those of the leaves of which each value in the row group has its own length."""
        chunks = self._layouts(leaves, (group,))
        return [
            leaf
            for leaf, chunk in zip(leaves, chunks, strict=True)
            if chunk.physical_type == "BYTE_ARRAY"
        ]

    def chunk(self, row_group: int, leaf: int) -> pq.ColumnChunkMetaData:
        """What the footer says of one leaf in one row group, once Arrow has found it sound.

        Raises:
            InvalidTableError: it is damaged.
            InvalidUseError: the file has no such row group.
        """
        (group,) = self.groups((row_group,))
        self.places((leaf,), (group,))
        return self.metadata.row_group(group).column(leaf)

    def statistics(self, row_group: int, column: ColumnName) -> ChunkStatistics | None:
        """What the footer says of a leaf in one row group; None where it says nothing.

        Raises:
            SchemaMismatchError: the file has no such column, or the column is no leaf.
            InvalidUseError: the file has no such row group.
        """
        return chunk_statistics(self.path, self.chunk(row_group, self.leaf(column)))

    # ----------------------------------------------------------------------------------- sizes

    def column_bytes(
        self, columns: Sequence[ColumnName] | SelectedColumns | None, row_group: int
    ) -> int:
        """Bytes that a read of the columns takes from the store for one row group.

        Raises:
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
        """
        ranges = self.places(self.select(columns).leaves, self.groups((row_group,)))
        return sum(end - start for start, end in ranges)

    def uncompressed_bytes(
        self, columns: Sequence[ColumnName] | SelectedColumns | None, row_group: int
    ) -> int:
        """The memory that the columns of one row group need at least, once they are decoded.

        Texts that a dictionary holds once may need more.

        Raises:
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
        """
        (group,) = self.groups((row_group,))
        return self.decoded_bytes(self.select(columns).leaves, group)

    def decoded_bytes(self, leaves: Sequence[int], group: int) -> int:
        """What runs of equal values and nulls, of which a few bytes make millions, come to."""
        return sum(chunk.decoded_bytes for chunk in self._layouts(leaves, (group,)))


def _text(column: ColumnName) -> str:
    return repr(column if isinstance(column, str) else ".".join(column))
