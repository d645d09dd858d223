"""Spark SQL text → tokens: words, numbers, strings, quoted names, operators.

The rules are those of Spark's `SqlBaseLexer`: keywords in any case, backticks around names (doubled
inside), single or double quotes around strings, Spark's escapes, ``r'…'`` for none, suffixes on
numbers, comments in comments, and those of a line that go on behind a backslash at its end.
"""

from __future__ import annotations

import re

from adelta._dataclasses import dataclass
from adelta.errors import InvalidExpressionError

__all__ = ["MAX_TEXT", "Token", "tokenize", "unescape"]

MAX_TEXT = 1 << 20
"""Characters that an expression may have: room for an IN list of many thousand values."""

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|--(?:\\\n|[^\r\n])*)
  | (?P<comment>/\*(?!\+))
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<bytes>[xX](?:'[^']*'|"[^"]*"))
  | (?P<string>'(?:[^'\\]++|\\.|'')*'|"(?:[^"\\]++|\\.|"")*")
  | (?P<quoted>`(?:[^`]++|``)*`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|Bd|bD|[LlSsYyDdFf])?(?![\w.]))
  | (?P<word>[^\W\d]\w*|\d+\w+)
  | (?P<operator><=>|<>|<=|>=|!=|!<|!>|==|\|\||::|->|[-+*/%(),.=<>!\[\]~|^:;?]|&(?!&))
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*(?!\+)|\*/")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_NAMED_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `kind` is that of the lexer's groups, `text` is as written, `at` counts from 0."""

    kind: str
    text: str
    at: int

    @property
    def upper(self) -> str:
        """The word in upper case where this is a bare word, else the operator or nothing."""
        return self.text.upper() if self.kind == "word" else self.operator

    @property
    def operator(self) -> str:
        """The operator, or nothing."""
        return self.text if self.kind == "operator" else ""


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, ending in one of kind ``end``.

    Raises:
        InvalidExpressionError: the text is too long, or has a character that begins nothing.
    """
    if len(text) > MAX_TEXT:
        raise InvalidExpressionError(
            f"the expression has {len(text):,} characters; the limit is {MAX_TEXT:,}: "
            "join with a table of the values instead of listing them"
        )
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            begin = text[at]
            what = "is not closed" if begin in "'\"`" else "is not part of an expression"
            what = "is half of a &&, which is written AND" if begin == "&" else what
            raise InvalidExpressionError(
                f"{begin!r} at character {at + 1} {what}: {text[at : at + 40]!r}"
            )
        if match.lastgroup == "comment":
            at = _end_of_comment(text, at)
            continue
        if match.lastgroup != "skip":
            tokens.append(Token(str(match.lastgroup), match[0], at))
        at = match.end()
    tokens.append(Token("end", "", at))
    return tokens


def _end_of_comment(text: str, at: int) -> int:
    """Where the comment that begins at a place ends, behind those that are in it."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += -1 if mark[0] == "*/" else 1
        if not depth:
            return mark.end()
    raise InvalidExpressionError(f"the comment at character {at + 1} is not closed by */")


def unescape(token: Token) -> str:
    """The characters that a ``string`` or ``raw`` token stands for."""
    if token.kind == "raw":
        return token.text[2:-1]
    quote, body = token.text[0], token.text[1:-1]
    if quote * 2 in body:
        body = _undouble(body, quote)
    if "\\" not in body:
        return body
    try:
        joined = _ESCAPE.sub(_replacement, body)
        # Two \u escapes may stand for one character above the basic plane.
        return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except (UnicodeDecodeError, ValueError, OverflowError) as error:
        raise InvalidExpressionError(
            f"the string at character {token.at + 1} has an escape that is no character"
        ) from error


def _undouble(body: str, quote: str) -> str:
    return re.sub(rf"(\\.)|{quote}{quote}", lambda m: m[1] or quote, body, flags=re.DOTALL)


def _replacement(match: re.Match[str]) -> str:
    short, long, octal, other = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    if other in "%_":
        return "\\" + other  # LIKE reads these two itself
    return _NAMED_ESCAPES.get(other, other)
