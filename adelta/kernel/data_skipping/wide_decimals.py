"""Bounds of decimals with more digits than a double holds, widened by possible rounding errors.

Some writers, deltalake among them, convert the bounds of decimals to doubles before they write
them, and scale them by a power of ten. The first 15 significant digits survive that; the others may
be wrong. Integers beyond int64 are written as the least or the greatest int64. The log does not say
who wrote a file, so the bounds of every file are read this way.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import null_of, numpy_of, scalar_of
from adelta.kernel.statistics import INT64_LIMITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXACT_DIGITS", "widen_decimals"]

Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

EXACT_DIGITS: Final = 15
"""How many significant digits of a decimal a double always keeps."""

_RELATIVE_ERROR = 2e-15
"""An upper limit for the relative error of seven roundings, each of at most 2**-53.

A writer may round the integer, its power of ten (twice), the quotient, a truncation (which counts
twice) and the text.
"""

_WORD = 1 << 64


def widen_decimals(values: Values, up: bool) -> Values:
    """Minima, or with `up` maxima, of decimals, moved outward by what a double may have rounded.

    NULL where the bound is at a limit of int64, or would exceed the type's greatest value.
    """
    precision, scale = values.type.precision, values.type.scale
    if precision <= EXACT_DIGITS:
        return values
    # At greater scales, the text of a double may have more fractional digits than the type, and
    # readers cut them off.
    limit = 10**EXACT_DIGITS if scale <= EXACT_DIGITS else 0
    least, greatest = (_unscaled(number, values.type) for number in (-limit, limit))
    are_exact = pc.and_(pc.less(values, greatest), pc.greater(values, least))
    if pc.all(are_exact, min_count=0).as_py():
        return values
    values = _without_limits(values)
    return pc.if_else(are_exact, values, _moved(values, up))


def _unscaled(number: int, kind: Any) -> Any:
    return scalar_of(Decimal(number).scaleb(-kind.scale), kind)


def _without_limits(values: Values) -> Values:
    """The values, with NULL in the place of the limits of int64."""
    kind = values.type
    for limit in INT64_LIMITS:
        if len(str(abs(limit))) <= kind.precision - kind.scale:
            is_limit = pc.equal(values, scalar_of(Decimal(limit), kind))
            if pc.any(is_limit).as_py():
                values = pc.if_else(is_limit, null_of(kind), values)
    return values


def _moved(values: Values, up: bool) -> Values:
    """Every value moved outward by the relative error and one unit of the last place."""
    import numpy as np

    kind, count = values.type, len(values)
    words = np.frombuffer(values.buffers()[1], "<u8", 2 * count, 16 * values.offset)
    low, high = words[0::2], words[1::2].view("<i8")
    size = high.astype(np.float64) * _WORD + low
    slack = np.ceil(np.abs(size) * _RELATIVE_ERROR) + 1
    high_slack = np.floor(slack / _WORD)
    low_slack = (slack - high_slack * _WORD).astype(np.uint64)
    moved: NDArray[Any] = np.empty((count, 2), "<u8")
    if up:
        moved[:, 0] = low + low_slack
        carry = moved[:, 0] < low
        moved[:, 1] = (high + high_slack.astype(np.int64) + carry).view(np.uint64)
    else:
        moved[:, 0] = low - low_slack
        borrow = low < low_slack
        moved[:, 1] = (high - high_slack.astype(np.int64) - borrow).view(np.uint64)
    fits = np.abs(size + slack if up else size - slack) < 10.0**kind.precision
    fits &= numpy_of(values.is_valid())
    buffers = [pa.array(fits).buffers()[1], pa.py_buffer(moved.tobytes())]
    return pa.Array.from_buffers(kind, count, buffers, -1)
