"""Regular expressions for JSON values that are above or below a limit, type by type.

They match less than they could and never more: fractions and times only at some distance from the
limit, by which what their writers cut off is covered, texts only by characters that are written as
they are, and of each type only what is a value of it.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from adelta.kernel.data_skipping.wide_decimals import EXACT_DIGITS
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["above", "below", "has_patterns"]

_INTEGER_DIGITS: dict[t.DataType, int] = {t.BYTE: 2, t.SHORT: 4, t.INTEGER: 9, t.LONG: 18}
"""How many digits every number of the type may have."""

_FRACTION_DIGITS = 15
_ROUNDED_DIGITS = 14
"""With at most so many integer digits, a rounded bound of a decimal is off by less than one."""

_LONGEST_PREFIX = 24  # characters of a text that are compared
_FRACTION = r"(?:\.\d+)?"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
_ENDS: dict[t.DataType, str] = {
    t.DATE: "",
    t.TIMESTAMP: rf"[T ]{_CLOCK}(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)",
    t.TIMESTAMP_NTZ: rf"[T ]{_CLOCK}",
}
_SLACK = timedelta(days=3)  # more than zones and cut off parts of a second make
_FIRST_YEAR, _LAST_YEAR = 1600, 9999  # before, some writers had another calendar
_DAY = r"(?:0[1-9]|1\d|2[0-8])"
_MONTH_AND_DAY = rf"(?:(?:0[1-9]|1[0-2])-{_DAY}|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""Characters of ASCII that JSON writes as they are."""

_REST_OF_TEXT = r'[^"\\\x00-\x1f]*"'


def has_patterns(data_type: t.DataType) -> bool:
    """Whether values of the type can be told by a pattern."""
    return _kind(data_type) is not None


def above(data_type: t.DataType, limit: Any) -> str | None:
    """A pattern of JSON values of the type that are greater than `limit`; None if there is none."""
    kind = _kind(data_type)
    return None if kind is None else _group(kind(data_type, limit, True))


def below(data_type: t.DataType, limit: Any) -> str | None:
    """A pattern of JSON values of the type that are less than `limit`; None if there is none."""
    kind = _kind(data_type)
    return None if kind is None else _group(kind(data_type, limit, False))


def _kind(data_type: t.DataType) -> Callable[[t.DataType, Any, bool], list[str]] | None:
    if data_type in _INTEGER_DIGITS:
        return _integers
    if data_type == t.DOUBLE or isinstance(data_type, t.DecimalType):
        return _fractions
    if data_type in _ENDS:
        return _times
    return _texts if data_type == t.STRING else None


def _group(alternatives: list[str]) -> str | None:
    return f"(?:{'|'.join(alternatives)})" if alternatives else None


# --------------------------------------------------------------------------------------- numbers


def _integers(data_type: t.DataType, limit: Any, up: bool) -> list[str]:
    if not isinstance(limit, int) or isinstance(limit, bool):
        return []
    return _whole(limit, up, _INTEGER_DIGITS[data_type])


def _fractions(data_type: t.DataType, limit: Any, up: bool) -> list[str]:
    """By the part before the point, which is less than one from the value."""
    if not isinstance(limit, int | float | Decimal) or not math.isfinite(limit):
        return []
    digits = _FRACTION_DIGITS
    if isinstance(data_type, t.DecimalType):
        digits = min(digits, data_type.precision - data_type.scale)
        if data_type.precision > EXACT_DIGITS:
            digits = min(digits, _ROUNDED_DIGITS)
    if abs(limit) >= 10**_FRACTION_DIGITS:
        return []
    whole = math.floor(limit) + 1 if up else math.ceil(limit) - 1
    return [number + _FRACTION for number in _whole(whole, up, digits)]


def _whole(limit: int, up: bool, digits: int) -> list[str]:
    """Whole numbers beyond `limit`, of at most so many digits; -0 is left to be parsed."""
    if digits < 1:
        return []
    away, back = ("", "-") if up else ("-", "")
    if limit == 0 or (limit > 0) == up:
        return [away + each for each in _greater(abs(limit), digits)]
    return [
        rf"{away}[1-9]\d{{0,{digits - 1}}}",
        "0",
        *(back + each for each in _smaller(abs(limit), digits)),
    ]


