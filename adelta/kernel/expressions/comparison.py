"""Comparisons in Spark's order: NaN equals itself and is greatest, strings go by their bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import null_of, scalar_of

__all__ = ["compare", "extreme", "is_in"]


_KERNELS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_MAX_DECIMAL128, _MAX_DECIMAL256 = 38, 76


def compare(op: str, left: Any, right: Any) -> Any:
    """``left op right`` for arrays or scalars of one type; NULL where a side is, save ``<=>``."""
    if op == "<=>":
        return _null_safe_equal(left, right)
    left, right = _same_decimal(left, right)
    if pa.types.is_floating(left.type):
        return _compare_floats(op, left, right)
    return getattr(pc, _KERNELS[op])(left, right)


def _null_safe_equal(left: Any, right: Any) -> Any:
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(compare("=", left, right), False), both)


def _same_decimal(left: Any, right: Any) -> tuple[Any, Any]:
    one, other = left.type, right.type
    if one == other or not (pa.types.is_decimal(one) and pa.types.is_decimal(other)):
        return left, right
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    if precision <= _MAX_DECIMAL128:
        shared: pa.DataType = pa.decimal128(precision, scale)
    else:
        shared = pa.decimal256(min(precision, _MAX_DECIMAL256), scale)
    return left.cast(shared), right.cast(shared)


def _has_nan(value: Any) -> bool:
    found: bool | None = (
        pc.any(pc.is_nan(value)).as_py()
        if isinstance(value, pa.Array)
        else (value.is_valid and value.as_py() != value.as_py())
    )
    return bool(found)


def _compare_floats(op: str, left: Any, right: Any) -> Any:
    plain = getattr(pc, _KERNELS[op])(left, right)
    if not (_has_nan(left) or _has_nan(right)):
        return plain
    match op:
        case "=":
            return pc.or_(plain, pc.and_(pc.is_nan(left), pc.is_nan(right)))
        case "<":
            return pc.or_(plain, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
        case ">":
            return _compare_floats("<", right, left)
        case "<=":
            return pc.invert(_compare_floats("<", right, left))
        case ">=":
            return pc.invert(_compare_floats("<", left, right))
    return pc.invert(_compare_floats("=", left, right))


def is_in(values: pa.Array[Any], options: pa.Array[Any]) -> Any:
    """``values IN (options)``: NULL where the value is, or none is equal and an option is NULL."""
    known = pc.drop_null(options)
    if pa.types.is_floating(values.type):
        # Hashing tells 0.0 from −0.0, which are equal.
        zero = scalar_of(0.0, values.type)
        values, known = pc.add(values, zero), pc.add(known, zero)
    if pa.types.is_decimal(values.type) and known.type != values.type:
        found = _any_equal(values, known)
    else:
        found = pc.is_in(values, value_set=known)
    none = null_of(pa.bool_())
    if options.null_count:
        found = pc.if_else(found, found, none)
    return pc.if_else(pc.is_valid(values), found, none)


def _any_equal(values: pa.Array[Any], options: pa.Array[Any]) -> Any:
    values, options = _same_decimal(values, options)
    return pc.is_in(values, value_set=options)


def extreme(columns: list[Any], length: int, *, greatest: bool) -> Any:
    """The greatest or least of each row's values that are not NULL."""
    arrays = [c if isinstance(c, pa.Array) else pa.repeat(c, length) for c in columns]
    best = arrays[0]
    for other in arrays[1:]:
        if pa.types.is_null(best.type):
            break  # all are
        better = compare(">" if greatest else "<", other, best)
        take = pc.or_(pc.fill_null(better, False), pc.is_null(best))
        best = pc.if_else(take, other, best)
    return best
