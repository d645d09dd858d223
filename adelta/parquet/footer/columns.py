"""Columns of a nested schema by name: from what a caller asks for to the leaves that hold it.

Parquet stores leaves; Arrow and callers speak of fields. A `ColumnTree` numbers the leaves of an
Arrow schema in the order in which Parquet stores them and finds those under a name.

A column is named by a tuple of steps, ``("add", "path")``, or by a text, ``"add.path"``. The steps
into a list are ``element``, into a map ``key`` and ``value``, however the file spells them. A text
is first the literal name of a field, dots and all, and a path only where no such field exists; the
same holds again at every level below.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "ColumnName",
    "ColumnNode",
    "ColumnTree",
    "column_tree",
    "forget_trees",
    "top_level_order",
]

ColumnName: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnNode:
    """A field of the schema, at any depth, and the leaves ``[first_leaf, end_leaf)`` under it.

    `physical_path` is the path of steps as adelta writes them to Parquet.
    """

    name: str
    type: pa.DataType
    path: tuple[str, ...]
    physical_path: tuple[str, ...]
    children: tuple[ColumnNode, ...]
    first_leaf: int
    end_leaf: int

    @property
    def is_leaf(self) -> bool:
        """Whether Parquet stores the field as one column."""
        return not self.children

    def leaves(self) -> Iterator[ColumnNode]:
        """The leaves under the field, in Parquet's order."""
        if self.is_leaf:
            yield self
        for child in self.children:
            yield from child.leaves()


class ColumnTree:
    """The fields of an Arrow schema as a tree over Parquet's leaves."""

    def __init__(self, schema: pa.Schema) -> None:
        self.num_leaves = 0
        self.columns = tuple(self._node(field, (), ()) for field in schema)
        """The top-level fields, in the schema's order."""
        self._by_name = {node.name: node for node in reversed(self.columns)}

    def _node(
        self, field: pa.Field[Any], parent: tuple[str, ...], physical: tuple[str, ...]
    ) -> ColumnNode:
        first = self.num_leaves
        path = (*parent, field.name)
        physical_path = (*physical, field.name)
        steps, between = _children(field.type)
        below = physical_path + between
        children = tuple(self._node(step, path, below) for step in steps)
        if not children:
            self.num_leaves += 1
        return ColumnNode(
            field.name, field.type, path, physical_path, children, first, self.num_leaves
        )

    def find(self, name: ColumnName) -> tuple[ColumnNode, ...]:
        """The fields from the top level down to the one named; empty where there is none."""
        if isinstance(name, tuple):
            first = self._by_name.get(name[0]) if name else None
            return () if first is None else _by_steps((first,), name)
        literal = self._by_name.get(name)
        return _by_text(self.columns, name) if literal is None else (literal,)

    def leaf_indices(self, columns: Sequence[tuple[ColumnNode, ...]]) -> list[int]:
        """Numbers of the leaves to read for the fields found, ascending.

        A map is never split: its keys and values only make sense together.
        """
        wanted: set[int] = set()
        for chain in columns:
            whole = next((node for node in chain if pa.types.is_map(node.type)), chain[-1])
            wanted.update(range(whole.first_leaf, whole.end_leaf))
        return sorted(wanted)


_recent: list[tuple[pa.Schema, ColumnTree]] = []
_RECENT = 8


def column_tree(schema: pa.Schema) -> ColumnTree:
    """The tree of a schema; files of one table mostly have the same, and share it."""
    for known, tree in _recent[:]:
        if known.equals(schema):
            return tree
    tree = ColumnTree(schema)
    _recent.insert(0, (schema, tree))
    del _recent[_RECENT:]
    return tree


def forget_trees() -> None:
    """Know no schema's tree any more, as a process that has just begun."""
    _recent.clear()


def _children(data_type: pa.DataType) -> tuple[tuple[pa.Field[Any], ...], tuple[str, ...]]:
    """Fields one step below a type, and what Parquet puts between the type and them."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _children(data_type.storage_type)
    if pa.types.is_struct(data_type):
        return tuple(data_type.field(index) for index in range(data_type.num_fields)), ()
    if pa.types.is_map(data_type):
        entries = (data_type.key_field.with_name("key"), data_type.item_field.with_name("value"))
        return entries, ("key_value",)
    if (
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
        or pa.types.is_list_view(data_type)
        or pa.types.is_large_list_view(data_type)
    ):
        return (data_type.value_field.with_name("element"),), ("list",)
    return (), ()


def _by_steps(nodes: tuple[ColumnNode, ...], steps: tuple[str, ...]) -> tuple[ColumnNode, ...]:
    found: list[ColumnNode] = []
    for step in steps:
        node = next((node for node in nodes if node.name == step), None)
        if node is None:
            return ()
        found.append(node)
        nodes = node.children
    return tuple(found)


def _by_text(nodes: tuple[ColumnNode, ...], text: str) -> tuple[ColumnNode, ...]:
    """The field that `text` names; of several readings the one with the longest literal names."""
    literal = next((node for node in nodes if node.name == text), None)
    if literal is not None:
        return (literal,)
    starting = [node for node in nodes if text.startswith(node.name + ".")]
    for node in sorted(starting, key=lambda node: len(node.name), reverse=True):
        below = _by_text(node.children, text[len(node.name) + 1 :])
        if below:
            return (node, *below)
    return ()


def top_level_order(selection: Sequence[tuple[ColumnNode, ...]]) -> list[int] | None:
    """Where in Arrow's answer, which is in the file's order, each column asked for is."""
    asked = list(dict.fromkeys(chain[0].first_leaf for chain in selection))
    if all(left < right for left, right in pairwise(asked)):
        return None
    place = {leaf: index for index, leaf in enumerate(sorted(asked))}
    return [place[leaf] for leaf in asked]


def evenly(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Where to cut columns of these sizes into at most `most` parts of about the same size."""
    parts: list[tuple[int, int]] = []
    left, start, filled = sum(sizes), 0, 0
    for at, size in enumerate(sizes):
        missing = most - len(parts)
        if at > start and missing > 1 and (filled + size / 2) * missing > left:
            parts.append((start, at))
            left, start, filled = left - filled, at, 0
        filled += size
    if sizes:
        parts.append((start, len(sizes)))
    return parts