def _greater(size: int, digits: int) -> list[str]:
    """Numbers greater than `size`, without a sign."""
    text = str(size)
    if len(text) > digits:
        return []
    longer = [rf"[1-9]\d{{{len(text)},{digits - 1}}}"] if len(text) < digits else []
    return [*longer, *_beyond(text, True)]


def _smaller(size: int, digits: int) -> list[str]:
    """Numbers from one to less than `size`, without a sign."""
    text = str(size)
    if len(text) > digits:
        return [rf"[1-9]\d{{0,{digits - 1}}}"]
    shorter = [rf"[1-9]\d{{0,{len(text) - 2}}}"] if len(text) > 1 else []
    return [*shorter, *_beyond(text, False)]


def _beyond(digits: str, up: bool) -> list[str]:
    """Numbers of as many digits that are greater, or smaller, the first digit not being zero."""
    found = []
    for place, digit in enumerate(digits):
        low, high = (int(digit) + 1, 9) if up else (0 if place else 1, int(digit) - 1)
        if low <= high:
            rest = len(digits) - place - 1
            found.append(digits[:place] + f"[{low}-{high}]" + (rf"\d{{{rest}}}" if rest else ""))
    return found


# ----------------------------------------------------------------------------------------- times


def _times(data_type: t.DataType, limit: Any, up: bool) -> list[str]:
    """By the day, which is told with or without a time and a zone."""
    if not isinstance(limit, date):
        return []
    day = limit.date() if isinstance(limit, datetime) else limit
    if not _FIRST_YEAR < day.year < _LAST_YEAR:
        return []
    day = day + _SLACK if up else day - _SLACK
    days = [*_years(day.year, up), *_months(day, up), *_days(day, up)]
    return [f'"{each}{_ENDS[data_type]}"' for each in days]


def _years(year: int, up: bool) -> list[str]:
    low, high = (year + 1, _LAST_YEAR) if up else (_FIRST_YEAR, year - 1)
    years = []
    for century in range(low // 100, high // 100 + 1):
        first, last = max(low, century * 100), min(high, century * 100 + 99)
        if (first, last) == (century * 100, century * 100 + 99):
            years.append(rf"{century}\d\d")
        elif first <= last:
            years.append("(?:" + "|".join(str(each) for each in range(first, last + 1)) + ")")
    return [f"(?:{'|'.join(years)})-{_MONTH_AND_DAY}"] if years else []


def _months(day: date, up: bool) -> list[str]:
    months = range(day.month + 1, 13) if up else range(1, day.month)
    some = "|".join(f"{month:02}" for month in months)
    return [f"{day.year}-(?:{some})-{_DAY}"] if some else []


def _days(day: date, up: bool) -> list[str]:
    days = range(day.day + 1, 29) if up else range(1, min(day.day, 29))
    some = "|".join(f"{each:02}" for each in days)
    return [f"{day.year}-{day.month:02}-(?:{some})"] if some else []


# ----------------------------------------------------------------------------------------- texts


def _texts(data_type: t.DataType, limit: Any, up: bool) -> list[str]:
    """By the first character that is another, in the order of their bytes."""
    del data_type
    if not isinstance(limit, str):
        return []
    plain = _PLAIN.match(limit)
    prefix = plain.group()[:_LONGEST_PREFIX] if plain else ""
    found = []
    for place, character in enumerate(prefix):
        same = re.escape(prefix[:place])
        others = _others(ord(character), up)
        if others:
            found.append(f'"{same}{others}{_REST_OF_TEXT}')
        if not up:
            found.append(f'"{same}"')
    if up and prefix == limit:
        found.append(f'"{re.escape(prefix)}[^"\\\\\\x00-\\x1f]{_REST_OF_TEXT}')
    return found


def _others(code: int, up: bool) -> str:
    """The characters after, or before, the one of that code.

    Quotes and backslashes are left out because JSON escapes them, and question marks because one
    may stand in for half of a surrogate pair.
    """
    found = ""
    low, high = (code + 1, 0x10FFFF) if up else (0x20, code - 1)
    for first, last in ((0x20, 0x21), (0x23, 0x3E), (0x40, 0x5B), (0x5D, 0x7E), (0xA0, 0x10FFFF)):
        start, end = max(low, first), min(high, last)
        if start <= end:
            found += rf"\x{{{start:x}}}-\x{{{end:x}}}"
    return f"[{found}]" if found else ""
