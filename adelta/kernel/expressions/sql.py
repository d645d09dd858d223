"""Nodes → normalised Spark SQL text, that Spark and `parse_expression` read as the same expression.

Operators are in parentheses only where precedence asks for them; names are quoted only where they
must be; every literal keeps its type.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from adelta.kernel.expressions.library.intervals import INTERVAL_TYPES, interval_text
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
)
from adelta.kernel.expressions.text_values import format_timestamp
from adelta.kernel.schema import types as t

__all__ = ["quote_name", "quote_text", "to_sql"]

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = {
    *(
        "and",
        "between",
        "case",
        "cast",
        "date",
        "distinct",
        "div",
        "else",
        "end",
        "escape",
        "exists",
    ),
    *(
        "extract",
        "false",
        "from",
        "if",
        "in",
        "interval",
        "is",
        "like",
        "not",
        "null",
        "or",
        "regexp",
    ),
    *("rlike", "select", "then", "timestamp", "timestamp_ltz", "timestamp_ntz", "true", "when"),
}
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\000"}
_SUFFIXES: dict[t.DataType, str] = {
    t.LONG: "L",
    t.SHORT: "S",
    t.BYTE: "Y",
    t.DOUBLE: "D",
    t.FLOAT: "F",
}
_TYPE_NAMES: dict[t.DataType, str] = {
    t.LONG: "BIGINT",
    t.INTEGER: "INT",
    t.SHORT: "SMALLINT",
    t.BYTE: "TINYINT",
}


def to_sql(node: Node) -> str:
    r"""The text of `node`, which says nothing of the zones that it was bound with.

    Example: ``Comparison("=", Column(("a",)), Literal("it's", STRING))`` is ``a = 'it\'s'``.
    """
    return _text(node)[0]


def quote_name(name: str) -> str:
    """A name as SQL text, in backticks where it needs them."""
    if _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A constant of that text."""
    return "'" + "".join(_ESCAPES.get(c, c) for c in text) + "'"


def _text(node: Node) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match node:
        case Column(path):
            return ".".join(map(quote_name, path)), _ATOM
        case Literal():
            return _literal(node)
        case Comparison(op, left, right):
            return f"{_at(left, _COMPARISON)} {op} {_at(right, _COMPARISON + 1)}", _COMPARISON
        case And(operands):
            return " AND ".join(_at(o, _AND + 1) for o in operands), _AND
        case Or(operands):
            return " OR ".join(_at(o, _OR + 1) for o in operands), _OR
        case Not(IsNull(operand)):
            return f"{_at(operand, _COMPARISON)} IS NOT NULL", _PREDICATE
        case Not(In(operand, options)):
            return f"{_at(operand, _COMPARISON)} NOT IN ({_list(options)})", _PREDICATE
        case Not(Like() as like):
            return _like(like, "NOT LIKE"), _PREDICATE
        case Not(operand):
            return f"NOT {_at(operand, _NOT)}", _NOT
        case IsNull(operand):
            return f"{_at(operand, _COMPARISON)} IS NULL", _PREDICATE
        case In(operand, options):
            return f"{_at(operand, _COMPARISON)} IN ({_list(options)})", _PREDICATE
        case Like():
            return _like(node, "LIKE"), _PREDICATE
        case Arithmetic(op, left, right):
            power = _SUM if op in "+-" else _PRODUCT
            return f"{_at(left, power)} {op.upper()} {_at(right, power + 1)}", power
        case Negate(operand):
            text = _at(operand, _ATOM)
            return (f"-({text})" if text[0] in "-0123456789." else f"-{text}"), _SIGN
        case Cast(operand, to, is_try, _):
            word = "TRY_CAST" if is_try else "CAST"
            return f"{word}({to_sql(operand)} AS {_type(to)})", _ATOM
        case Case(branches, otherwise):
            parts = [f"WHEN {to_sql(when)} THEN {to_sql(then)}" for when, then in branches]
            if otherwise is not None:
                parts.append(f"ELSE {to_sql(otherwise)}")
            return f"CASE {' '.join(parts)} END", _ATOM
        case Call("[]", (of, at), _):
            return f"{_at(of, _ATOM)}[{to_sql(at)}]", _ATOM
        case Call("+ months" | "+ micros", (of, Literal() as interval), _):
            return f"{_at(of, _SUM)} + {to_sql(interval)}", _SUM
        case Call(name, arguments, _):
            return f"{name}({_list(arguments)})", _ATOM


def _at(node: Node, power: int) -> str:
    text, own = _text(node)
    return text if own >= power else f"({text})"


def _list(nodes: tuple[Node, ...]) -> str:
    return ", ".join(map(to_sql, nodes))


def _like(node: Like, word: str) -> str:
    text = f"{_at(node.operand, _COMPARISON)} {word} {quote_text(node.pattern)}"
    return text if node.escape == "\\" else f"{text} ESCAPE {quote_text(node.escape)}"


def _literal(node: Literal) -> tuple[str, int]:
    value, data_type = node.value, node.type
    match value:
        case int() if data_type in INTERVAL_TYPES:
            return interval_text(value, data_type), _ATOM
        case None:
            if data_type == t.VOID:
                return "NULL", _ATOM
            return f"CAST(NULL AS {_type(data_type)})", _ATOM
        case bool():
            return str(value).upper(), _ATOM
        case str():
            return quote_text(value), _ATOM
        case bytes():
            return f"X'{value.hex().upper()}'", _ATOM
        case datetime():
            if data_type == t.TIMESTAMP:
                return f"TIMESTAMP '{_clock_text(value.astimezone(UTC))}Z'", _ATOM
            return f"TIMESTAMP_NTZ '{_clock_text(value)}'", _ATOM
        case date():
            return f"DATE '{value.isoformat()}'", _ATOM
        case Decimal():
            text = f"{value:f}BD"
        case float() if not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"CAST('{name}' AS {_type(data_type)})", _ATOM
        case _:
            text = f"{value!r}{_SUFFIXES.get(data_type, '')}"
    return text, _SIGN if text.startswith("-") else _ATOM


def _type(data_type: t.DataType) -> str:
    return _TYPE_NAMES.get(data_type) or str(data_type).upper()


def _clock_text(value: datetime) -> str:
    since = value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return format_timestamp(since // timedelta(microseconds=1))
