"""Files that the text of their statistics excludes, before any of it is parsed.

To parse the statistics of a million files takes most of the time in which a predicate finds the few
that it keeps. One regular expression tells of most of the others that they state a bound which the
predicate cannot be true with, in a fifth of that time: it follows the text from its beginning to
that bound, through the fields that come before it in the text of some file of the list. A text
that it does not match is parsed, whatever the reason: fields in another order, spaces, a bound that
is close, a value that is no value of its type. So a file is only excluded where the parsed
statistics would have excluded it, as long as its text is whole and names no field twice.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, scalar_of
from adelta._dataclasses import dataclass
from adelta.kernel.data_skipping.value_patterns import above, below, has_patterns
from adelta.kernel.expressions.nodes import And, Column, Comparison, Literal, Node, Or

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.data_skipping.statistic import Statistic

__all__ = ["Limit", "limits_of", "may_match_by_text"]

_FEWEST_TEXTS = 1_000
"""Below, parsing takes less than a regular expression is worth."""

_SAMPLE = 256
_WORTH = 0.3
"""How much of a sample must be excluded for it to be worth asking of all."""

_LONGEST_PATTERN = 4_000  # characters; beyond, parsing is as fast, and RE2 much slower at last
_LONGEST_LAYOUT = 50_000  # characters of a text to go by
_DEEPEST = 100
_LAYOUTS = 8  # texts that are looked at for one to go by
_SCALAR = r'(?:"(?:[^"\\]|\\.)*"|[^",{}\[\]]+)'

_Limits: TypeAlias = "dict[tuple[tuple[str, ...], bool], Any]"


@dataclass(frozen=True, slots=True)
class Limit:
    """What a file with matching rows states: `statistic` is not beyond `value`.

    Attributes:
        least: whether `value` is the least that the statistic may be; else it is the greatest.
    """

    statistic: Statistic
    least: bool
    value: Any


# ------------------------------------------------------------------------------------ the limits


def limits_of(node: Node, statistics: Iterable[Statistic]) -> tuple[Limit, ...]:
    """What must be true of single statistics for the rewritten predicate `node` not to be false.

    Example: ``minValues.id <= 5 AND 5 <= maxValues.id`` gives 5 as the greatest minimum and as the
    least maximum.
    """
    known = {s.path: s for s in statistics if has_patterns(s.type) and not s.was_float}
    found = _limits(node, known)
    return tuple(Limit(known[path], least, value) for (path, least), value in found.items())


def _limits(node: Node, known: Mapping[tuple[str, ...], Statistic]) -> _Limits:
    match node:
        case And(operands):
            found: _Limits = {}
            for part in operands:
                for key, value in _limits(part, known).items():
                    found[key] = _closer(key[1], found[key], value) if key in found else value
            return found
        case Or(operands):
            parts = [_limits(operand, known) for operand in operands]
            common = set(parts[0]).intersection(*parts[1:])
            return {key: _farthest(key[1], [part[key] for part in parts]) for key in common}
        case Comparison("<" | "<=", low, high) | Comparison(">" | ">=", high, low):
            return _of_comparison(low, high, known)
    return {}


def _of_comparison(low: Node, high: Node, known: Mapping[tuple[str, ...], Statistic]) -> _Limits:
    if isinstance(high, Literal) and (path := _path(low)) in known and _limits_any(high.value):
        return {(path, False): high.value}
    if isinstance(low, Literal) and (path := _path(high)) in known and _limits_any(low.value):
        return {(path, True): low.value}
    return {}


def _path(node: Node) -> tuple[str, ...]:
    return node.path if isinstance(node, Column) else ()


def _closer(least: bool, one: Any, other: Any) -> Any:
    return max(one, other) if least else min(one, other)


def _farthest(least: bool, values: Sequence[Any]) -> Any:
    return min(values) if least else max(values)


def _limits_any(value: Any) -> bool:
    """Whether values can be beyond it, and it can be compared with others: no NULL, and no NaN."""
    if isinstance(value, float | Decimal):
        return math.isfinite(value)
    return value is not None


# ------------------------------------------------------------------------------------- the texts


def may_match_by_text(
    texts: pa.Array[Any] | pa.ChunkedArray[Any], limits: Sequence[Limit]
) -> Any | None:
    """For each of the `texts` whether all limits are possible; None where it is not worth asking.

    A text that cannot be told, a null among them, leaves them possible.
    """
    count = len(texts)
    if not limits or count < _FEWEST_TEXTS:
        return None
    some = _some_of(texts, max(1, count // _SAMPLE))
    pattern = _pattern(some, limits)
    if pattern is None or _matches(some, pattern).true_count < _WORTH * len(some):
        return None
    return pc.invert(_matches(texts, pattern))


def _some_of(texts: Any, step: int) -> Any:
    """One in `step`, taken chunk by chunk: the chunks together may be too long for one array."""
    found, start = [], 0
    for chunk in texts.chunks if hasattr(texts, "chunks") else [texts]:
        places = range(-start % step, len(chunk), step)
        found.append(chunk.take(array_of(places, pa.int64())))
        start += len(chunk)
    return pa.concat_arrays(found)


def _matches(texts: Any, pattern: str) -> Any:
    found = pc.match_substring_regex(texts, pattern=pattern)
    found = pc.fill_null(found, scalar_of(False, pa.bool_()))
    return found.combine_chunks() if hasattr(found, "chunks") else found


def _pattern(texts: Any, limits: Sequence[Limit]) -> str | None:
    """A regular expression for texts that exclude their files, laid out as one of the `texts`."""
    beyond = [(below if each.least else above)(each.statistic.type, each.value) for each in limits]
    for place in range(0, len(texts), max(1, len(texts) // _LAYOUTS)):
        layout = _layout(texts[place])
        found = [
            f"{before}{value}[,}}]"
            for limit, value in zip(limits, beyond, strict=True)
            if value is not None and (before := _before(layout, limit.statistic.source)) is not None
        ]
        if found and sum(map(len, found)) <= _LONGEST_PATTERN:
            return f"^(?:{'|'.join(found)})"
    return None


class _Object(list[tuple[str, Any]]):
    """The members of an object, in their order."""

    def __init__(self, members: Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(members)
        if len({name for name, _ in self}) < len(self):
            raise ValueError("a name that is there twice")
        "".join(name for name, _ in self).encode()  # half of a surrogate pair is no text


def _layout(scalar: Any) -> _Object:
    """The text's objects; none where it is no JSON, no UTF-8, or more than a pattern can follow."""
    try:
        text = scalar.as_py()
        if text is None or len(text) > _LONGEST_LAYOUT:
            return _Object()
        found = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        return _Object()
    return found if isinstance(found, _Object) and _depth(found) <= _DEEPEST else _Object()


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [inner for one in level for _, inner in one if isinstance(inner, _Object)]
    return depth


def _before(layout: _Object, source: tuple[str, ...]) -> str | None:
    """What the text begins with, up to the value of `source`; None if it has none."""
    before = r"\{"
    for name, value in layout:
        if name == source[0]:
            before += f"{_name(name)}:"
            if len(source) == 1:
                return None if isinstance(value, _Object) else before
            inside = _before(value, source[1:]) if isinstance(value, _Object) else None
            return None if inside is None else before + inside
        before += f"{_name(name)}:{_any_value(value)},"
    return None


def _any_value(like: Any) -> str:
    """Any value that is an object of the same names as `like`, or no object as `like` is none."""
    if not isinstance(like, _Object):
        return _SCALAR
    return r"\{" + ",".join(f"{_name(name)}:{_any_value(value)}" for name, value in like) + r"\}"


def _name(name: str) -> str:
    return re.escape(json.dumps(name, ensure_ascii=False))
