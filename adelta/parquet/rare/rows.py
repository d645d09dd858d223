"""The few rows of a column of structs that is null in nearly all rows, read without Arrow.

A checkpoint has one `protocol` and one `metaData` in a million rows. `RareColumns` are what a
footer says of such columns, `RarePlan` says which bytes of the file their rows are in, and makes
Python values of these, of the shapes that Arrow's would have. So a table is opened before Arrow is
loaded, which takes as long as all else.

It knows what writers of checkpoints use: numbers, texts, and lists and maps of these, in structs;
plain values and dictionaries; common codecs. Whatever is anything else, damage included, is an
`UnusualFileError`: Arrow reads the file then, or says what is wrong with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adelta._dataclasses import dataclass
from adelta.parquet.rare.pages import Allowance, ChunkFacts, UnusualFileError, read_chunk
from adelta.parquet.rare.schema import Leaf, Struct, leaves_of, read_columns
from adelta.parquet.thrift import I64, LIST, STRUCT, CompactReader, read_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.rare.pages import Run
    from adelta.parquet.rare.schema import Node

__all__ = ["RareColumns", "RarePlan", "UnusualFileError"]

_LONGEST_FOOTER: Final = 512 << 10  # bytes; Arrow is faster with more, though it has to be loaded
_MOST_ROWS: Final = 10_000  # likewise

_SCHEMA, _ROWS, _GROUPS = 2, 3, 4  # of FileMetaData
_PATH: Final = 3  # of ColumnMetaData


@dataclass(frozen=True, slots=True)
class RareColumns:
    """What the footer of a file says of some columns, those of them that it has.

    Attributes:
        num_rows: how many rows the file has.
        num_row_groups: and how many row groups.
    """

    num_rows: int
    num_row_groups: int
    _columns: Mapping[str, Struct | None]
    _groups: bytes
    _end: int

    @classmethod
    def of_footer(cls, footer: bytes | memoryview, end: int, names: Iterable[str]) -> RareColumns:
        """Read a footer, that of a file whose pages lie before `end`.

        Raises:
            UnusualFileError: it is not one that is known here, or is a long one.
        """
        if len(footer) > _LONGEST_FOOTER:
            raise UnusualFileError(f"a footer of {len(footer):,} bytes")
        reader = CompactReader(footer)
        columns: dict[str, Struct | None] | None = None
        rows = -1
        try:
            for field, kind in reader.fields():
                if field == _SCHEMA and kind == LIST:
                    columns = read_columns(reader, frozenset(names))
                elif field == _ROWS and kind == I64:
                    rows = reader.integer()
                elif field == _GROUPS and kind == LIST and rows >= 0 and columns is not None:
                    count = reader.list_of(STRUCT)
                    return cls(rows, count, columns, bytes(footer[reader.position :]), end)
                else:
                    reader.skip(kind)
        except (ValueError, LookupError) as error:
            raise UnusualFileError(str(error)) from error
        raise UnusualFileError("a footer without a schema or row groups, or in another order")

    def plan(self, markers: Mapping[str, str]) -> RarePlan:
        """How to read the named columns, each with a field that has a value in each of its rows.

        CPU-heavy for long footers.

        Raises:
            UnusualFileError: one of them is of a kind that is not known here.
        """
        steps: list[_Step] = []
        for name, marked in markers.items():
            if name not in self._columns:
                continue
            column = self._columns[name]
            marker = None if column is None else column.fields.get(marked)
            if column is None or not isinstance(marker, Leaf | None):
                raise UnusualFileError(f"the column {name} is of an unknown kind")
            if marker is not None:
                steps += self._steps(name, column, marker)
        return RarePlan(tuple(markers), tuple(steps))

    def _steps(self, name: str, column: Struct, marker: Leaf) -> list[_Step]:
        marked = [self._chunk(marker, place) for place in self._places(marker)]
        if sum(chunk.num_values for chunk in marked) != self.num_rows:
            raise UnusualFileError("row groups of more or less rows than the file")
        groups = [
            group
            for group, chunk in enumerate(marked)
            if chunk.num_values and chunk.null_count != chunk.num_values
        ]
        if not groups:
            return []
        places = {leaf: self._places(leaf) for leaf in leaves_of(column)}
        return [
            _Step(
                name,
                column,
                marker,
                {leaf: self._chunk(leaf, places[leaf][group]) for leaf in places},
            )
            for group in groups
        ]

    def _places(self, leaf: Leaf) -> list[int]:
        """Where the footer goes on behind the path of the leaf, in each row group."""
        found: list[int] = []
        at = self._groups.find(leaf.path)
        while at >= 0 and len(found) <= self.num_row_groups:
            at += len(leaf.path)
            found.append(at)
            at = self._groups.find(leaf.path, at)
        if len(found) != self.num_row_groups:
            raise UnusualFileError("chunks that are found more or less often than once a row group")
        return found

    def _chunk(self, leaf: Leaf, place: int) -> ChunkFacts:
        """What is said of the leaf's chunk behind its path."""
        try:
            meta, _ = read_struct(self._groups, place, behind=_PATH)
        except ValueError as error:
            raise UnusualFileError(str(error)) from error
        return ChunkFacts.of(meta, leaf.kind, self._end)


