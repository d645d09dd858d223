r"""Regular expressions as deltalake takes them, put into Java's, which adelta reads.

In deltalake ``.`` is all but a line feed, ``$`` is the end of the text alone, flags are an
argument, and `regexp_replace` takes the first match, unless its flags have a ``g``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta.deltalake.exceptions import DeltaError
from adelta.kernel.expressions.sql import quote_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PATTERN_FUNCTIONS", "java_pattern", "with_flags"]

PATTERN_FUNCTIONS = ("regexp_count", "regexp_like", "regexp_replace")
"""Functions whose second argument is a regular expression."""

_PLACES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.|\$", re.DOTALL)
_FLAGS = re.compile(r"\(\?([is]+)\)")
_GROUP = re.compile(r"\\(\d)|\$\{?(\d)\}?|(\\.?)", re.DOTALL)


def java_pattern(pattern: str, flags: str = "", *, with_start: bool = False) -> str:
    """The pattern in Java's words, or one that begins at the start of the text, its first group.

    With the flag i, letters of all alphabets fold.
    """
    if own := _FLAGS.match(pattern):
        flags, pattern = flags + own[1], pattern[own.end() :]
    dot = "." if "s" in flags else r"[^\n]"
    said = _PLACES.sub(lambda place: {".": dot, "$": r"\z"}.get(place[0], place[0]), pattern)
    if with_start:
        said, flags = f"^(.*?)(?:{said})", f"{flags}s"
    told = f"{'iu' if 'i' in flags else ''}{'s' if 's' in flags else ''}"
    return f"(?{told}){said}" if told else said


def with_flags(name: str, arguments: Sequence[str], texts: Sequence[str | None]) -> list[str]:
    """The arguments of a function of regular expressions, as Spark's has them.

    `texts` are the arguments that are texts, as they are meant, and None for others.

    Raises:
        DeltaError: the expression, its flags or what is put in its place is no text.
    """
    if len(arguments) < 2 or (name == "regexp_count" and len(arguments) > 2):
        return list(arguments)
    pattern = texts[1]
    place = {"regexp_like": 2, "regexp_replace": 3}.get(name, len(arguments))
    flags = texts[place] if len(arguments) > place else ""
    if pattern is None or flags is None:
        raise DeltaError(f"{name} needs its regular expression, and its flags, as texts")
    if unknown := set(flags) - set("gis"):
        raise DeltaError(
            f"Arrow error: Compute error: {name}() does not support the flags "
            f"{''.join(sorted(unknown))!r}; use i, s and g"
        )
    if name != "regexp_replace" or len(arguments) < 3:
        return [arguments[0], quote_text(java_pattern(pattern, flags))]
    by = texts[2]
    if by is None:
        raise DeltaError("regexp_replace needs what it puts in the place of matches as a text")
    groups = 0 if "g" in flags else 1
    by = _GROUP.sub(lambda found: _java_group(found, groups), by)
    pattern = java_pattern(pattern, flags, with_start=bool(groups))
    if groups:
        by = ("$1\\" if by[:1].isdigit() else "$1") + by
    return [arguments[0], quote_text(pattern), quote_text(by)]


def _java_group(found: re.Match[str], before: int) -> str:
    """A group of a replacement, behind so many others, or a backslash."""
    number = found[1] or found[2]
    return found[0].replace("\\", "\\\\") if number is None else f"${int(number) + before}"
