"""Functions of strings: characters are code points, order is that of the UTF-8 bytes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of, scalar_of
from adelta.errors import InvalidExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "change_case",
    "check_size",
    "concat",
    "first_characters",
    "last_characters",
    "like_prefix",
    "like_regex",
    "matches_like",
    "md5",
    "position_test",
    "replace",
    "substring",
    "trim",
]

arrow: Any = pa  # likewise

Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
_TESTS = {"startswith": "starts_with", "endswith": "ends_with", "contains": "match_substring"}
_PYTHON_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda text, part: part in text,
}


# Bytes of the texts that one function makes of a batch: Arrow's end at twice that.
_LARGEST = 1 << 30
_LONGEST_PATTERN = 1000  # characters of a LIKE pattern with a _ that is wild
_FEW_WILD = 16  # parts of a LIKE pattern for which a regular expression is the fastest


def check_size(size: int) -> None:
    """Refuse to make texts of so many bytes.

    Raises:
        InvalidExpressionError: they are too many.
    """
    if size > _LARGEST:
        raise InvalidExpressionError(
            f"it makes texts of {size:,} bytes of one batch of rows, and {_LARGEST:,} is the most: "
            "let it repeat and join less"
        )


def num_bytes(text: str | bytes) -> int:
    """The bytes that a text has in Arrow's memory."""
    return len(text.encode() if isinstance(text, str) else text)


def _bytes_of(values: Any, rows: int) -> int:
    """Bytes of the texts, a scalar's being those of every one of the rows."""
    if isinstance(values, pa.Scalar):
        return num_bytes(values.as_py() or "") * rows
    return int(pc.sum(pc.binary_length(values)).as_py() or 0)


def change_case(values: Values, *, upper: bool) -> Values:
    """`upper` or `lower`, with Unicode's full mappings: ``ß`` becomes ``SS``."""
    if pc.all(pc.string_is_ascii(values), min_count=0).as_py():
        return pc.ascii_upper(values) if upper else pc.ascii_lower(values)
    change = str.upper if upper else str.lower
    return column_of([None if v is None else change(v) for v in values.to_pylist()], pa.string())


def concat(columns: Iterable[Any], rows: int) -> Any:
    """The texts of each row joined; NULL where one of them is.

    Columns may be scalars, and are taken one by one.

    Raises:
        InvalidExpressionError: the texts are too long.
    """
    taken: list[Any] = []
    size = 0
    for column in columns:
        size += _bytes_of(column, rows)
        check_size(size)
        taken.append(column)
    kind = taken[0].type
    separator = scalar_of("" if pa.types.is_string(kind) else b"", kind)
    joined = pc.binary_join_element_wise(*taken, separator)
    return arrow.repeat(joined, rows) if isinstance(joined, pa.Scalar) else joined


def position_test(name: str, values: Values, part: Any) -> Any:
    """`startswith`, `endswith` or `contains`."""
    if isinstance(part, pa.Scalar):
        if not part.is_valid:
            return pa.nulls(len(values), pa.bool_())
        return getattr(pc, _TESTS[name])(values, pattern=part.as_py())
    test = _PYTHON_TESTS[name]
    pairs = zip(values.to_pylist(), part.to_pylist(), strict=True)
    made = [None if v is None or p is None else test(v, p) for v, p in pairs]
    return column_of(made, pa.bool_())


def substring(values: Values, start: Values, length: Values | None) -> Values:
    """`substring`: from the `start`-th character, 1 being the first and −1 the last one."""
    first = pc.unique(start).drop_null()
    lengths = None if length is None else pc.unique(length)
    constant = (
        len(first) == 1
        and not start.null_count
        and (lengths is None or (len(lengths) == 1 and not lengths.null_count))
    )
    if constant and first[0].as_py() >= 0:
        begin = max(first[0].as_py() - 1, 0)
        if lengths is None:
            return pc.utf8_slice_codeunits(values, start=begin)
        return pc.utf8_slice_codeunits(values, start=begin, stop=begin + max(lengths[0].as_py(), 0))
    spans = length.to_pylist() if length is not None else [1 << 31] * len(values)
    rows = zip(values.to_pylist(), start.to_pylist(), spans, strict=True)
    return column_of([_substring(*row) for row in rows], pa.string())


def _substring(text: str | None, start: int | None, length: int | None) -> str | None:
    if text is None or start is None or length is None:
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(begin, 0) : max(begin + length, 0)]


def first_characters(values: Values, count: Values) -> Values:
    """`left`: the first `count` characters."""
    pairs = zip(values.to_pylist(), count.to_pylist(), strict=True)
    return column_of(
        [None if v is None or n is None else v[: max(n, 0)] for v, n in pairs], pa.string()
    )


def last_characters(values: Values, count: Values) -> Values:
    """`right`: the last `count` characters."""
    pairs = zip(values.to_pylist(), count.to_pylist(), strict=True)
    return column_of(
        [
            None if v is None or n is None else v[max(len(v) - n, 0) :] if n > 0 else ""
            for v, n in pairs
        ],
        pa.string(),
    )


