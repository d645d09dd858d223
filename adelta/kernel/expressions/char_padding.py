"""Columns of ``char(n)`` as Spark compares them: as if blanks made them `n` characters long.

Spark writes them so, and whoever else writes a table may leave the blanks out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.nodes import (
    Bound,
    Call,
    Column,
    Comparison,
    In,
    Literal,
    children_of,
    walk,
    with_children,
)
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.schema import types as t
from adelta.kernel.schema.char_types import declared_type, longest

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node

__all__ = ["padded"]

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BLANK = Literal(" ", t.STRING)
_MOST_SPELLINGS = 32  # with more or fewer blanks behind, by which files can be left out


def padded(
    node: Node, schema: t.StructType, name: str | None = None, *, but: str | None = None
) -> Node:
    """The expression, in which columns of ``char(n)`` have their blanks, and so have constants.

    Columns may be named as those of `name`; what is named as one of `but` stays.

    Of two columns the shorter one gets as many as the longer one has. Bounds of BETWEEN, and
    constants beside others than columns, get none.

    Example: where ``c`` is a ``char(2)``, ``c = 'a'`` is ``c IN ('a', 'a ')``, and ``length(c)`` is
    ``length(rpad(c, 2, ' '))``.
    """
    if not any(_is_char(declared_type(field)) for field in schema):
        return node
    return _Padding(schema, name, but).of(node)


class _Padding:
    def __init__(self, schema: t.StructType, name: str | None, but: str | None) -> None:
        self._schema = schema
        self._name = None if name is None else name.lower()
        self._but = None if but is None else but.lower()

    def of(self, node: Node) -> Node:
        """The expression with blanks."""
        match node:
            case Column():
                size = self._size(node)
                return node if size is None else _rpad(node, size)
            case Bound():
                return with_children(node, self._children(node))
            case Comparison(op, Column() as left, Literal() as right) if self._is_whole(left):
                return self._compared(op, left, right)
            case Comparison(op, Literal() as left, Column() as right) if self._is_whole(right):
                return self._compared(_TURNED.get(op, op), right, left)
            case Comparison(op, Column() as left, Column() as right):
                if self._is_whole(left) and self._is_whole(right):
                    size = max(self._size(left) or 0, self._size(right) or 0)
                    return Comparison(op, _rpad(left, size), _rpad(right, size))
            case Comparison(op, Column() as left, right) if self._is_whole(left):
                if _is_text(right):
                    return Comparison(op, *self._computed(left, right))
            case Comparison(op, left, Column() as right) if self._is_whole(right):
                if _is_text(left):
                    return Comparison(_TURNED.get(op, op), *self._computed(right, left))
            case In(Column() as operand, options) if self._is_whole(operand):
                return self._is_in(operand, options)
        return with_children(node, self._children(node))

    def _children(self, node: Node) -> tuple[Node, ...]:
        return tuple(map(self.of, children_of(node)))

    def _is_in(self, column: Column, options: tuple[Node, ...]) -> Node:
        literals = tuple(each for each in options if isinstance(each, Literal))
        if len(literals) == len(options):
            return _one_of(column, literals, self._size(column) or 0)
        match options:
            case (Column() as only,) if self._is_whole(only):
                return self.of(Comparison("=", column, only))
        if all(map(_is_text, options)):
            operand, *computed = self._computed(column, *options)
            return In(operand, tuple(computed))
        return In(self.of(column), tuple(map(self.of, options)))

    def _computed(self, column: Column, *constants: Node) -> tuple[Node, ...]:
        """A column and constants that are no literals, each as long as the longest of them."""
        lengths = (Call("length", (each,)) for each in constants)
        size = Call("greatest", (Literal(self._size(column), t.INTEGER), *lengths))
        return tuple(Call("rpad", (each, size, _BLANK)) for each in (column, *constants))

    def _compared(self, op: str, column: Column, constant: Literal) -> Node:
        size = self._size(column) or 0
        if op == "=":
            return _one_of(column, (constant,), size)
        size = max(size, len(constant.value)) if isinstance(constant.value, str) else size
        return Comparison(op, _rpad(column, size), _blanks(constant, size))

    def _is_whole(self, column: Column) -> bool:
        """Whether it is no field of another, as constants beside such have no blanks in Spark."""
        return len(self._path(column)) == 1 and self._size(column) is not None

    def _path(self, column: Column) -> tuple[str, ...]:
        """The path within the table; none of another's column."""
        path = column.path
        first = path[0].lower() if len(path) > 1 else None
        if first is not None and first == self._but:
            return ()
        return path[1:] if first is not None and first == self._name else path

    def _size(self, column: Column) -> int | None:
        """How many characters the column has; None where it is no ``char(n)`` of the table's."""
        path = self._path(column)
        field = self._schema.field(path[0]) if path else None
        found = None if field is None else declared_type(field)
        for name in path[1:]:
            inner = found.field(name) if isinstance(found, t.StructType) else None
            found = None if inner is None else inner.type
        return longest(found) if found is not None and _is_char(found, within=False) else None


def _is_char(data_type: t.DataType | None, *, within: bool = True) -> bool:
    if within and isinstance(data_type, t.StructType):
        return any(_is_char(field.type) for field in data_type)
    return isinstance(data_type, t.PrimitiveType) and data_type.name.startswith("char(")


def _is_text(node: Node) -> bool:
    """Whether it is a text that no row has a part in."""
    if isinstance(node, Literal):
        return isinstance(node.value, str)
    if any(isinstance(part, Column) for part in walk(node)):
        return False
    try:
        found = bind(node, t.StructType(()))
    except InvalidExpressionError:  # which is said where it is bound to the table
        return False
    return isinstance(found, Literal) and isinstance(found.value, str)


def _one_of(column: Column, constants: tuple[Literal, ...], size: int) -> Node:
    """That a column is one of some constants, whatever blanks are behind each."""
    size = max([size, *(len(each.value) for each in constants if isinstance(each.value, str))])
    found: list[Literal] = []
    for each in constants:
        if not isinstance(each.value, str):
            found.append(each)
            continue
        bare = each.value.rstrip(" ")
        if size - len(bare) > _MOST_SPELLINGS:
            options = tuple(_blanks(one, size) for one in constants)
            return In(_rpad(column, size), options)
        found += [Literal(bare.ljust(n), t.STRING) for n in range(len(bare), size + 1)]
    return In(column, tuple(found))


def _rpad(node: Node, size: int) -> Node:
    return Call("rpad", (node, Literal(size, t.INTEGER), _BLANK))


def _blanks(constant: Literal, size: int) -> Literal:
    if not isinstance(constant.value, str):
        return constant
    return Literal(constant.value.ljust(size), t.STRING)
