"""Predicates as they are given: SQL text, tuples in the spelling of pyarrow's filters, or nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.depth import check_depth
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    Or,
    conjunction,
    disjunction,
)
from adelta.kernel.expressions.parse import parse_expression

__all__ = ["Filter", "Where", "from_tuples", "is_long", "to_predicate"]

Filter = tuple[str, str, Any]
"""One condition: a column, an operator, a value."""

Where = str | Sequence[Filter] | Sequence[Sequence[Filter]] | Node
"""A predicate in any of the spellings that `to_predicate` takes."""

_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPERATORS = "=, ==, !=, <, <=, >, >=, in, not in, is, is not"
_NODES = (
    Column | Literal | Comparison | And | Or | Not | IsNull | In | Like | Arithmetic | Negate | Cast
    | Case | Call
)  # fmt: skip


_LONG_TEXT = 4_000  # characters, which take a few milliseconds
_LONG_LIST = 200  # values


def is_long(where: Where | None) -> bool:
    """Whether making a node of the predicate, and fitting it to a schema, holds a thread up."""
    if isinstance(where, str):
        return len(where) > _LONG_TEXT
    if not isinstance(where, list | tuple):
        return False
    values = 0
    for item in where:
        for condition in item if isinstance(item, list) else (item,):
            last = condition[-1] if isinstance(condition, tuple) and condition else None
            values += len(last) if isinstance(last, Collection) and not isinstance(last, str) else 1
    return values > _LONG_LIST


def to_predicate(
    where: Where | None, *, zone: str = "UTC", now: datetime | None = None
) -> Node | None:
    """The node that a caller's predicate stands for; None for None, which is every row.

    `now` is what `current_timestamp` means in it.

    Example: ``"year = 2024"`` and ``[("year", "=", 2024)]`` are the same.

    Raises:
        InvalidExpressionError: the predicate is not in one of these spellings.
    """
    if where is None:
        return None
    if isinstance(where, str):
        return parse_expression(where, zone=zone, now=now)
    if isinstance(where, _NODES):
        return check_depth(where)
    if isinstance(where, pc.Expression):
        raise InvalidExpressionError(
            "a pyarrow expression cannot be looked into; write the predicate as SQL text, for "
            'instance "year = 2024", or as tuples, [("year", "=", 2024)]'
        )
    if _is_list(where):
        return from_tuples(where)
    raise InvalidExpressionError(
        "a predicate is SQL text or a list of (column, operator, value), not a "
        f"{type(where).__name__}"
    )


def from_tuples(filters: Sequence[Filter] | Sequence[Sequence[Filter]]) -> Node | None:
    """The node of tuple filters: one list of them is joined by AND, lists within a list by OR.

    An empty list is every row.

    Example: ``[[("a", "=", 1), ("b", ">", 2)], [("c", "in", [3, 4])]]``.

    Raises:
        InvalidExpressionError: an element is not a (column, operator, value).
    """
    if not filters:
        return None
    if all(isinstance(f, tuple) and f and isinstance(f[0], str) for f in filters):
        return conjunction(*(_condition(f) for f in filters))
    groups = [
        from_tuples(group) if _is_list(group) else _malformed(group)  # type: ignore[arg-type]  # seen
        for group in filters
    ]
    # A group without conditions is every row, and so is anything OR every row.
    if any(group is None for group in groups):
        return None
    return disjunction(*(group for group in groups if group is not None))


def _is_list(what: object) -> bool:
    return isinstance(what, Sequence) and not isinstance(what, str | bytes)


def _malformed(what: object) -> Node:
    raise InvalidExpressionError(
        f"{what!r} is not a filter; write (column, operator, value) with one of {_OPERATORS}"
    )


def _condition(item: Sequence[Any]) -> Node:
    if len(item) != 3 or not isinstance(item[1], str):
        return _malformed(item)
    name, operator, value = item
    column = Column(tuple(name.split(".")))
    word = " ".join(operator.lower().split())
    if word in ("is", "is not"):
        if value is not None:
            return _malformed(item)
        return IsNull(column) if word == "is" else Not(IsNull(column))
    if word in ("in", "not in"):
        if isinstance(value, str | bytes) or not isinstance(value, Collection | pa.Array):
            raise InvalidExpressionError(f"{item!r}: {word} needs a list of values")
        options = tuple(_literal(one, item) for one in value)
        found: Node = In(column, options) if options else Literal(False, literal_of(False).type)
        return found if word == "in" else Not(found)
    if word not in _COMPARISONS:
        return _malformed(item)
    return Comparison(_COMPARISONS[word], column, _literal(value, item))


def _literal(value: Any, item: object) -> Literal:
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()  # a scalar of NumPy
    if value is None:
        raise InvalidExpressionError(
            f"{item!r}: nothing equals NULL; ask for it with (column, 'is', None)"
        )
    if not isinstance(value, bool | int | float | Decimal | str | bytes | date | datetime):
        raise InvalidExpressionError(f"{item!r}: {value!r} is of no type that a column can have")
    return literal_of(value)
