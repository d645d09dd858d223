"""Columns of structs as a footer's schema has them, and where a footer speaks of their chunks.

What a footer says of a chunk is found by the path of its leaf, which stands there as it is encoded:
once a row group. So the thousands of chunks that are not asked about cost no more than a look.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from adelta._dataclasses import dataclass
from adelta.parquet.rare.pages import Level, UnusualFileError
from adelta.parquet.thrift import (
    BINARY,
    LIST,
    STRUCT,
    CompactReader,
    encoded_binary,
    field_header,
    list_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Collection", "Leaf", "Node", "Struct", "leaves_of", "read_columns"]

_DEEPEST: Final = 8

_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 1, 3, 4, 5, 6, 10  # of SchemaElement
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_BOOLEAN, _INT32, _INT64, _BYTE_ARRAY = 0, 1, 2, 6
_UTF8, _MAP, _MAP_KEY_VALUE, _A_LIST, _INT_32, _INT_64 = 0, 1, 2, 3, 17, 18  # of ConvertedType
_LOGICAL_STRING, _LOGICAL_MAP, _LOGICAL_LIST = 1, 2, 3


class Leaf(NamedTuple):
    """A column of values.

    Attributes:
        path: the steps to it, as they are encoded behind the encodings of each of its chunks.
        kind: its physical type.
        level: the levels of a value that is there.
    """

    path: bytes
    kind: int
    level: Level


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct that is there where the level of each of its leaves is at least `definition`."""

    fields: Mapping[str, Node]
    definition: int


@dataclass(frozen=True, slots=True)
class Collection:
    """A list, or the pairs of a map: there, and not empty, from these levels on."""

    leaves: tuple[Leaf, ...]
    definition: int
    has_pairs: bool


Node: TypeAlias = "Leaf | Struct | Collection"


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


def read_columns(reader: CompactReader, names: frozenset[str]) -> dict[str, Struct | None]:
    """The named columns, of the schema whose elements come next; None for one of an unknown kind.

    Raises:
        UnusualFileError, ThriftError, LookupError, UnicodeDecodeError: it is no schema.
    """
    return _Schema([_element(reader) for _ in range(reader.list_of(STRUCT))]).columns(names)


class _Schema:
    """The elements of a schema, gone through from the root on."""

    def __init__(self, elements: list[dict[int, Any]]) -> None:
        self._elements = elements
        self._at = 0

    def columns(self, names: frozenset[str]) -> dict[str, Struct | None]:
        root = self._next()
        found: dict[str, Struct | None] = {}
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
        return found

    def _column(self) -> Struct | None:
        """A top-level column; None where it is not of a kind that is known here."""
        at = self._at
        with suppress(UnusualFileError):
            node = self._node((), Level(0, 0))
            if isinstance(node, Struct):
                return node
        self._at = at
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
            left += (self._next().get(_CHILDREN) or 0) - 1

    def _node(self, parent: tuple[str, ...], above: Level) -> Node:
        element = self._next()
        path = (*parent, element[_NAME])
        repetition = element.get(_REPETITION)
        if len(path) > _DEEPEST or repetition not in (_REQUIRED, _OPTIONAL):
            raise UnusualFileError(f"a field {element[_NAME]} that is repeated, or deep")
        level = Level(above.definition + repetition, above.repetition)
        children = element.get(_CHILDREN)
        if not children:
            return _leaf(element, path, level)
        converted, logical = element.get(_CONVERTED), element.get(_LOGICAL)
        if converted in (_MAP, _MAP_KEY_VALUE) or logical == _LOGICAL_MAP:
            return self._collection(children, path, level, 2)
        if converted == _A_LIST or logical == _LOGICAL_LIST:
            return self._collection(children, path, level, 1)
        if converted is not None or logical is not None:
            raise UnusualFileError(f"a group {element[_NAME]} of an unknown kind")
        fields: dict[str, Node] = {}
        for _ in range(children):
            name = self._elements[self._at][_NAME]
            if name in fields:
                raise UnusualFileError(f"two fields {name}")
            fields[name] = self._node(path, level)
        return Struct(fields, level.definition)

    def _collection(
        self, children: int, path: tuple[str, ...], level: Level, values: int
    ) -> Collection:
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
        nodes = [self._node((*path, name), inner) for _ in range(values)]
        leaves = tuple(node for node in nodes if isinstance(node, Leaf))
        if len(leaves) != values:
            raise UnusualFileError("a list or a map of an older or a deeper kind")
        return Collection(leaves, level.definition, values == 2)


def _leaf(element: dict[int, Any], path: tuple[str, ...], level: Level) -> Leaf:
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
    assert isinstance(kind, int)
    steps = b"".join(encoded_binary(step.encode()) for step in path)
    header = field_header(LIST, 1) + list_header(BINARY, len(path))
    return Leaf(header + steps, kind, level)


def leaves_of(node: Node) -> Iterator[Leaf]:
    """The leaves of a column, in their order."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Collection):
        yield from node.leaves
    else:
        yield from chain.from_iterable(map(leaves_of, node.fields.values()))
