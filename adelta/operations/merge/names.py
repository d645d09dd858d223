"""What expressions of a merge may name: columns of the target, of the source, or of both.

A name with an alias before it is that side's, any other one is of the side that has such a column.
A bound expression is one over rows of two structs, which are called as the aliases are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from adelta._dataclasses import dataclass
from adelta.errors import AmbiguousColumnError, InvalidExpressionError, UnresolvedColumnError
from adelta.kernel.expressions.nodes import Column, children_of, columns_of, with_children
from adelta.kernel.expressions.resolve import bind, bind_predicate
from adelta.kernel.schema.types import StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.expressions.nodes import Node

__all__ = ["BOTH", "SOURCE", "TARGET", "Side", "Sides"]

Side = Literal["target", "source"]
TARGET: Final = ("target",)
SOURCE: Final = ("source",)
BOTH: Final = ("target", "source")
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a merge, with the names that expressions know them by.

    Texts that become times without naming a zone are of `zone`. `beside` are columns of the source
    that say what was found of both sides, and may be named wherever it is.
    """

    target: StructType
    source: StructType
    target_alias: str
    source_alias: str
    zone: str = "UTC"
    beside: frozenset[str] = frozenset()

    def bind(self, node: Node, may_name: Iterable[str], what: str) -> Node:
        """`node` bound to the rows of `paired`; `what` is what messages call it.

        Raises:
            InvalidExpressionError: it names what it may not name, or does not fit the columns.
        """
        return self._told(node, may_name, what, predicate=False)

    def bind_predicate(self, node: Node, may_name: Iterable[str], what: str) -> Node:
        """The same for what must be true or false.

        Raises:
            InvalidExpressionError: as for `bind`, or it is neither.
        """
        return self._told(node, may_name, what, predicate=True)

    def columns(self, nodes: Iterable[Node | None], side: Side) -> frozenset[str]:
        """The top-level columns of one side that bound expressions read."""
        alias = self._alias(side)
        paths = (path for node in nodes if node is not None for path in columns_of(node))
        return frozenset(path[1] for path in paths if path[0] == alias)

    def sides_of(self, node: Node) -> frozenset[str]:
        """The sides that a bound expression reads."""
        found = {path[0] for path in columns_of(node)}
        return frozenset(side for side in BOTH if self._alias(side) in found)

    def alone(self, node: Node) -> Node:
        """A bound expression of one side, over the columns of that side alone."""
        if isinstance(node, Column):
            return Column(node.path[1:])
        parts = children_of(node)
        return with_children(node, tuple(map(self.alone, parts))) if parts else node

    def paired(
        self, target: pa.RecordBatch | None, source: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        """Rows of one side, or of both beside each other, as bound expressions read them.

        Each has at least one column.
        """
        arrays, names = [], []
        for alias, rows in ((self.target_alias, target), (self.source_alias, source)):
            if rows is not None:
                arrays.append(_as_struct(rows))
                names.append(alias)
        return pa.RecordBatch.from_arrays(arrays, names)

    @property
    def schema(self) -> StructType:
        """The schema of the rows that bound expressions read."""
        return StructType(
            (
                StructField(self.target_alias, self.target),
                StructField(self.source_alias, self.source),
            )
        )

    def _told(self, node: Node, may_name: Iterable[str], what: str, *, predicate: bool) -> Node:
        try:
            resolved = self._resolved(node, tuple(may_name))
            return (bind_predicate if predicate else bind)(resolved, self.schema, zone=self.zone)
        except InvalidExpressionError as error:
            raise type(error)(f"{what}: {error}", reason=error.reason) from error

    def _alias(self, side: str) -> str:
        return self.target_alias if side == "target" else self.source_alias

    def _schema(self, side: str) -> StructType:
        return self.target if side == "target" else self.source

    def _resolved(self, node: Node, may_name: tuple[str, ...]) -> Node:
        if isinstance(node, Column):
            return self._column(node.path, may_name)
        parts = children_of(node)
        if not parts:
            return node
        return with_children(node, tuple(self._resolved(part, may_name) for part in parts))

    def _column(self, path: tuple[str, ...], may_name: tuple[str, ...]) -> Column:
        shown = ".".join(path)
        for side in BOTH if len(path) > 1 else ():
            if path[0].lower() != self._alias(side).lower():
                continue
            if side in may_name or (side == "source" and path[1] in self.beside):
                inner = self._within(side, path[1:]) or path[1:]  # what is not there is told of
                return Column((self._alias(side), *inner))
            if not any(self._within(other, path) for other in may_name):
                raise UnresolvedColumnError(
                    f"{shown} is a column of the {side}, whose rows are not at hand here: only "
                    f"columns of the {may_name[0]} can be named"
                )
        found = [(side, within) for side in may_name if (within := self._within(side, path))]
        if len(found) == 1:
            holder, rest = found[0]
            return Column((self._alias(holder), *rest))
        if found:
            raise AmbiguousColumnError(
                f"{shown} is a column of both sides: write {self.target_alias}.{shown} or "
                f"{self.source_alias}.{shown}"
            )
        known = "; ".join(
            f"the {side} has {', '.join(self._schema(side).names[:_SHOWN]) or 'none'}"
            for side in may_name
        )
        raise UnresolvedColumnError(f"there is no column named {shown!r}: {known}")

    def _within(self, side: str, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """`path` in the columns of one side, if its first part is one; dots may be of a name."""
        schema = self._schema(side)
        if schema.field(path[0]) is not None:
            return path
        dotted = schema.field(".".join(path))
        return None if dotted is None else (dotted.name,)


def _as_struct(rows: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
