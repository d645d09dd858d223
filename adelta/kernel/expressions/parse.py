"""Spark SQL text → nodes.

The grammar and its precedence are those of Spark's `SqlBaseParser`, for the part of it that adelta
evaluates; anything else is refused with its name and place. Names are kept as written and nothing
is rewritten for another dialect, so that a function or a literal means what it means in Spark.

Two limits keep hostile text harmless: its length, and how deep it nests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions import literals
from adelta.kernel.expressions.depth import MAX_DEPTH, TOO_DEEP, check_depth
from adelta.kernel.expressions.functions import ALIASES, FUNCTIONS, near
from adelta.kernel.expressions.lexer import Token, tokenize, unescape
from adelta.kernel.expressions.library import ELEMENT
from adelta.kernel.expressions.library.intervals import (
    MICROS,
    parse_day_to_second,
    parse_interval,
)
from adelta.kernel.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    Arithmetic,
    Bound,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    conjunction,
    disjunction,
)
from adelta.kernel.expressions.rewritten import REWRITTEN
from adelta.kernel.expressions.text_values import time_zone
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = ["parse_expression", "parse_part"]

# How tightly an operator binds; a predicate such as IS NULL binds less than a comparison does.
_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(1, 9)

_COMPARISONS = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "<>": "!=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    "!>": "<=",
    ">": ">",
    ">=": ">=",
    "!<": ">=",
}
_ARITHMETIC = {"+": _SUM, "-": _SUM, "||": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
_PREDICATES = ("IS", "IN", "LIKE", "RLIKE", "REGEXP", "BETWEEN")
_NOT_NAMES = {"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "WHEN", "THEN", "ELSE", "SELECT"}
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_NOW = {
    "CURRENT_DATE": t.DATE,
    "CURDATE": t.DATE,
    "CURRENT_TIMESTAMP": t.TIMESTAMP,
    "LOCALTIMESTAMP": t.TIMESTAMP_NTZ,
    "NOW": t.TIMESTAMP,
}
_TYPES: dict[str, t.DataType] = {
    "BIGINT": t.LONG,
    "BINARY": t.BINARY,
    "BOOLEAN": t.BOOLEAN,
    "BYTE": t.BYTE,
    "DATE": t.DATE,
    "DEC": t.DecimalType(10, 0),
    "DECIMAL": t.DecimalType(10, 0),
    "DOUBLE": t.DOUBLE,
    "FLOAT": t.FLOAT,
    "INT": t.INTEGER,
    "INTEGER": t.INTEGER,
    "LONG": t.LONG,
    "NUMERIC": t.DecimalType(10, 0),
    "REAL": t.FLOAT,
    "SHORT": t.SHORT,
    "SMALLINT": t.SHORT,
    "STRING": t.STRING,
    "TIMESTAMP": t.TIMESTAMP,
    "TIMESTAMP_LTZ": t.TIMESTAMP,
    "TIMESTAMP_NTZ": t.TIMESTAMP_NTZ,
    "TINYINT": t.BYTE,
}
# Those that are functions too: `int(x)` is `CAST(x AS INT)`.
_CASTS = {"BIGINT", "BINARY", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "SMALLINT"}
_CASTS |= {"STRING", "TIMESTAMP", "TINYINT"}
_FIELDS = {
    "YEAR": "year",
    "MONTH": "month",
    "DAY": "day",
    "HOUR": "hour",
    "MINUTE": "minute",
    "QUARTER": "quarter",
    "WEEK": "weekofyear",
    "DOY": "dayofyear",
    "DAYOFWEEK": "dayofweek",
}


def parse_expression(text: str, *, zone: str = "UTC", now: datetime | None = None) -> Node:
    """The node that `text` spells; `zone` is that of timestamp literals which name none.

    `now` is the time that `current_timestamp` and the like stand for, in UTC. Without it they are
    refused: a constraint, say, means the same whenever it is looked at.

    Example: ``parse_expression("price * 2 > 10 AND name LIKE 'a%'")``.

    Raises:
        InvalidExpressionError: the text is no expression, or uses what adelta does not evaluate.
    """
    parser = _Parser(text, zone, now)
    node = parser.expression(0)
    parser.finish()
    return check_depth(node)


def parse_part(
    text: str,
    tokens: Sequence[Token],
    at: int,
    *,
    zone: str = "UTC",
    now: datetime | None = None,
) -> tuple[Node, int]:
    """The expression that begins at the token `at` of a statement, and where the next token is.

    `tokens` are those of `text`. What follows the expression is not looked at. `now` is as in
    `parse_expression`.

    Raises:
        InvalidExpressionError: no expression begins there, or it uses what adelta does not
            evaluate.
    """
    parser = _Parser(text, zone, now, tokens, at)
    node = parser.expression(0)
    return check_depth(node), parser.at


class _Parser:
    """A Pratt parser: `expression` reads whatever binds at least as tightly as it is told."""

    def __init__(
        self,
        text: str,
        zone: str,
        now: datetime | None,
        tokens: Sequence[Token] | None = None,
        at: int = 0,
    ) -> None:
        self._text = text
        self._zone = zone
        self._now = now
        self._tokens = tokenize(text) if tokens is None else tokens
        self._what = "expression" if tokens is None else "statement"
        self._next = at
        self._depth = 0

    @property
    def at(self) -> int:
        """Which token comes next."""
        return self._next

    # ------------------------------------------------------------------------------ the stream

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _accept(self, *words: str) -> bool:
        """Take the next tokens where they are exactly these words."""
        ahead = self._tokens[self._next : self._next + len(words)]
        if [token.upper for token in ahead] != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._fail(f"expected {word}")

    def _fail(self, why: str, token: Token | None = None) -> NoReturn:
        raise self._error(why, token)

    def _error(self, why: str, token: Token | None = None) -> InvalidExpressionError:
        token = token or self._token
        found = repr(token.text) if token.text else "the end"
        shown = self._text if len(self._text) <= 200 else self._text[:200] + "…"
        return InvalidExpressionError(
            f"{why}, found {found} at character {token.at + 1} of the {self._what}: {shown}"
        )

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidExpressionError(
            f"{what} is not among what adelta evaluates; the Spark engine runs it: use it in a "
            f"Spark job over this table. The {self._what}: {self._text[:200]}"
        )

    def finish(self) -> None:
        if self._token.kind != "end":
            self._fail("expected the end of the expression")

    # ------------------------------------------------------------------------------- operators

    def expression(self, least: int) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidExpressionError(TOO_DEEP)
        left = self._prefix(least)
        while (longer := self._infix(left, least)) is not None:
            left = longer
        self._depth -= 1
        return left

    def _prefix(self, least: int) -> Node:
        if least <= _NOT and (self._accept("NOT") or self._accept("!")):
            operand = self.expression(_NOT)
            # A negation is a truth value: only AND and OR may follow it.
            return self._logic_only(Not(operand), least)
        if self._accept("-"):
            if self._token.kind == "number":
                return literals.number_literal(self._take().text, negative=True)
            return Negate(self.expression(_SIGN))
        if self._accept("+"):
            return self.expression(_SIGN)
        return self._postfix(self._primary())

    def _infix(self, left: Node, least: int) -> Node | None:
        word = self._token.upper
        if word in _COMPARISONS and least <= _COMPARISON:
            self._take()
            return Comparison(_COMPARISONS[word], left, self.expression(_COMPARISON + 1))
        if (power := _PRODUCT if word == "DIV" else _ARITHMETIC.get(word)) and least <= power:
            self._take()
            right = self.expression(power + 1)
            if word != "||":
                return Arithmetic(word.lower(), left, right)
            texts = [left, right]
            while self._accept("||"):
                texts.append(self.expression(power + 1))
            return Call("concat", tuple(texts))
        if least <= _PREDICATE and (predicate := self._predicate(left)) is not None:
            return self._logic_only(predicate, least)
        return self._logic(left, least)

    def _logic(self, left: Node, least: int) -> Node | None:
        for word, power, join in (("AND", _AND, conjunction), ("OR", _OR, disjunction)):
            if least <= power and self._token.upper == word:
                parts = [left]
                while self._accept(word):
                    parts.append(self.expression(power + 1))
                return join(*parts)
        return None

    def _logic_only(self, left: Node, least: int) -> Node:
        while (longer := self._logic(left, least)) is not None:
            left = longer
        token = self._token
        if token.upper in _COMPARISONS or token.upper in _ARITHMETIC or token.upper == "DIV":
            self._fail("expected AND, OR or the end; put the part before it in parentheses")
        return left

    def _predicate(self, left: Node) -> Node | None:
        negated = self._token.upper in ("NOT", "!")
        word = self._tokens[self._next + negated].upper if negated else self._token.upper
        if word not in _PREDICATES and word != "ILIKE":
            return None
        if negated and word == "IS":
            self._fail("expected IN, LIKE, RLIKE or BETWEEN after NOT")
        self._next += 1 + negated
        match word:
            case "IS":
                return self._is(left)
            case "IN":
                found: Node = self._in(left)
            case "BETWEEN":
                low = Bound(">=", left, self.expression(_COMPARISON))
                self._expect("AND")
                found = And((low, Bound("<=", left, self.expression(_COMPARISON))))
            case "LIKE":
                found = self._like(left)
            case "RLIKE" | "REGEXP":
                found = Call("rlike", (left, self.expression(_COMPARISON)))
            case _:
                found = self._like(left, folds=True)
        return Not(found) if negated else found

    def _is(self, left: Node) -> Node:
        negated = self._accept("NOT")
        if self._accept("NULL") or self._accept("UNKNOWN"):
            found: Node = IsNull(left)
        elif self._accept("TRUE"):
            found = Comparison("<=>", left, TRUE)
        elif self._accept("FALSE"):
            found = Comparison("<=>", left, FALSE)
        elif self._accept("DISTINCT", "FROM"):
            same = Comparison("<=>", left, self.expression(_COMPARISON))
            return same if negated else Not(same)
        else:
            self._fail("expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return Not(found) if negated else found

    def _in(self, left: Node) -> Node:
        self._expect("(")
        if self._token.upper in ("SELECT", "WITH"):
            self._refuse("a subquery")
        if self._token.upper == ")":
            self._fail("IN needs at least one value")
        return In(left, self._list(")"))

    def _like(self, left: Node, *, folds: bool = False) -> Node:
        if self._token.upper in ("ANY", "SOME", "ALL"):
            self._refuse(f"LIKE {self._token.upper}")
        pattern = self.expression(_COMPARISON)
        escape = "\\"
        if self._accept("ESCAPE"):
            token = self._take()
            escape = unescape(token) if token.kind in ("string", "raw") else ""
            if len(escape) != 1:
                self._fail("ESCAPE needs one character in quotes", token)
        return self._like_of(left, pattern, escape, folds=folds)

    def _like_of(self, left: Node, pattern: Node, escape: str, *, folds: bool = False) -> Node:
        if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
            self._refuse("LIKE with a pattern that is not a string literal")
        if folds:  # ILIKE
            return Like(Call("lower", (left,)), pattern.value.lower(), escape)
        return Like(left, pattern.value, escape)

    # -------------------------------------------------------------------------------- operands

    def _list(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        if not self._accept(closing):
            items.append(self.expression(0))
            while self._accept(","):
                items.append(self.expression(0))
            self._expect(closing)
        return tuple(items)

    def _postfix(self, node: Node) -> Node:
        while self._token.kind == "operator":
            if self._accept("::"):
                node = Cast(node, self._type())
            elif self._token.text == "." and isinstance(node, Column):
                self._take()
                node = Column((*node.path, self._name()))
            elif self._accept("["):
                node = Call(ELEMENT, (node, self.expression(0)))
                self._expect("]")
            elif self._token.text == ".":
                self._refuse("field access on something that is not a column")
            elif self._token.text in ("->", "&", "|", "^", ":", "?"):
                self._refuse(f"the operator {self._token.text}")
            else:
                break
        return node

    def _name(self) -> str:
        token = self._take()
        if token.kind not in ("quoted", "word"):
            self._next -= token.kind != "end"
            self._fail("expected a name")
        return token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "number":
                return literals.number_literal(self._take().text)
            case "string" | "raw":
                return Literal(self._string(), t.STRING)
            case "bytes":
                return literals.bytes_literal(self._take().text[2:-1])
            case "quoted":
                return Column((self._name(),))
            case "word":
                return self._word()
        if self._accept("("):
            if self._token.upper in ("SELECT", "WITH"):
                self._refuse("a subquery")
            items = self._list(")")
            if len(items) == 1:
                return items[0]
            self._refuse("a row of several values in parentheses")
        if token.upper in ("~", "?", ":"):
            self._refuse(f"the operator {token.text}")
        raise self._error("expected a value, a column or a function")

    def _string(self) -> str:
        parts = [unescape(self._take())]
        while self._token.kind in ("string", "raw"):
            parts.append(unescape(self._take()))
        return "".join(parts)

    def _word(self) -> Node:
        token = self._token
        follower = self._tokens[self._next + 1]
        word = token.upper
        if word in _NOW:
            closed = follower.upper == "(" and self._tokens[self._next + 2].upper == ")"
            if closed or (word not in ("NOW", "CURDATE") and follower.upper != "("):
                self._next += 3 if closed else 1
                return self._at_the_time(word)
        if follower.upper == "(":
            return self._function()
        if word in ("NULL", "TRUE", "FALSE"):
            self._take()
            return {"NULL": literals.NULL, "TRUE": TRUE, "FALSE": FALSE}[word]
        if word in _TYPED and follower.kind in ("string", "raw"):
            self._take()
            return literals.typed_literal(word, self._string(), self._zone)
        if word == "CASE":
            self._take()
            return self._case()
        if word == "INTERVAL" and (
            follower.kind in ("string", "number", "raw") or follower.upper in ("-", "+")
        ):
            self._take()
            return self._interval()
        if word in _NOT_NAMES:
            named = f"(a column called {token.text} is written `{token.text}`)"
            self._fail(f"expected a value, a column or a function {named}")
        self._take()
        return Column((token.text,))

    def _at_the_time(self, word: str) -> Node:
        if self._now is None:
            raise InvalidExpressionError(
                f"{word.lower()} is another one from call to call, and this expression has to mean "
                "the same whenever it is looked at; write the time as a literal"
            )
        kind = _NOW[word]
        if kind == t.TIMESTAMP:
            return Literal(self._now, kind)
        wall = self._now.astimezone(time_zone(self._zone)).replace(tzinfo=None)
        return Literal(wall.date() if kind == t.DATE else wall, kind)

    def _interval(self) -> Node:
        sign = self._take().text if self._token.upper in ("-", "+") else ""
        parts: list[tuple[str, str]] = []
        while self._token.kind in ("string", "raw", "number"):
            token = self._take()
            number = sign + (token.text if token.kind == "number" else unescape(token))
            sign = ""
            words = number.split() if token.kind != "number" else []
            if len(words) > 1 and len(words) % 2 == 0 and self._token.upper != "DAY":
                parts += zip(words[::2], words[1::2], strict=True)  # of '3 days 2 hours'
                continue
            unit = self._take()
            if unit.kind != "word":
                self._fail("expected a unit of the interval", unit)
            if unit.upper == "DAY" and self._accept("TO", "SECOND"):
                return Literal(parse_day_to_second(number), MICROS)
            parts.append((number, unit.text))
        return Literal(*parse_interval(parts))

    def _case(self) -> Node:
        subject = None if self._token.upper == "WHEN" else self.expression(0)
        branches: list[tuple[Node, Node]] = []
        while self._accept("WHEN"):
            condition = self.expression(0)
            if subject is not None:
                condition = Comparison("=", subject, condition)
            self._expect("THEN")
            branches.append((condition, self.expression(0)))
        if not branches:
            self._fail("expected WHEN")
        otherwise = self.expression(0) if self._accept("ELSE") else None
        self._expect("END")
        return Case(tuple(branches), otherwise)

    def _type(self) -> t.DataType:
        name = self._take()
        found = _TYPES.get(name.upper)
        if found is None:
            self._refuse(f"the type {name.text!r} in a cast")
        if not (isinstance(found, t.DecimalType) and self._accept("(")):
            return found
        digits = [self._take().text]
        if self._accept(","):
            digits.append(self._take().text)
        self._expect(")")
        if not all(d.isdecimal() and len(d) < 3 for d in digits):
            self._fail("expected decimal(precision, scale)", name)
        precision, scale = (*map(int, digits), 0)[:2]
        if not (0 < precision <= 38 and scale <= precision):
            self._fail(f"there is no decimal({precision},{scale})", name)
        return t.DecimalType(precision, scale)

    # ------------------------------------------------------------------------------- functions

    def _function(self) -> Node:
        token = self._take()
        self._expect("(")
        word = token.upper
        if word in ("CAST", "TRY_CAST"):
            operand = self.expression(0)
            self._expect("AS")
            to = self._type()
            self._expect(")")
            return Cast(operand, to, is_try=word == "TRY_CAST")
        if word == "EXTRACT":
            return self._extract()
        if word == "TRIM" and self._token.upper in ("BOTH", "LEADING", "TRAILING"):
            return self._trim()
        if word == "POSITION" and (call := self._position()) is not None:
            return call
        arguments = self._list(")")
        name = ALIASES.get(word.lower(), word.lower())
        if (rewrite := REWRITTEN.get(name)) is not None:
            count, build = rewrite
            if len(arguments) != count:
                self._fail(f"{token.text} takes {count} arguments, not {len(arguments)}", token)
            return build(*arguments)
        if name in ("like", "ilike") and len(arguments) == 2:
            return self._like_of(arguments[0], arguments[1], "\\", folds=name == "ilike")
        if name in ("date_part", "datepart") and len(arguments) == 2:
            return self._part_of(arguments[0], arguments[1], token)
        if word in _CASTS and len(arguments) == 1:
            return Cast(arguments[0], _TYPES[word])
        if name == "if" and len(arguments) == 3:
            return Case(((arguments[0], arguments[1]),), arguments[2])
        arity = FUNCTIONS.get(name)
        if arity is None:
            self._refuse(f"the function {token.text}{near(name)}")
        if not arity.least <= len(arguments) <= (arity.most or len(arguments)):
            self._fail(f"{token.text} takes {arity}, not {len(arguments)}", token)
        return Call(name, arguments)

    def _extract(self) -> Node:
        field = self._take()
        name = _FIELDS.get(field.upper)
        if name is None:
            self._refuse(f"EXTRACT of {field.text!r}")
        self._expect("FROM")
        operand = self.expression(0)
        self._expect(")")
        return Call(name, (operand,))

    def _part_of(self, field: Node, operand: Node, token: Token) -> Node:
        named = isinstance(field, Literal) and isinstance(field.value, str)
        name = _FIELDS.get(str(field.value).upper()) if isinstance(field, Literal) else None
        if not named or name is None:
            self._refuse(f"{token.text} of that field")
        return Call(name, (operand,))

    def _position(self) -> Node | None:
        """``position(part IN whole)``; None, and nothing read, where its arguments are a list."""
        start = self._next
        if self._token.text != ")":
            part = self.expression(_COMPARISON)
            if self._accept("IN"):
                whole = self.expression(_COMPARISON)
                self._expect(")")
                return Call("locate", (part, whole))
        self._next = start
        return None

    def _trim(self) -> Node:
        side = self._take().upper
        what = None if self._token.upper == "FROM" else self.expression(0)
        self._expect("FROM")
        operand = self.expression(0)
        self._expect(")")
        name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side]
        # Spark's order of arguments is the characters first, then the string.
        return Call(name, (operand,) if what is None else (what, operand))
