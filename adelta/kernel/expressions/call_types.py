"""The types of functions: what each takes, after implicit casts, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.coercion import (
    INTEGERS,
    decimal_arithmetic,
    decimal_of_integer,
    is_atomic,
    is_numeric,
    widest,
)
from adelta.kernel.expressions.library import LIBRARY
from adelta.kernel.expressions.literals import decimal_type_of
from adelta.kernel.expressions.nodes import Call, Literal, Node
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from adelta.kernel.expressions.library._function import Function

__all__ = ["Caster", "call_type"]

Caster = Callable[[Node, t.DataType, t.DataType], Node]
"""Gives a node of one type as another."""

_Parts = tuple[Node, ...]
_Types = tuple[t.DataType, ...]

_DAYS = (t.BYTE, t.SHORT, t.INTEGER)
_TIMES = (t.TIMESTAMP, t.TIMESTAMP_NTZ)

# What a parameter takes: the types that it leaves alone, and the one that others are cast to.
_STRING = ((t.STRING,), t.STRING)
_WHOLE = ((t.INTEGER,), t.INTEGER)
_DATE = ((t.DATE,), t.DATE)
_DAY_OR_TIME = ((t.DATE, *_TIMES), t.DATE)
_TIME = (_TIMES, t.TIMESTAMP)
_INSTANT = ((t.TIMESTAMP,), t.TIMESTAMP)
_SUBSTRING = (_STRING, _WHOLE, _WHOLE)

_Parameter = tuple[tuple[t.DataType, ...], t.DataType]

_SIGNATURES: Mapping[str, tuple[tuple[_Parameter, ...], t.DataType]] = MappingProxyType(
    {
        "add_months": ((_DATE, _WHOLE), t.DATE),
        "contains": ((_STRING, _STRING), t.BOOLEAN),
        "date_add": ((_DATE, _WHOLE), t.DATE),
        "date_format": ((_INSTANT, _STRING), t.STRING),
        "date_sub": ((_DATE, _WHOLE), t.DATE),
        "date_trunc": ((_STRING, _INSTANT), t.TIMESTAMP),
        "datediff": ((_DATE, _DATE), t.INTEGER),
        "day": ((_DAY_OR_TIME,), t.INTEGER),
        "dayofweek": ((_DAY_OR_TIME,), t.INTEGER),
        "dayofyear": ((_DAY_OR_TIME,), t.INTEGER),
        "endswith": ((_STRING, _STRING), t.BOOLEAN),
        "hour": ((_TIME,), t.INTEGER),
        "last_day": ((_DATE,), t.DATE),
        "left": ((_STRING, _WHOLE), t.STRING),
        "length": ((_STRING,), t.INTEGER),
        "lower": ((_STRING,), t.STRING),
        "ltrim": ((_STRING, _STRING), t.STRING),
        "md5": (((((t.BINARY, t.STRING)), t.BINARY),), t.STRING),
        "minute": ((_TIME,), t.INTEGER),
        "month": ((_DAY_OR_TIME,), t.INTEGER),
        "quarter": ((_DAY_OR_TIME,), t.INTEGER),
        "replace": ((_STRING, _STRING, _STRING), t.STRING),
        "right": ((_STRING, _WHOLE), t.STRING),
        "rlike": ((_STRING, _STRING), t.BOOLEAN),
        "rtrim": ((_STRING, _STRING), t.STRING),
        "second": ((_TIME,), t.INTEGER),
        "startswith": ((_STRING, _STRING), t.BOOLEAN),
        "substring": (_SUBSTRING, t.STRING),
        "trim": ((_STRING, _STRING), t.STRING),
        "trunc": ((_DATE, _STRING), t.DATE),
        "upper": ((_STRING,), t.STRING),
        "weekday": ((_DAY_OR_TIME,), t.INTEGER),
        "weekofyear": ((_DAY_OR_TIME,), t.INTEGER),
        "year": ((_DAY_OR_TIME,), t.INTEGER),
    }
)
# These must be known when the text is: they choose what is computed.
_CONSTANTS = {
    "date_format": 1,
    "date_trunc": 0,
    "ltrim": 0,
    "replace": 1,
    "rlike": 1,
    "round": 1,
    "rtrim": 0,
    "trim": 0,
    "trunc": 1,
}


def call_type(node: Call, parts: _Parts, types: _Types, cast: Caster) -> tuple[_Parts, t.DataType]:
    """The arguments of a call as the function takes them, and the type of its value.

    Raises:
        InvalidExpressionError: an argument is of a type that the function does not take.
    """
    name = node.name
    if name in LIBRARY:
        return _of_library(node, LIBRARY[name], parts, types, cast)
    if name in _CONSTANTS and len(parts) > 1 and not isinstance(parts[_CONSTANTS[name]], Literal):
        _not_constant(node, _CONSTANTS[name])
    if name in _SIGNATURES:
        parameters, result = _SIGNATURES[name]
        return _fit(node, parts, types, parameters, cast), result
    match name:
        case "coalesce" | "greatest" | "least":
            return _meet(node, parts, types, cast)
        case "concat":
            if set(types) <= {t.BINARY, t.VOID} and t.BINARY in types:
                return _all(parts, types, t.BINARY, cast), t.BINARY
            return _fit(node, parts, types, (_STRING,) * len(parts), cast), t.STRING
        case "isnan":
            to = types[0] if types[0] in (t.FLOAT, t.DOUBLE) else t.DOUBLE
            _numbers(node, types)
            return _all(parts, types, to, cast), t.BOOLEAN
        case "pmod":
            _numbers(node, types)
            return _pmod(node, parts, types, cast)
    return _number(node, parts, types, cast)


def _pmod(node: Call, parts: _Parts, types: _Types, cast: Caster) -> tuple[_Parts, t.DataType]:
    exact = [_exact(part, kind) for part, kind in zip(parts, types, strict=True)]
    if t.DecimalType not in map(type, types) or None in exact:
        return _meet(node, parts, types, cast)
    decimals = [kind for kind in exact if kind is not None]
    rows = zip(parts, types, decimals, strict=True)
    return tuple(cast(*row) for row in rows), decimal_arithmetic("%", *decimals)


def _exact(part: Node, kind: t.DataType) -> t.DecimalType | None:
    """The decimals that hold a number; of a constant as many digits as it has."""
    if isinstance(kind, t.DecimalType):
        return kind
    if isinstance(part, Literal) and isinstance(part.value, int):
        return decimal_type_of(Decimal(part.value))
    return decimal_of_integer(kind)


def _of_library(
    node: Call, function: Function, parts: _Parts, types: _Types, cast: Caster
) -> tuple[_Parts, t.DataType]:
    fitted, kinds = list(parts), list(types)
    for place, (part, kind) in enumerate(zip(parts, types, strict=True)):
        wanted = function.parameter(place)
        if kind in wanted.taken or (wanted.kind is not None and isinstance(kind, wanted.kind)):
            pass
        elif wanted.to is not None and (kind == t.VOID or _widens(kind, wanted.to)):
            fitted[place], kinds[place] = cast(part, kind, wanted.to), wanted.to
        else:
            needed = wanted.to or (wanted.taken[-1] if wanted.taken else "collection")
            _misfit(node, f"argument {place + 1} is a {kind}, where a {needed} is needed")
        if place in function.constants and not isinstance(fitted[place], Literal):
            _not_constant(node, place)
    if function.fits is not None:
        targets = function.fits(tuple(kinds))
        if isinstance(targets, str):
            _misfit(node, targets)
        rows = zip(fitted, kinds, targets, strict=True)
        fitted, kinds = [cast(p, kind, to) for p, kind, to in rows], list(targets)
    result = function.result(tuple(kinds)) if callable(function.result) else function.result
    if function.named_type is not None and function.named_type[0] < len(fitted):
        place, type_of = function.named_type
        named = fitted[place]
        result = type_of(str(named.value)) if isinstance(named, Literal) else result
    if isinstance(result, str):
        _misfit(node, result)
    return tuple(fitted), result


def _widens(kind: t.DataType, to: t.DataType) -> bool:
    """Whether Spark makes an argument of one type another one by itself, and loses nothing."""
    if to == t.DOUBLE and is_numeric(kind):
        return True
    if to in INTEGERS and kind in INTEGERS:
        return INTEGERS.index(kind) < INTEGERS.index(to)
    return _implicit(kind, to)


def _not_constant(node: Call, place: int) -> NoReturn:
    _misfit(
        node,
        f"argument {place + 1} must be a constant; the Spark engine evaluates it for each row: use "
        "it in a Spark job over this table",
    )


def _number(node: Call, parts: _Parts, types: _Types, cast: Caster) -> tuple[_Parts, t.DataType]:
    if types[0] in (t.STRING, t.VOID):
        parts, types = (cast(parts[0], types[0], t.DOUBLE), *parts[1:]), (t.DOUBLE, *types[1:])
    _numbers(node, types[:1])
    kind = types[0]
    match node.name:
        case "abs":
            return parts, kind
        case "floor" | "ceil":
            if isinstance(kind, t.DecimalType):
                whole = kind.precision - kind.scale + (kind.scale > 0)
                return parts, t.DecimalType(min(max(whole, 1), 38), 0)
            return parts, t.LONG
        case _:
            scale = 0
            if len(parts) > 1:
                if types[1] not in _DAYS or not isinstance(parts[1], Literal):
                    _misfit(node, "the number of digits must be a whole number")
                scale = parts[1].value if isinstance(parts[1].value, int) else 0
            return parts, _rounded(kind, scale)


def _rounded(kind: t.DataType, scale: int) -> t.DataType:
    if not isinstance(kind, t.DecimalType):
        return kind
    whole = kind.precision - kind.scale + 1
    if scale < 0:
        return t.DecimalType(min(max(whole, -scale + 1), 38), 0)
    kept = min(kind.scale, scale)
    return t.DecimalType(min(whole + kept, 38), kept)


def _fit(
    node: Call, parts: _Parts, types: _Types, parameters: tuple[_Parameter, ...], cast: Caster
) -> _Parts:
    fitted = []
    for place, (part, kind, (taken, to)) in enumerate(zip(parts, types, parameters, strict=False)):
        if kind in taken:
            fitted.append(part)
        elif kind == t.VOID or _implicit(kind, to):
            fitted.append(cast(part, kind, to))
        else:
            _misfit(node, f"argument {place + 1} is a {kind}, where a {to} is needed")
    return tuple(fitted)


def _implicit(kind: t.DataType, to: t.DataType) -> bool:
    """Whether Spark casts an argument of one type to another on its own."""
    if to == t.STRING:
        return is_atomic(kind) and kind != t.BINARY
    if to == t.INTEGER:
        return kind in _DAYS or kind == t.STRING
    if to == t.DATE:
        return kind == t.STRING or kind in _TIMES
    if to == t.TIMESTAMP:
        return kind in (t.STRING, t.DATE, t.TIMESTAMP_NTZ)
    return kind == t.STRING


def _meet(node: Call, parts: _Parts, types: _Types, cast: Caster) -> tuple[_Parts, t.DataType]:
    to = widest(types)
    if to is None:
        kinds = " and ".join(dict.fromkeys(map(str, types)))
        _misfit(node, f"its arguments are {kinds}: cast them to one type")
    if node.name != "coalesce":
        if not (is_atomic(to) or to == t.VOID):
            _misfit(node, f"a {to} has no order")
        if t.STRING in types and set(types) - {t.STRING, t.VOID}:
            _misfit(node, "strings are ordered among strings only: cast the others, or these")
    return _all(parts, types, to, cast), to


def _all(parts: _Parts, types: _Types, to: t.DataType, cast: Caster) -> _Parts:
    return tuple(cast(part, kind, to) for part, kind in zip(parts, types, strict=True))


def _numbers(node: Call, types: _Types) -> None:
    for kind in types:
        if not (is_numeric(kind) or kind == t.VOID):
            _misfit(node, f"it takes numbers, not a {kind}")


def _misfit(node: Call, why: str) -> NoReturn:
    raise InvalidExpressionError(f"{to_sql(node)}: {why}")