class _Step(NamedTuple):
    """A column in a row group that may have rows of it."""

    name: str
    column: Struct
    marker: Leaf
    chunks: Mapping[Leaf, ChunkFacts]


@dataclass(frozen=True, slots=True)
class RarePlan:
    """How to read some columns of a file."""

    names: tuple[str, ...]
    _steps: tuple[_Step, ...]

    @property
    def ranges(self) -> list[ByteRange]:
        """Where in the file the bytes are that `rows` asks for."""
        return [chunk.place for step in self._steps for chunk in step.chunks.values()]

    @property
    def decoded_bytes(self) -> int:
        """How many bytes of memory `rows` takes, about, or its bytes in the file, if more."""
        chunks = [chunk for step in self._steps for chunk in step.chunks.values()]
        return sum(max(chunk.unfolded, chunk.place[1] - chunk.place[0]) for chunk in chunks)

    def rows(self, bytes_of: Callable[[ByteRange], memoryview]) -> dict[str, list[dict[str, Any]]]:
        """The rows by column, in order: structs are dictionaries, maps lists of pairs. CPU-heavy.

        Raises:
            UnusualFileError: the file is not one that is known here.
        """
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in self.names}
        allowance = Allowance()
        try:
            for step in self._steps:
                rows = found[step.name]
                rows += _rows(step, bytes_of, allowance)
                if len(rows) > _MOST_ROWS:
                    raise UnusualFileError("very many rows")
        except (ValueError, LookupError) as error:
            raise UnusualFileError(str(error)) from error
        return found


class _Entries(NamedTuple):
    """What one leaf has in one row: the level of each of its entries, and the values there are."""

    levels: list[int]
    values: list[Any]


def _rows(
    step: _Step, bytes_of: Callable[[ByteRange], memoryview], allowance: Allowance
) -> list[dict[str, Any]]:
    """The rows of a column in one row group."""

    def read(leaf: Leaf) -> tuple[list[Run], list[Any]]:
        facts = step.chunks[leaf]
        return read_chunk(facts, leaf.level, bytes_of(facts.place), allowance)

    marked = read(step.marker)
    rows = _places(marked[0], step.marker.level.definition)
    if not rows:
        return []
    told: dict[Leaf, dict[int, _Entries]] = {}
    num_rows = step.chunks[step.marker].num_values
    for leaf in step.chunks:
        runs, values = marked if leaf == step.marker else read(leaf)
        allowance.take(len(rows))
        there = leaf.level.definition
        told[leaf] = _by_row(runs, values, there, rows, num_rows, allowance)
    return [_struct(step.column, {leaf: each[row] for leaf, each in told.items()}) for row in rows]


def _places(runs: Sequence[Run], there: int) -> list[int]:
    """The rows in which a leaf that is not repeated has a value."""
    rows: list[int] = []
    row = 0
    for _, definition, count in runs:
        if definition == there:
            if len(rows) + count > _MOST_ROWS:
                raise UnusualFileError("very many rows")
            rows += range(row, row + count)
        row += count
    return rows


def _by_row(
    runs: Sequence[Run],
    values: Sequence[Any],
    there: int,
    rows: Sequence[int],
    num_rows: int,
    allowance: Allowance,
) -> dict[int, _Entries]:
    """What a leaf has in each of some rows."""
    found = {row: _Entries([], []) for row in rows}
    row = -1  # the one that the last entry is of
    place = 0  # of the next value
    for repetition, definition, count in runs:
        has_values = definition == there
        if repetition:
            entries = found.get(row)
            if row < 0:
                raise UnusualFileError("an element of no row")
            if entries is not None:
                allowance.take(count)
                entries.levels.extend([definition] * count)
                if has_values:
                    entries.values.extend(values[place : place + count])
        else:
            first = row + 1
            row += count
            for one in rows[bisect_left(rows, first) : bisect_right(rows, row)]:
                found[one].levels.append(definition)
                if has_values:
                    found[one].values.append(values[place + one - first])
        place += count * has_values
    if row + 1 != num_rows or place != len(values):
        raise UnusualFileError("more or fewer rows or values than the file says")
    return found


def _struct(node: Struct, told: Mapping[Leaf, _Entries]) -> dict[str, Any]:
    return {name: _value(field, told) for name, field in node.fields.items()}


def _value(node: Node, told: Mapping[Leaf, _Entries]) -> Any:
    if isinstance(node, Leaf):
        return _elements(node, told)[0]
    leaf = next(leaves_of(node))
    level = told[leaf].levels[0]
    if level < node.definition:
        return None
    if isinstance(node, Struct):
        return _struct(node, told)
    if level == node.definition:  # it is there, and empty
        return []
    elements = [_elements(leaf, told) for leaf in node.leaves]
    if not node.has_pairs:
        return elements[0]
    return list(zip(*elements, strict=True))


def _elements(leaf: Leaf, told: Mapping[Leaf, _Entries]) -> list[Any]:
    levels, values = told[leaf]
    each = iter(values)
    return [next(each) if level == leaf.level.definition else None for level in levels]
