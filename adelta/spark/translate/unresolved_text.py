"""Conditions as Spark shows what it has parsed and not resolved: ``('city = Bern)``.

So delta-spark has the condition of an OPTIMIZE in a table's history, and jobs look for it there.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from adelta.kernel.expressions.nodes import And, Column, Comparison, In, IsNull, Literal, Not, Or
from adelta.kernel.expressions.sql import quote_name, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.expressions.nodes import Node

__all__ = ["unresolved_text"]


def unresolved_text(node: Node) -> str:
    """A condition in Spark's words; a part for which Spark's are longer than SQL is in SQL."""
    match node:
        case Column(path):
            return f"'{'.'.join(map(quote_name, path))}"
        case Literal(bool(value)):
            return str(value).lower()
        case Literal(value):
            return "null" if value is None else str(value)
        case Comparison("!=", left, right):
            return unresolved_text(Not(Comparison("=", left, right)))
        case Comparison(op, left, right):
            return _joined(op, (left, right))
        case And(operands):
            return _joined("AND", operands)
        case Or(operands):
            return _joined("OR", operands)
        case Not(IsNull(operand)):
            return f"isnotnull({unresolved_text(operand)})"
        case Not(operand):
            return f"NOT {unresolved_text(operand)}"
        case IsNull(operand):
            return f"isnull({unresolved_text(operand)})"
        case In(operand, options):
            return f"{unresolved_text(operand)} IN ({','.join(map(unresolved_text, options))})"
    return to_sql(node)


def _joined(operator: str, operands: Iterable[Node]) -> str:
    return reduce(
        lambda left, right: f"({left} {operator} {right})", map(unresolved_text, operands)
    )
