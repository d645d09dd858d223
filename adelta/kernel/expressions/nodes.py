"""Expressions as frozen values: the closed set of nodes that adelta parses, types and evaluates.

A node says what was written, not what it means on a table: names are unresolved and types are
unchecked until `bind` has seen a schema. Whatever is not here is not an expression of adelta;
`parse` refuses it by name.

`And` and `Or` take any number of operands, so that a long chain is wide rather than deep.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.schema.types import BOOLEAN, DataType

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Arithmetic",
    "Bound",
    "Call",
    "Case",
    "Cast",
    "Column",
    "Comparison",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "LiteralValue",
    "Negate",
    "Node",
    "Not",
    "Or",
    "children_of",
    "columns_of",
    "conjunction",
    "disjunction",
    "split_conjuncts",
    "walk",
    "with_children",
]

LiteralValue = bool | int | float | Decimal | str | bytes | date | datetime | None
"""What a literal may hold. A `datetime` is aware for ``timestamp``, naive for ``timestamp_ntz``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field within one: ``a.b`` is ``("a", "b")``."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant and its type; a `value` of None is NULL."""

    value: LiteralValue
    type: DataType


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``, where `op` is one of ``= <=> != < <= > >=``."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Bound(Comparison):
    """One of the comparisons that BETWEEN is: Spark adds no blanks to them (`char_padding`)."""


@dataclass(frozen=True, slots=True)
class And:
    """True where every operand is true."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where some operand is true."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True where the operand is false."""

    operand: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    """True where the operand is NULL; never NULL itself."""

    operand: Node


@dataclass(frozen=True, slots=True)
class In:
    """``operand IN (options)``."""

    operand: Node
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``operand LIKE pattern ESCAPE escape``; the pattern is known when the text is."""

    operand: Node
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right``, where `op` is one of ``+ - * / % div``."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Negate:
    """The operand with its sign turned."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Cast:
    """The operand as another type: a value that does not fit is an error, or NULL with `is_try`.

    Binding sets `zone` where it matters, and is not UTC: that of texts which name none, and of the
    clock that an instant is shown by.
    """

    operand: Node
    type: DataType
    is_try: bool = False
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise` (None is NULL)."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the closed set, by its canonical lower-case name; `zone` as for `Cast`."""

    name: str
    arguments: tuple[Node, ...]
    zone: str | None = None


Node = (
    Column
    | Literal
    | Comparison
    | And
    | Or
    | Not
    | IsNull
    | In
    | Like
    | Arithmetic
    | Negate
    | Cast
    | Case
    | Call
)
"""Any expression."""

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)


def children_of(node: Node) -> tuple[Node, ...]:
    """The operands of `node`, in the order in which they are written."""
    match node:
        case Column() | Literal():
            return ()
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case And(operands) | Or(operands):
            return operands
        case Not(operand) | IsNull(operand) | Negate(operand):
            return (operand,)
        case Like(operand, _, _) | Cast(operand, _, _, _):
            return (operand,)
        case In(operand, options):
            return (operand, *options)
        case Case(branches, otherwise):
            flat = tuple(part for branch in branches for part in branch)
            return flat if otherwise is None else (*flat, otherwise)
        case Call(_, arguments, _):
            return arguments


def with_children(node: Node, children: tuple[Node, ...]) -> Node:
    """`node` over other operands: the inverse of `children_of`."""
    match node:
        case Column() | Literal():
            return node
        case Comparison(op, _, _):
            return type(node)(op, *children)
        case Arithmetic(op, _, _):
            return Arithmetic(op, *children)
        case And():
            return And(children)
        case Or():
            return Or(children)
        case Not():
            return Not(*children)
        case IsNull():
            return IsNull(*children)
        case Negate():
            return Negate(*children)
        case Like(_, pattern, escape):
            return Like(children[0], pattern, escape)
        case Cast(_, to, is_try, zone):
            return Cast(children[0], to, is_try, zone)
        case In():
            return In(children[0], children[1:])
        case Case():
            pairs = tuple(zip(children[0:-1:2], children[1::2], strict=True))
            return Case(pairs, children[-1]) if len(children) % 2 else Case(pairs)
        case Call(name, _, zone):
            return Call(name, children, zone)


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, without recursion."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(children_of(current)))


def columns_of(node: Node) -> frozenset[tuple[str, ...]]:
    """The paths of the columns that `node` reads, as they are written in it.

    Example: ``a.b > 1 AND c IS NULL`` reads ``{("a", "b"), ("c",)}``.
    """
    return frozenset(n.path for n in walk(node) if isinstance(n, Column))


def split_conjuncts(node: Node | None) -> tuple[Node, ...]:
    """The parts that must all be true: ``a AND (b AND c)`` is ``(a, b, c)``, None is ()."""
    parts: list[Node] = []
    waiting = [] if node is None else [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, And):
            waiting.extend(reversed(current.operands))
        else:
            parts.append(current)
    return tuple(parts)


def conjunction(*parts: Node | None) -> Node | None:
    """What is true where all of `parts` are; None stands for "everything"."""
    flat = tuple(conjunct for part in parts for conjunct in split_conjuncts(part))
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(*parts: Node) -> Node:
    """What is true where one of `parts` is; of no parts, false."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.operands if isinstance(part, Or) else (part,))
    if not flat:
        return FALSE
    return flat[0] if len(flat) == 1 else Or(tuple(flat))
