"""Bounds of files as their writers left them, moved outward by what those may have cut off.

Timestamps are cut to milliseconds, and offsets of time zones were once cut to minutes. Dates before
1582 were once Julian. Long strings were once closed with a character that is not the greatest, and
cut within a surrogate pair. Floats are written with their shortest digits, which parse as a
different double after the column has been widened to `double`. Some writers state NaN as the
minimum of a file that holds a NaN. Decimals are rounded to doubles (`wide_decimals`).

`value_patterns` applies the same rules to JSON that is not parsed: a rule here needs its
counterpart there. `docs/how_it_works.md` tells users how far each statistic is trusted.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import null_of, scalar_of
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES
from adelta.kernel.data_skipping.wide_decimals import widen_decimals
from adelta.kernel.schema import types as t
from adelta.kernel.statistics import OLD_TIE_BREAKER

if TYPE_CHECKING:
    from adelta.kernel.data_skipping.statistic import Statistic

__all__ = ["widen", "without_nan"]

Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

_MILLISECOND = 1_000
_MINUTE = 60_000_000
_DAY = 86_400_000_000
_OLD_OFFSETS = int(datetime(1972, 6, 1, tzinfo=UTC).timestamp()) * 1_000_000
_GREGORIAN = (date(1582, 10, 15) - date(1970, 1, 1)).days
_JULIAN_DAYS = 12
_END_OF_DATES = 1 << 31
_TIE_BREAKER = "\U0010ffff\U0010ffff"
_HALF_A_PAIR = "?"
"""What Java writes for half of a surrogate pair, when it cuts a maximum within one."""


def widen(values: Values, statistic: Statistic) -> Values:
    """The minima or maxima of files, moved outward by what their writers may have left out."""
    kind, up = statistic.type, statistic.kind == MAX_VALUES
    if statistic.kind not in (MIN_VALUES, MAX_VALUES) or values.null_count == len(values):
        return values
    if kind == t.STRING and up:
        return _close_again(values)
    if isinstance(kind, t.DecimalType):
        return widen_decimals(values, up)
    if kind in (t.FLOAT, t.DOUBLE):
        values = without_nan(values)
    if statistic.was_float:
        floats = values.cast(pa.float32(), safe=False).cast(values.type)
        farther = pc.max_element_wise if up else pc.min_element_wise
        return farther(values, floats, skip_nulls=False)
    if kind == t.DATE:
        days = pc.cast(values, pa.int32())
        slack = pc.if_else(_is_before(days, _GREGORIAN), _whole(_JULIAN_DAYS), _whole(0))
        return pc.cast(pc.cast(_shift(days, slack, up), pa.int32()), values.type)
    if kind not in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
        return values
    micros = pc.cast(values, pa.int64())
    julian = _is_before(micros, _GREGORIAN * _DAY)
    old = _is_before(micros, _OLD_OFFSETS)
    slack = pc.if_else(old, _whole(_MINUTE), _whole(0))
    slack = pc.if_else(julian, _whole(_JULIAN_DAYS * _DAY), slack)
    if up:
        slack = pc.add(slack, _whole(_MILLISECOND))
    return pc.cast(_shift(micros, slack, up), values.type)


def without_nan(values: Values) -> Values:
    """Floating-point values, with NULL in the place of NaN."""
    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        return values
    return pc.if_else(is_nan, null_of(values.type), values)


def _whole(number: int) -> Any:
    return scalar_of(number, pa.int64())


def _is_before(values: Values, limit: int) -> Values:
    return pc.less(values, scalar_of(limit, values.type))


def _shift(values: Values, slack: Values, up: bool) -> Values:
    """`values` so much greater, or less; the ends of the type stay what they are."""
    low, high = 1 - (1 << 63), (1 << 63) - 1  # zero less `low` is a number of 64 bits
    if pa.types.is_int32(values.type):
        low, high = -_END_OF_DATES, _END_OF_DATES - 1
    wide, slack = pc.cast(values, pa.int64()), pc.cast(slack, pa.int64())
    if up:
        room = pc.subtract(_whole(high), pc.max_element_wise(wide, _whole(0), skip_nulls=False))
        return pc.add(wide, pc.min_element_wise(slack, room, skip_nulls=False))
    room = pc.subtract(pc.min_element_wise(wide, _whole(0), skip_nulls=False), _whole(low))
    room = pc.max_element_wise(room, _whole(0), skip_nulls=False)
    return pc.subtract(wide, pc.min_element_wise(slack, room, skip_nulls=False))


def _close_again(values: Values) -> Values:
    """Maxima that were shortened and closed with U+FFFD, below which some characters are not.

    Behind the last character of all nothing closes one: it is no bound any more.
    """
    open_ = pc.ends_with(values, pattern=OLD_TIE_BREAKER)
    if not pc.any(open_).as_py():
        return values
    prefix = pc.utf8_rtrim(values, characters=OLD_TIE_BREAKER + _HALF_A_PAIR)
    closed = pc.binary_join_element_wise(prefix, _TIE_BREAKER, "")
    closed = pc.if_else(pc.ends_with(prefix, pattern=_TIE_BREAKER[0]), null_of(pa.string()), closed)
    return pc.if_else(open_, closed, values)
