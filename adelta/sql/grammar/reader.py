"""A cursor over the tokens of a statement, with what all statements are made of.

Tokens and expressions are those of `adelta.kernel.expressions`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from adelta.errors import InvalidExpressionError, InvalidOptionError, InvalidStatementError
from adelta.kernel.expressions.lexer import Token, tokenize, unescape
from adelta.kernel.expressions.nodes import TRUE
from adelta.kernel.expressions.parse import parse_part
from adelta.kernel.schema.type_text import parse_type
from adelta.sql.statements import AsOf, Expression, TableName

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeVar

    from adelta.kernel.schema.types import DataType
    from adelta.sql.statements import Path

    T = TypeVar("T")

__all__ = ["FORMATS", "Reader"]

FORMATS = ("delta", "adelta")
"""What stands in front of a path that names a table."""

_STRINGS = ("string", "raw")
_OPENING, _CLOSING = ("(", "[", "CASE"), (")", "]", "END")
_BEHIND_EXPRESSIONS = (",", ")", ";", "THEN", "WHEN", "WHERE")
_SHOWN = 200


class Reader:
    """The tokens of a statement, read from left to right; `zone` is that of times without one.

    `now` is the time that `current_timestamp` and the like stand for; without it they are refused.
    Of expressions that are `unread` there is only the text, and a node that says nothing. So it is
    of those with `queries` in them, where these may be.
    """

    def __init__(
        self,
        text: str,
        zone: str = "UTC",
        now: datetime | None = None,
        *,
        unread: bool = False,
        queries: bool = False,
    ) -> None:
        self.text = text
        self._unread = unread
        self._queries = queries
        self._zone = zone
        self._now = now
        try:
            self._tokens = tokenize(text)
        except InvalidExpressionError as error:
            raise InvalidStatementError(str(error)) from error
        self._next = 0

    # ------------------------------------------------------------------------------ the stream

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._next]

    @property
    def is_unread(self) -> bool:
        """Whether of expressions there is only the text."""
        return self._unread

    @property
    def at(self) -> int:
        """Which token is next."""
        return self._next

    def ahead(self, count: int = 1) -> Token:
        """The token so many behind the next one."""
        return self._tokens[min(self._next + count, len(self._tokens) - 1)]

    def take(self) -> Token:
        """The next token, which is read then."""
        token = self.token
        self._next += token.kind != "end"
        return token

    def back(self, at: int) -> None:
        """Read on from the token `at` again."""
        self._next = at

    def follows(self, *words: str) -> bool:
        """Whether the next tokens are these words."""
        return all(self.ahead(place).upper == word for place, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Read these words, if they are next."""
        found = self.follows(*words)
        self._next += len(words) * found
        return found

    def expect(self, *words: str) -> None:
        """Read these words.

        Raises:
            InvalidStatementError: they are not next.
        """
        for word in words:
            if not self.accept(word):
                self.fail(f"expected {word}")

    def expect_one(self, *words: str) -> None:
        """Read one of these words.

        Raises:
            InvalidStatementError: none of them is next.
        """
        if not any(self.accept(word) for word in words):
            self.fail(f"expected {' or '.join(words)}")

    def fail(self, why: str, token: Token | None = None) -> NoReturn:
        """Refuse the statement at a token, by default the next one."""
        raise self.error(why, token)

    def error(self, why: str, token: Token | None = None) -> InvalidStatementError:
        """The error that refuses the statement at a token."""
        token = token or self.token
        found = repr(token.text[:_SHOWN]) if token.text else "the end"
        line = self.text.count("\n", 0, token.at) + 1
        column = token.at - self.text.rfind("\n", 0, token.at)
        place = f"line {line}, column {column}" if "\n" in self.text else f"character {column}"
        shown = self.text if len(self.text) <= _SHOWN else self.text[:_SHOWN] + "…"
        return InvalidStatementError(
            f"{why}, found {found} at {place} of the statement: {shown}",
            position=token.at,
            line=line,
            column=column,
        )

    def end(self) -> None:
        """Read to the end of the statement.

        Raises:
            InvalidStatementError: there is more.
        """
        while self.accept(";"):
            pass
        if self.token.kind != "end":
            self.fail("expected the end of the statement")

    def slice(self, start: int, end: int | None = None) -> str:
        """The text from the token `start` to the one before `end`, by default the next one."""
        last = self._tokens[(self._next if end is None else end) - 1]
        return self.text[self._tokens[start].at : last.at + len(last.text)]

    # ----------------------------------------------------------------------------------- names

    def name(self, what: str = "a name") -> str:
        """A name, quoted or not."""
        token = self.take()
        if token.kind == "quoted" and len(token.text) > 2:
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            self.fail(f"expected {what}", token)
        return token.text

    def path(self, what: str = "the name of a column") -> Path:
        """A name of several parts, with dots between."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        return tuple(parts)

    def table(self) -> TableName:
        """A table: its name, ``IDENTIFIER('name')``, a path in quotes, or ``delta.`path` ``."""
        begin = self.token
        if self.follows("IDENTIFIER", "(") and self.ahead(2).kind in _STRINGS:
            return self._identifier()
        if begin.kind in _STRINGS:
            return TableName(path=self.string(), position=begin.at)
        is_path = self._begins_path()
        parts = self.path("a table: its name, delta.`path` or 'path'")
        if is_path and len(parts) == 2:
            return TableName(path=parts[1], position=begin.at)
        return TableName(parts, position=begin.at)

    def _identifier(self) -> TableName:
        """``IDENTIFIER('name' [|| 'more' ...])``."""
        begin = self.token
        self.expect("IDENTIFIER", "(")
        text = self.string()
        while self.accept("||"):
            text += self.string()
        if not self.accept(")"):
            self.fail("expected )")
        named = Reader(text)
        found = replace(named.table(), position=begin.at)
        named.end()
        return found

    def column_of_table(self) -> tuple[TableName, str]:
        """A column behind its table: ``sales.price``, ``delta.`path`.price``."""
        begin, is_path = self.token, self._begins_path()
        *parts, column = self.path("a table, a dot and a column of it")
        if not parts or (is_path and len(parts) == 1):
            self.fail("expected a table, a dot and a column of it", begin)
        if is_path and len(parts) == 2:
            return TableName(path=parts[1], position=begin.at), column
        return TableName(tuple(parts), position=begin.at), column

    def _begins_path(self) -> bool:
        """Whether ``delta.`...` `` is next."""
        named = self.token.kind == "word" and self.token.text.lower() in FORMATS
        return named and self.ahead().text == "." and self.ahead(2).kind == "quoted"

    def alias(self, *ends: str) -> str | None:
        """``[AS] name``, if it is next; a bare word of `ends` is none."""
        if self.accept("AS"):
            return self.name("an alias")
        token = self.token
        if token.kind == "quoted" or (token.kind == "word" and token.upper not in ends):
            return self.name()
        return None

    def listed(self, item: Callable[[], T], *, parentheses: bool = True) -> tuple[T, ...]:
        """Items with commas between, in parentheses unless these are left out."""
        if parentheses:
            self.expect("(")
        items = [item()]
        while self.accept(","):
            items.append(item())
        if parentheses and not self.accept(")"):
            self.fail("expected , or )")
        return tuple(items)

    # ------------------------------------------------------------------------------- constants

    def string(self) -> str:
        """A text in quotes; several of them in a row are one."""
        parts = [self._one_string()]
        while self.token.kind in _STRINGS:
            parts.append(self._one_string())
        return "".join(parts)

    def _one_string(self) -> str:
        token = self.token
        if token.kind not in _STRINGS:
            self.fail("expected a text in quotes")
        try:
            return unescape(self.take())
        except InvalidExpressionError as error:
            raise self.error(str(error), token) from error

    def integer(self) -> int:
        """A whole number, which may be negative."""
        negative = self.accept("-")
        token = self.take()
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 40:
            self.fail("expected a whole number", token)
        return -int(token.text) if negative else int(token.text)

    def number(self) -> float:
        """A number, which may have a fraction."""
        negative = self.accept("-")
        token = self.take()
        try:
            found = float(token.text) if token.kind == "number" else None
        except ValueError:  # it has a suffix
            found = None
        if found is None:
            self.fail("expected a number", token)
        return -found if negative else found

    def property_key(self) -> str:
        """The key of a property: a text, or names with dots between."""
        if self.token.kind in _STRINGS:
            return self._one_string()  # the value may stand right behind it
        return ".".join(self.path("the name of a property"))

    def property_value(self) -> str:
        """The value of a property: a text, a number or a truth value."""
        if self.token.kind in _STRINGS:
            return self.string()
        sign = "-" if self.accept("-") else ""
        token = self.take()
        if token.kind == "number":
            return sign + token.text
        if sign or token.kind != "word":
            self.fail("expected the value of a property: text in quotes, a number, or true", token)
        return token.text.lower() if token.upper in ("TRUE", "FALSE") else token.text

    def properties(self) -> dict[str, str]:
        """``('key' = 'value', …)``."""
        found: dict[str, str] = {}

        def one() -> None:
            begin = self.token
            key = self.property_key()
            if key in found:
                self.fail(f"the property {key!r} is given twice", begin)
            _ = self.accept("=") or self.accept("==")
            found[key] = self.property_value()

        self.listed(one)
        return found

    # ----------------------------------------------------------------------- types, expressions

    def type_text(self) -> str:
        """A type, as it is written."""
        begin = self.at
        token = self.take()
        if token.kind != "word":
            self.fail("expected a type", token)
        if self.token.text == "<" or self.follows("("):
            self._skip_nested(token)
        elif self.token.text == "<>":
            self.take()
        return self.slice(begin)

    def _skip_nested(self, begin: Token) -> None:
        depth = 0
        while True:
            token = self.take()
            if token.kind == "end":
                self.fail("the type is not closed", begin)
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token.text, 0)
            if not depth:
                return

    def type(self) -> DataType:
        """A type."""
        begin = self.token
        text = self.type_text()
        try:
            return parse_type(text)
        except InvalidOptionError as error:
            raise self.error(str(error), begin) from error

    def _skip_expression(self) -> None:
        begin, depth = self.token, 0
        while self.token.kind != "end":
            word = self.token.upper
            if not depth and word in _BEHIND_EXPRESSIONS:
                break
            depth += (word in _OPENING) - (word in _CLOSING)
            self.take()
        if self.token is begin or depth:
            self.fail("expected an expression", begin)

    def node(self, end: int | None = None) -> Expression:
        """An expression, and its text; with `end` it ends there, before the token of that number.

        Raises:
            InvalidStatementError: it ends before.
        """
        begin, tokens = self._next, self._tokens
        if end is not None:
            tokens = [*tokens[:end], Token("end", "", tokens[end].at)]
        if self._unread:
            if end is None:
                self._skip_expression()
            else:
                self._next = end
            return Expression(TRUE, self.slice(begin))
        node, self._next = parse_part(self.text, tokens, begin, zone=self._zone, now=self._now)
        if end is not None and self._next < end:
            self.fail("expected the end of the expression")
        return Expression(node, self.slice(begin))

    def node_or_query(self) -> Expression:
        """An expression, in which there may be queries."""
        begin = self._next
        if self._queries:
            self._skip_expression()
            tokens = self._tokens[begin : self._next]
            if any(
                a.operator == "(" and b.upper in ("SELECT", "WITH") for a, b in pairwise(tokens)
            ):
                return Expression(TRUE, self.slice(begin), has_query=True)
            self._next = begin
        return self.node()

    def as_of(self) -> AsOf | None:
        """``[FOR] VERSION AS OF n`` or ``[FOR] TIMESTAMP AS OF time``, if it is next."""
        begin = self._next
        self.accept("FOR")
        if self.accept("VERSION", "AS", "OF") or self.accept("SYSTEM_VERSION", "AS", "OF"):
            token = self.token
            if token.kind not in _STRINGS:
                return AsOf(version=self.integer())
            text = self.string().strip()
            if not text.isdecimal() or len(text) > 40:
                self.fail("expected the number of a version", token)
            return AsOf(version=int(text))
        if self.accept("TIMESTAMP", "AS", "OF") or self.accept("SYSTEM_TIME", "AS", "OF"):
            return AsOf(timestamp=self.node().node)
        self.back(begin)
        return None

    def to_closing(self) -> int:
        """Read to the parenthesis that closes the one just read; which token that is."""
        begin, depth = self.ahead(-1), 1
        while depth:
            token = self.take()
            if token.kind == "end":
                self.fail("the parenthesis is not closed", begin)
            depth += {"(": 1, ")": -1}.get(token.operator, 0)
        return self._next - 1
