"""Functions of regular expressions: Java's, as far as RE2 finds the same (see `java_regex`).

Patterns are constants. One that matches the empty string is refused: Java and RE2 do not go on
alike after such a match.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.java_regex import LINE_END, to_re2
from adelta.kernel.expressions.library._function import INT, STRING, Function, Values
from adelta.kernel.schema import types as t

__all__ = ["PATTERNS"]


_GROUP = re.compile(r"(\\.|\[(?:\\.|[^\]\\])*\])|\((?!\?)", re.DOTALL)
_ANCHOR = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\^", re.DOTALL)
_ONE_TEXT = pa.StringArray.from_buffers(
    1, pa.py_buffer(bytes(8)), pa.py_buffer(b"")
)  # one empty text


def _translated(values: Values, pattern: str) -> str:
    """The pattern for RE2, which finds in the values what Java would.

    Raises:
        InvalidExpressionError: it is none that adelta evaluates.
    """
    translated = to_re2(pattern)
    if translated != to_re2(pattern, whether=True):
        line_ends = pc.match_substring_regex(values, pattern=LINE_END)
        if pc.any(line_ends).as_py():
            raise InvalidExpressionError(
                f"the regular expression {pattern[:100]!r} looks for the end of a text that ends "
                "in a line end, before which Java's $ is; use \\z, or take the line end off"
            )
    return translated


def _never_empty(values: Values, pattern: str, name: str) -> str:
    """The pattern for RE2, as `_translated` has it.

    Raises:
        InvalidExpressionError: it is none that adelta evaluates.
    """
    translated = _translated(values, pattern)
    if pc.match_substring_regex(_ONE_TEXT, pattern=translated)[0].as_py():
        raise InvalidExpressionError(
            f"{name}: the regular expression {pattern[:100]!r} matches the empty string, which "
            "adelta does not evaluate; the Spark engine runs it: use it in a Spark job over this "
            "table"
        )
    return translated


def _groups(pattern: str) -> int:
    return sum(match[1] is None for match in _GROUP.finditer(pattern))


def _replacement(text: str, groups: int) -> str:
    """Java's replacement, with ``$1`` for a group and a backslash before what is taken as it is."""
    out: list[str] = []
    at = 0
    while at < len(text):
        c = text[at]
        at += 1
        if c == "\\":
            if at == len(text):
                raise InvalidExpressionError("the replacement ends in a backslash")
            c = text[at]
            at += 1
            out.append("\\\\" if c == "\\" else c)
        elif c == "$":
            digit = text[at : at + 1]
            more = text[at + 1 : at + 2]
            if not (digit.isascii() and digit.isdigit()) or (more.isascii() and more.isdigit()):
                raise InvalidExpressionError(
                    f"the replacement {text[:100]!r} names a group by more than one digit, or by "
                    "name, which adelta does not evaluate; use $0 to $9"
                )
            if int(digit) > groups:
                raise InvalidExpressionError(
                    f"the replacement {text[:100]!r} names group {digit}, and the regular "
                    f"expression has {groups}"
                )
            out.append(f"\\{digit}")
            at += 1
        else:
            out.append(c)
    return "".join(out)


def _regexp_replace(values: Values, pattern: str, by: str) -> Values:
    translated = _never_empty(values, pattern, "regexp_replace")
    replacement = _replacement(by, _groups(translated))
    return pc.replace_substring_regex(values, pattern=translated, replacement=replacement)


def _named(pattern: str) -> str:
    """The pattern with a name for every group, g1 and so on, and g0 for all of it."""
    count = 0

    def name(match: re.Match[str]) -> str:
        nonlocal count
        if match[1] is not None:
            return match[1]
        count += 1
        return f"(?P<g{count}>"

    return f"(?P<g0>{_GROUP.sub(name, pattern)})"


def _regexp_extract(values: Values, pattern: str, group: int = 1) -> Values:
    return pc.if_else(
        pc.is_valid(values), pc.fill_null(_extracted(values, pattern, group), ""), None
    )


