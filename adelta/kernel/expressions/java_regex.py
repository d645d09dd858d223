r"""Regular expressions of Java, as RLIKE takes them, in RE2's language; or a refusal.

The two agree on most of what predicates use, and silently differ on some of it: ``.`` and ``$``
know more line ends in Java, ``\s`` has the vertical tab, flags fold case differently. What can be
spelled exactly is; look-around, back references, possessive quantifiers, flags, ``\b``, ``\p`` and
nested character classes are refused by name.
"""

from __future__ import annotations

import re

from adelta.errors import InvalidExpressionError

__all__ = ["to_re2"]

_LARGEST = (
    100_000  # characters, repetitions written out: each may be tried at every place of a text
)
_COUNTS = re.compile(r"\{(?:\d*,)?(\d+)")
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_ANY = f"[^{_LINE_ENDS}]"
_END = f"(?:(?:\\r\\n|[{_LINE_ENDS}])?\\z)"
_SPACE = r"\t\n\x0b\f\r "
_CLASSES = {"d": "0-9", "w": "a-zA-Z_0-9", "s": _SPACE}
_SAME = {"A": r"\A", "z": r"\z", "Z": _END, "t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}


def to_re2(pattern: str) -> str:
    """The RE2 expression that finds what `pattern` finds in Java.

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
    return _Translation(pattern).run()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []

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
            quantified = c in "*+?}" and not (quantified and c == "?")
            match c:
                case "\\":
                    self._out.append(self._escape())
                case "[":
                    self._out.append(self._class())
                case ".":
                    self._out.append(_ANY)
                case "$":
                    self._out.append(_END)
                case "^":
                    self._out.append(r"\A")
                case "(" if self._peek() == "?" and self._peek(2) != "?:":
                    raise self._refuse("a group that begins with (?")
                case _:
                    self._out.append(c)
        return "".join(self._out)

    def _escape(self) -> str:
        c = self._peek()
        self._at += 1
        if c in _CLASSES and c:
            return f"[{_CLASSES[c]}]"
        if c.lower() in _CLASSES and c:
            return f"[^{_CLASSES[c.lower()]}]"
        if c in _SAME:
            return _SAME[c]
        if c and not c.isalnum():
            return f"\\{c}" if c.isascii() else c
        raise self._refuse(f"\\{c}" if c else "a backslash at the end")

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
                out.append("]")
                return "".join(out)
            if c == "[" or (c == "&" and self._peek() == "&"):
                raise self._refuse("a character class within another")
            if c == "\\":
                c = self._peek()
                self._at += 1
                if c and c in _CLASSES:
                    out.append(_CLASSES[c])
                elif c in _SAME and c not in "AzZ":
                    out.append(_SAME[c])
                elif c and not c.isalnum():
                    out.append(f"\\{c}" if c.isascii() else c)
                else:
                    raise self._refuse(f"\\{c} in a character class")
            else:
                out.append(c)
