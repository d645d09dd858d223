r"""Regular expressions of Java, as RLIKE takes them, in RE2's language; or a refusal.

The two agree on most of what predicates use, and silently differ on some of it: ``.`` and ``$``
know more line ends in Java, ``\s`` has the vertical tab, flags fold case differently. What can be
spelled exactly is, the flags i, s and u of a whole pattern among it; look-around, back references,
possessive quantifiers, other flags, ``\b``, ``\p``, nested character classes, and a ``$`` with
something behind it are refused by name.
"""

from __future__ import annotations

import re
import string

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.errors import InvalidExpressionError

__all__ = ["LINE_END", "to_re2"]

_LARGEST = (
    100_000  # characters, repetitions written out: each may be tried at every place of a text
)
_COUNTS = re.compile(r"\{(?:\d*,)?(\d+)")
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_ANY = f"[^{_LINE_ENDS}]"
_END = f"(?:(?:\\r\\n|[{_LINE_ENDS}])?\\z)"
LINE_END = f"[{_LINE_ENDS}]\\z"
"""What a text ends in that is behind Java's ``$``, in RE2's language."""
_SPACE = r"\t\n\x0b\f\r "
_CLASSES = {"d": "0-9", "w": "a-zA-Z_0-9", "s": _SPACE}
_CLOSING = re.compile(r"\)*")
_GOES_ON = re.compile(r"\|.*\)(?!\)|\||\Z)", re.DOTALL)
_FLAGS = re.compile(r"\(\?([isu]+)\)")
_DOTTED = "iI\u0130\u0131"  # Java folds all four to one with the flags i and u, RE2 does not
_ODD = "\u00df\u0130\u0131\u1e9e"  # as ranges and alone they fold differently in Java
_SAME = {"A": r"\A", "z": r"\z", "t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}


def to_re2(pattern: str, *, whether: bool = False) -> str:
    """The RE2 expression that finds what `pattern` finds in Java.

    It is for texts that do not end in a line end, as in `LINE_END`, where the pattern has a ``$``.
    Where only `whether` there is a match counts, and not which, it is for all texts.

    Raises:
        InvalidExpressionError: the pattern uses what RE2 lacks or reads differently, or is so large
            that finding it takes too long.
    """
    repeated = sum(min(int(count[-9:]), _LARGEST) for count in _COUNTS.findall(pattern))
    if len(pattern) * (1 + repeated) > _LARGEST:
        raise InvalidExpressionError(
            f"the regular expression {pattern[:100]!r} of {len(pattern):,} characters is too large "
            "with its repetitions: compare parts of the text instead"
        )
    return _Translation(pattern, whether=whether).run()


class _Translation:
    def __init__(self, pattern: str, *, whether: bool) -> None:
        self._pattern = pattern
        self._end = _END if whether else r"\z"
        self._at = 0
        self._out: list[str] = []
        self._depth = 0
        flags = _FLAGS.match(pattern)
        if flags is not None:
            self._at = flags.end()
        known = "" if flags is None else flags[1]
        self._any = "(?s:.)" if "s" in known else _ANY
        self._folds = "i" in known and "u" not in known  # letters of ASCII alone
        self._folds_all = "i" in known and "u" in known
        if self._folds_all:
            self._out.append("(?i)")

    def _refuse(self, what: str) -> InvalidExpressionError:
        return InvalidExpressionError(
            f"{what} in the regular expression {self._pattern!r} is not among what adelta "
            "evaluates; the Spark engine runs it: use it in a Spark job over this table"
        )

    def _peek(self, count: int = 1) -> str:
        return self._pattern[self._at : self._at + count]

    def run(self) -> str:
        quantified = False
        while self._at < len(self._pattern):
            c = self._peek()
            self._at += 1
            if c == "+" and quantified:
                raise self._refuse("a possessive quantifier")
            self._depth += (c == "(") - (c == ")")
            quantified = c in "*+?}" and not (quantified and c == "?")
            match c:
                case "\\":
                    self._out.append(self._escape())
                case "[":
                    self._out.append(self._class())
                case ".":
                    self._out.append(self._any)
                case "$":
                    self._out.append(self._text_end())
                case "^":
                    self._out.append(r"\A")
                case "(" if self._peek() == "?" and self._peek(2) != "?:":
                    raise self._refuse("a group that begins with (?")
                case _ if c in _ODD and self._folds_all:
                    raise self._refuse(f"{c} with the flags i and u")
                case _ if c in _DOTTED and self._folds_all:
                    self._out.append(f"[{_DOTTED}]")
                case _ if self._folds and c.isascii() and c.isalpha():
                    self._out.append(f"[{c}{c.swapcase()}]")
                case _:
                    self._out.append(c)
        return "".join(self._out)

    def _escape(self) -> str:
        c = self._peek()
        self._at += 1
        if c in _CLASSES and c:
            return f"(?-i:[{_CLASSES[c]}])"
        if c.lower() in _CLASSES and c:
            return f"(?-i:[^{_CLASSES[c.lower()]}])"
        if c == "Z":
            return self._text_end()
        if c in _SAME:
            return _SAME[c]
        if c and not c.isalnum():
            return f"\\{c}" if c.isascii() else c
        raise self._refuse(f"\\{c}" if c else "a backslash at the end")

    def _text_end(self) -> str:
        """The end of the text, or what is before a line end there: nothing may follow it."""
        closing = _CLOSING.match(self._pattern, self._at)
        assert closing is not None  # it matches the empty text
        rest = self._pattern[closing.end() :]
        inside = self._depth > len(closing[0])
        if rest and (rest[0] != "|" or (inside and _GOES_ON.match(rest))):
            raise self._refuse("$ with something behind it")
        return self._end

    def _class(self) -> str:
        out = ["["]
        if self._peek() == "^":
            self._at += 1
            out.append("^")
        while True:
            c = self._peek()
            self._at += 1
            if not c:
                raise InvalidExpressionError(
                    f"the regular expression {self._pattern!r} has a [ that is not closed"
                )
            if c == "]":
                if out[-1] in ("[", "^"):
                    raise self._refuse("a ] that begins a character class")
                if out[-1] == "-":
                    out[-1] = "\\-"
                out.append(f"{self._folded(''.join(out))}]")
                return "".join(out)
            if c == "[" or (c == "&" and self._peek() == "&"):
                raise self._refuse("a character class within another")
            if c == "\\":
                c = self._peek()
                self._at += 1
                if c == "w" and self._folds_all:
                    raise self._refuse("\\w in a character class with the flags i and u")
                if c and c in _CLASSES:
                    out.append(_CLASSES[c])
                elif c in _SAME and c not in "Az":
                    out.append(_SAME[c])
                elif c and not c.isalnum():
                    out.append(f"\\{c}" if c.isascii() else c)
                else:
                    raise self._refuse(f"\\{c} in a character class")
            else:
                out.append(c)

    def _folded(self, body: str) -> str:
        """What a class has beside what is written, since cases are one."""
        if self._folds:
            return "".join(c.swapcase() for c in _named(body, string.ascii_letters))
        if self._folds_all and (_named(body, _ODD) or _named(body, "iI") == ["I"]):
            raise self._refuse("a character class with the flags i and u and such letters")
        return _DOTTED if self._folds_all and _named(body, "i") else ""


def _named(body: str, characters: str) -> list[str]:
    """Those of the characters that a class names, be it to leave them out."""
    asked = column_of(list(characters), pa.string())
    found = pc.match_substring_regex(asked, pattern=f"[{body[1:].removeprefix('^')}]")
    return [c for c, named in zip(characters, found.to_pylist(), strict=True) if named]