def _regexp_substr(values: Values, pattern: str) -> Values:
    found = _extracted(values, pattern, 0)
    return pc.if_else(pc.equal(found, ""), None, found)  # Spark's is `nullif` of what is extracted


def _extracted(values: Values, pattern: str, group: int) -> Values:
    translated = _translated(values, pattern)
    groups = _groups(translated)
    if not 0 <= group <= groups:
        raise InvalidExpressionError(
            f"the regular expression {pattern[:100]!r} has the groups 0 to {groups}, not {group}"
        )
    found = pc.extract_regex(values, pattern=_named(translated))
    return pc.struct_field(found, f"g{group}")


def _is_anchored(translated: str) -> bool:
    """Whether the pattern looks for the beginning of a text."""
    return any(part[0] in ("^", "\\A") for part in _ANCHOR.finditer(translated))


def _marked(values: Values, translated: str, most: int) -> tuple[Values, str]:
    """The values with a mark in place of what matches, and the mark, which is in none of them.

    Arrow looks for the next match in what is left of a text, as if that began there, other than
    where it replaces what it finds. `most` is how many are replaced; -1 is all.
    """
    number = 0
    while pc.any(pc.match_substring(values, pattern=f"\0{number}\1"), min_count=0).as_py():
        number += 1
    mark = f"\0{number}\1"
    replaced = pc.replace_substring_regex(
        values, pattern=translated, replacement=mark, max_replacements=most
    )
    return replaced, mark


def _regexp_count(values: Values, pattern: str) -> Values:
    translated = _never_empty(values, pattern, "regexp_count")
    if _is_anchored(translated):
        marked, mark = _marked(values, translated, -1)
        return pc.count_substring(marked, pattern=mark).cast(pa.int32())
    return pc.count_substring_regex(values, pattern=translated).cast(pa.int32())


def _split(values: Values, pattern: str, limit: int = -1) -> Values:
    translated = _never_empty(values, pattern, "split")
    if limit == 1:
        return column_of([None if v is None else [v] for v in values.to_pylist()], _TEXTS)
    if _is_anchored(translated):
        marked, mark = _marked(values, translated, max(limit - 1, -1))
        found = pc.split_pattern(marked, pattern=mark)
    else:
        most = {"max_splits": limit - 1} if limit > 0 else {}
        found = pc.split_pattern_regex(values, pattern=translated, **most)
    mask = found.is_null() if found.null_count else None
    arrays: Any = pa.ListArray
    return arrays.from_arrays(found.offsets, found.values, type=_TEXTS, mask=mask)


_TEXTS = pa.list_(pa.field("element", pa.string(), nullable=False))

PATTERNS = {
    "regexp_count": Function(
        group="regular expressions",
        example="regexp_count('banana', 'an')",
        parameters=(STRING, STRING),
        constants=(1,),
        result=t.INTEGER,
        compute=_regexp_count,
        safe=False,
    ),
    "regexp_extract": Function(
        group="regular expressions",
        example=r"regexp_extract('100-200', '([0-9]+)-([0-9]+)', 2)",
        parameters=(STRING, STRING, INT),
        optional=1,
        constants=(1, 2),
        result=t.STRING,
        compute=_regexp_extract,
        safe=False,
    ),
    "regexp_replace": Function(
        group="regular expressions",
        example="regexp_replace('a1b22', '[0-9]+', '#')",
        parameters=(STRING, STRING, STRING),
        constants=(1, 2),
        result=t.STRING,
        compute=_regexp_replace,
        safe=False,
    ),
    "regexp_substr": Function(
        group="regular expressions",
        example="regexp_substr('a1b22', '[0-9]+')",
        parameters=(STRING, STRING),
        constants=(1,),
        result=t.STRING,
        compute=_regexp_substr,
        safe=False,
    ),
    "split": Function(
        group="regular expressions",
        example="split('a,b,,c', ',')",
        parameters=(STRING, STRING, INT),
        optional=1,
        constants=(1, 2),
        result=t.ArrayType(t.STRING, contains_null=False),
        compute=_split,
        safe=False,
    ),
}
