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
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adelta._dataclasses import dataclass
from adelta.parquet.rare.pages import (
    Allowance,
    ChunkFacts,
    Level,
    UnusualFileError,
    read_chunk,
)
from adelta.parquet.thrift import (
    BINARY,
    I64,
    LIST,
    STRUCT,
    CompactReader,
    behind_struct,
    read_struct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.rare.pages import Run

__all__ = ["RareColumns", "RarePlan", "UnusualFileError"]

_LONGEST_FOOTER: Final = 256 << 10  # bytes; Arrow is faster with more, though it has to be loaded
_MOST_ROWS: Final = 10_000  # likewise
_DEEPEST: Final = 8

# Fields of FileMetaData, SchemaElement, RowGroup and ColumnChunk, and of what is in the last.
_SCHEMA, _ROWS, _GROUPS, _ENCRYPTION = 2, 3, 4, 8
_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 1, 3, 4, 5, 6, 10
_COLUMNS, _GROUP_ROWS = 1, 3
_META, _LAST_PLAIN = 3, 7
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_BOOLEAN, _INT32, _INT64, _BYTE_ARRAY = 0, 1, 2, 6
_UTF8, _MAP, _MAP_KEY_VALUE, _A_LIST, _INT_32, _INT_64 = 0, 1, 2, 3, 17, 18  # of ConvertedType
_LOGICAL_STRING, _LOGICAL_MAP, _LOGICAL_LIST = 1, 2, 3


class _Leaf(NamedTuple):
    """A column of values: its number in the file, and the levels of a value that is there."""

    number: int
    level: Level


@dataclass(frozen=True, slots=True)
class _Struct:
    """A struct that is there where the level of each of its leaves is at least `definition`."""

    fields: Mapping[str, _Node]
    definition: int


@dataclass(frozen=True, slots=True)
class _Collection:
    """A list, or the pairs of a map: there, and not empty, from these levels on."""

    leaves: tuple[_Leaf, ...]
    definition: int
    has_pairs: bool


_Node = _Leaf | _Struct | _Collection


class _Group(NamedTuple):
    """A row group: how many rows it has, and the chunks of the leaves that are wanted."""

    num_rows: int
    chunks: Mapping[int, ChunkFacts]


@dataclass(frozen=True, slots=True)
class RareColumns:
    """What the footer of a file says of some columns, those of them that it has.

    Attributes:
        num_rows: how many rows the file has.
        num_row_groups: and how many row groups.
    """

    num_rows: int
    num_row_groups: int
    _columns: Mapping[str, _Struct | None]
    _groups: tuple[_Group, ...]

    @classmethod
    def of_footer(cls, footer: bytes | memoryview, end: int, names: Iterable[str]) -> RareColumns:
        """Read a footer, that of a file whose pages lie before `end`. CPU-heavy.

        Raises:
            UnusualFileError: it is not one that is known here, or is a long one.
        """
        if len(footer) > _LONGEST_FOOTER:
            raise UnusualFileError(f"a footer of {len(footer):,} bytes")
        data = bytes(footer)
        try:
            return cls._of_footer(data, end, frozenset(names))
        except (ValueError, LookupError) as error:
            raise UnusualFileError(str(error)) from error

    @classmethod
    def _of_footer(cls, data: bytes, end: int, names: frozenset[str]) -> RareColumns:
        reader = CompactReader(data)
        columns: dict[str, _Struct | None] = {}
        groups: tuple[_Group, ...] = ()
        rows, num_leaves = -1, 0
        wanted: frozenset[int] = frozenset()
        for field, kind in reader.fields():
            if field == _SCHEMA and kind == LIST:
                elements = [_element(reader) for _ in range(reader.list_of(STRUCT))]
                columns, num_leaves = _Schema(elements).columns(names)
                wanted = frozenset(
                    leaf.number
                    for column in columns.values()
                    if column is not None
                    for leaf in _leaves_of(column)
                )
            elif field == _ROWS and kind == I64:
                rows = reader.integer()
            elif field == _GROUPS and kind == LIST:
                count = reader.list_of(STRUCT)
                groups = tuple(_group(reader, data, wanted, num_leaves, end) for _ in range(count))
            elif field >= _ENCRYPTION:
                raise UnusualFileError("a footer with more to it than is known")
            else:
                reader.skip(kind)
        if rows != sum(group.num_rows for group in groups):
            raise UnusualFileError("row groups of more or less rows than the file")
        return cls(rows, len(groups), columns, groups)

    def plan(self, markers: Mapping[str, str]) -> RarePlan:
        """How to read the named columns, each with a field that has a value in each of its rows.

        Raises:
            UnusualFileError: one of them is of a kind that is not known here.
        """
        steps: list[_Step] = []
        for name, marked in markers.items():
            if name not in self._columns:
                continue
            column = self._columns[name]
            marker = None if column is None else column.fields.get(marked)
            if column is None or not isinstance(marker, _Leaf | None):
                raise UnusualFileError(f"the column {name} is of an unknown kind")
            if marker is not None:
                groups = [group for group in self._groups if _may_have(group, marker)]
                steps += [_Step(name, column, marker, group) for group in groups]
        return RarePlan(tuple(markers), tuple(steps))


class _Step(NamedTuple):
    """A column in a row group that may have rows of it."""

    name: str
    column: _Struct
    marker: _Leaf
    group: _Group


@dataclass(frozen=True, slots=True)
class RarePlan:
    """How to read some columns of a file."""

    names: tuple[str, ...]
    _steps: tuple[_Step, ...]

    @property
    def ranges(self) -> list[ByteRange]:
        """Where in the file the bytes are that `rows` asks for."""
        return [
            step.group.chunks[leaf.number].place
            for step in self._steps
            for leaf in _leaves_of(step.column)
        ]

    @property
    def decoded_bytes(self) -> int:
        """How many bytes of memory `rows` takes, about, or its bytes in the file, if more."""
        chunks = [
            step.group.chunks[leaf.number]
            for step in self._steps
            for leaf in _leaves_of(step.column)
        ]
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


# ----------------------------------------------------------------------------------------- footer


def _element(reader: CompactReader) -> dict[int, Any]:
    """An element of the schema: its numbers, its name, and which logical type it has."""
    found: dict[int, Any] = {}
    for field, kind in reader.fields():
        if field == _NAME and kind == BINARY:
            found[field] = reader.binary().decode()
        elif field == _LOGICAL and kind == STRUCT:
            for logical, inner in reader.fields():
                found[_LOGICAL] = logical
                reader.skip(inner)
        elif field in (_TYPE, _REPETITION, _CHILDREN, _CONVERTED):
            found[field] = reader.integer()
        else:
            reader.skip(kind)
    return found


class _Schema:
    """The elements of a schema, gone through from the root on."""

    def __init__(self, elements: list[dict[int, Any]]) -> None:
        self._elements = elements
        self._at = 0
        self._leaves = 0

    def columns(self, names: frozenset[str]) -> tuple[dict[str, _Struct | None], int]:
        """The named columns, of unknown kinds as None, and how many leaves the file has."""
        root = self._next()
        found: dict[str, _Struct | None] = {}
        for _ in range(root.get(_CHILDREN, 0)):
            name = self._elements[self._at][_NAME]
            if name in names and name not in found:
                found[name] = self._column()
                continue
            self._pass()
            if name in found:
                found[name] = None
        if self._at != len(self._elements):
            raise UnusualFileError("elements of the schema that belong to none")
        return found, self._leaves

    def _column(self) -> _Struct | None:
        """A top-level column; None where it is not of a kind that is known here."""
        at, leaves = self._at, self._leaves
        with suppress(UnusualFileError):
            node = self._node(Level(0, 0), 0)
            if isinstance(node, _Struct):
                return node
        self._at, self._leaves = at, leaves
        self._pass()
        return None

    def _next(self) -> dict[int, Any]:
        element = self._elements[self._at]
        self._at += 1
        return element

    def _pass(self) -> None:
        """Go past an element and what is below it."""
        left = 1
        while left:
            element = self._next()
            children = element.get(_CHILDREN)
            self._leaves += not children
            left += (children or 0) - 1

    def _node(self, above: Level, depth: int) -> _Node:
        element = self._next()
        repetition = element.get(_REPETITION)
        if depth > _DEEPEST or repetition not in (_REQUIRED, _OPTIONAL):
            raise UnusualFileError(f"a field {element[_NAME]} that is repeated, or deep")
        level = Level(above.definition + repetition, above.repetition)
        children = element.get(_CHILDREN)
        if not children:
            return self._leaf(element, level)
        converted, logical = element.get(_CONVERTED), element.get(_LOGICAL)
        if converted in (_MAP, _MAP_KEY_VALUE) or logical == _LOGICAL_MAP:
            return self._collection(children, level, 2)
        if converted == _A_LIST or logical == _LOGICAL_LIST:
            return self._collection(children, level, 1)
        if converted is not None or logical is not None:
            raise UnusualFileError(f"a group {element[_NAME]} of an unknown kind")
        fields: dict[str, _Node] = {}
        for _ in range(children):
            name = self._elements[self._at][_NAME]
            if name in fields:
                raise UnusualFileError(f"two fields {name}")
            fields[name] = self._node(level, depth + 1)
        return _Struct(fields, level.definition)

    def _collection(self, children: int, level: Level, values: int) -> _Collection:
        """A list of one value an element, or a map of two."""
        repeated = self._next()
        name = repeated[_NAME]
        older = values == 1 and (name == "array" or name.endswith("_tuple"))
        if (
            children != 1
            or level.repetition
            or older
            or repeated.get(_REPETITION) != _REPEATED
            or repeated.get(_CHILDREN) != values
            or (values == 2 and self._elements[self._at].get(_REPETITION) != _REQUIRED)
        ):
            raise UnusualFileError("a list or a map of an older or a deeper kind")
        inner = Level(level.definition + 1, 1)
        leaves = [self._node(inner, _DEEPEST) for _ in range(values)]
        return _Collection(
            tuple(leaf for leaf in leaves if isinstance(leaf, _Leaf)), level.definition, values == 2
        )

    def _leaf(self, element: dict[int, Any], level: Level) -> _Leaf:
        kind, converted = element.get(_TYPE), element.get(_CONVERTED)
        logical = element.get(_LOGICAL)
        is_text = kind == _BYTE_ARRAY and (converted, logical) in (
            (_UTF8, _LOGICAL_STRING),
            (_UTF8, None),
            (None, _LOGICAL_STRING),
        )
        is_number = (kind, converted) in ((_INT32, _INT_32), (_INT64, _INT_64))
        is_plain = kind in (_BOOLEAN, _INT32, _INT64) and (converted, logical) == (None, None)
        if not (is_text or is_number or is_plain):
            raise UnusualFileError(f"a field {element[_NAME]} of an unknown type")
        number = self._leaves
        self._leaves += 1
        return _Leaf(number, level)


def _leaves_of(node: _Node) -> Iterator[_Leaf]:
    if isinstance(node, _Leaf):
        yield node
    elif isinstance(node, _Collection):
        yield from node.leaves
    else:
        yield from chain.from_iterable(map(_leaves_of, node.fields.values()))


def _group(
    reader: CompactReader, data: bytes, wanted: frozenset[int], num_leaves: int, end: int
) -> _Group:
    rows, chunks = -1, dict[int, ChunkFacts]()
    for field, kind in reader.fields():
        if field == _COLUMNS and kind == LIST:
            if reader.list_of(STRUCT) != num_leaves:
                raise UnusualFileError("a row group of more or fewer columns than the schema")
            for leaf in range(num_leaves):
                if leaf in wanted:
                    found, reader.position = read_struct(data, reader.position)
                    chunks[leaf] = _chunk(found, end)
                else:
                    reader.position = behind_struct(data, reader.position)
        elif field == _GROUP_ROWS and kind == I64:
            rows = reader.integer()
        else:
            reader.skip(kind)
    if rows < 0:
        raise UnusualFileError("a row group of less than no rows")
    return _Group(rows, chunks)


def _chunk(found: dict[int, Any], end: int) -> ChunkFacts:
    meta = found.get(_META)
    if not isinstance(meta, dict) or max(found) > _LAST_PLAIN:
        raise UnusualFileError("a chunk that is encrypted")
    return ChunkFacts.of(meta, end)


def _may_have(group: _Group, marker: _Leaf) -> bool:
    return group.num_rows > 0 and group.chunks[marker.number].null_count != group.num_rows


# ------------------------------------------------------------------------------------------- rows


class _Entries(NamedTuple):
    """What one leaf has in one row: the level of each of its entries, and the values there are."""

    levels: list[int]
    values: list[Any]


def _rows(
    step: _Step, bytes_of: Callable[[ByteRange], memoryview], allowance: Allowance
) -> list[dict[str, Any]]:
    """The rows of a column in one row group."""
    group = step.group

    def read(leaf: _Leaf) -> tuple[list[Run], list[Any]]:
        facts = group.chunks[leaf.number]
        return read_chunk(facts, leaf.level, bytes_of(facts.place), allowance)

    marked = read(step.marker)
    rows = _places(marked[0], step.marker.level.definition)
    if not rows:
        return []
    told: dict[int, dict[int, _Entries]] = {}
    for leaf in _leaves_of(step.column):
        runs, values = marked if leaf == step.marker else read(leaf)
        allowance.take(len(rows))
        there = leaf.level.definition
        told[leaf.number] = _by_row(runs, values, there, rows, group.num_rows, allowance)
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


def _struct(node: _Struct, told: Mapping[int, _Entries]) -> dict[str, Any]:
    return {name: _value(field, told) for name, field in node.fields.items()}


def _value(node: _Node, told: Mapping[int, _Entries]) -> Any:
    if isinstance(node, _Leaf):
        return _elements(node, told)[0]
    leaf = next(_leaves_of(node))
    level = told[leaf.number].levels[0]
    if level < node.definition:
        return None
    if isinstance(node, _Struct):
        return _struct(node, told)
    if level == node.definition:  # it is there, and empty
        return []
    elements = [_elements(leaf, told) for leaf in node.leaves]
    if not node.has_pairs:
        return elements[0]
    return list(zip(*elements, strict=True))


def _elements(leaf: _Leaf, told: Mapping[int, _Entries]) -> list[Any]:
    levels, values = told[leaf.number]
    each = iter(values)
    return [next(each) if level == leaf.level.definition else None for level in levels]