def trim(name: str, values: Values, characters: str = " ") -> Values:
    """`trim`, `ltrim` or `rtrim`: without the given characters at both ends, or one."""
    if not characters:
        return values
    kernel = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[name]
    trimmed: Values = kernel(values, characters=characters)
    return trimmed


def replace(values: Values, what: str, by: Any) -> Values:
    """`replace`: every occurrence of `what`; an empty one occurs nowhere.

    Raises:
        InvalidExpressionError: the texts become too long.
    """
    if not what:
        return values
    if isinstance(by, pa.Scalar):
        if not by.is_valid:
            return pa.nulls(len(values), pa.string())
        growth = len(by.as_py().encode()) - len(what.encode())
        if growth > 0:
            found = pc.sum(pc.count_substring(values, pattern=what)).as_py() or 0
            check_size(_bytes_of(values, len(values)) + found * growth)
        return pc.replace_substring(values, pattern=what, replacement=by.as_py())
    made: list[str | None] = []
    size = 0
    for value, put in zip(values.to_pylist(), by.to_pylist(), strict=True):
        if value is None or put is None:
            made.append(None)
            continue
        size += len(value) + value.count(what) * len(put)
        check_size(size)
        made.append(value.replace(what, put))
    return column_of(made, pa.string())


def md5(values: Values) -> Values:
    """The MD5 sum in lower-case hexadecimal."""
    made = []
    for value in values.cast(pa.binary()).to_pylist():
        sum_ = None if value is None else hashlib.md5(value, usedforsecurity=False).hexdigest()
        made.append(sum_)
    return column_of(made, pa.string())


# ------------------------------------------------------------------------------------------ LIKE


def _like_parts(pattern: str, escape: str) -> list[str | None]:
    """The pattern's characters; ``%`` and ``_`` that are wild are None and the empty string.

    Several ``%`` next to each other are one.
    """
    parts: list[str | None] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            follower = pattern[at + 1 : at + 2]
            if follower not in ("%", "_", escape) or not follower:
                raise InvalidExpressionError(
                    f"in the LIKE pattern {pattern!r} the escape character {escape!r} must stand "
                    "before %, _ or itself"
                )
            parts.append(follower)
            at += 2
            continue
        if c != "%":
            parts.append("" if c == "_" else c)
        elif not parts or parts[-1] is not None:
            parts.append(None)
        at += 1
    return parts


def like_prefix(pattern: str, escape: str) -> tuple[str, bool]:
    """What every match of a LIKE pattern begins with, and whether that is all of it.

    Raises:
        InvalidExpressionError: the pattern is not one.
    """
    parts = _like_parts(pattern, escape)
    fixed = next((i for i, part in enumerate(parts) if not part), len(parts))
    return "".join(part or "" for part in parts[:fixed]), fixed == len(parts)


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression of RE2 that matches what a LIKE pattern does.

    Raises:
        InvalidExpressionError: the pattern is not one.
    """
    body = [
        ".*" if part is None else "." if part == "" else f"\\{part}" if part in _SPECIAL else part
        for part in _like_parts(pattern, escape)
    ]
    return f"(?s)\\A{''.join(body)}\\z"


def matches_like(values: Values, pattern: str, escape: str) -> Any:
    """``values LIKE pattern``.

    Raises:
        InvalidExpressionError: the pattern is not one, or is too long.
    """
    parts = _like_parts(pattern, escape)
    fixed = "".join(part or "" for part in parts)
    wild = [i for i, part in enumerate(parts) if not part]
    if not wild:
        return pc.equal(values, fixed)
    if all(parts[i] is None for i in wild):
        if wild == [len(parts) - 1]:
            return pc.starts_with(values, pattern=fixed)
        if wild == [0]:
            return pc.ends_with(values, pattern=fixed)
        if wild == [0, len(parts) - 1]:
            return pc.match_substring(values, pattern=fixed)
        if len(wild) > _FEW_WILD or len(parts) > _LONGEST_PATTERN:
            return _match_in_order(values, parts)
    if len(parts) > _LONGEST_PATTERN:
        raise InvalidExpressionError(
            f"a LIKE pattern with _ has up to {_LONGEST_PATTERN:,} characters, this one has "
            f"{len(parts):,}: compare parts of the text instead"
        )
    return pc.match_substring_regex(values, pattern=like_regex(pattern, escape))


def _match_in_order(values: Values, parts: list[str | None]) -> Any:
    """Whether the texts between ``%`` follow each other: in one pass over each value."""
    start, *between, end = _texts_between(parts)

    def matches(value: str) -> bool:
        at, last = len(start), len(value) - len(end)
        if last < at or not (value.startswith(start) and value.endswith(end)):
            return False
        for text in between:
            found = value.find(text, at, last)
            if found < 0:
                return False
            at = found + len(text)
        return True

    made = [None if value is None else matches(value) for value in values.to_pylist()]
    return column_of(made, pa.bool_())


def _texts_between(parts: list[str | None]) -> list[str]:
    texts: list[list[str]] = [[]]
    for part in parts:
        if part is None:
            texts.append([])
        else:
            texts[-1].append(part)
    return ["".join(text) for text in texts]
