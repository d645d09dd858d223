"""Values for the parameters of a statement, ``:name`` and ``?``, as constants in its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.sql import to_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.expressions.lexer import Token

__all__ = ["with_arguments"]


def with_arguments(text: str, args: Any) -> str:
    """The statement, in which constants stand in the place of its parameters.

    Raises:
        InvalidOptionError: there are too few values.
        InvalidExpressionError: a value is none that a column can hold.
    """
    if not args:
        return text
    parts: list[str] = []
    at = 0
    for start, end, value in _found(tokenize(text), args):
        parts += [text[at:start], value]
        at = end
    return "".join((*parts, text[at:]))


def _found(tokens: Sequence[Token], args: Any) -> Iterator[tuple[int, int, str]]:
    """Where parameters begin and end, and their constants."""
    listed = 0
    for token, behind in pairwise(tokens):
        if token.operator == "?" and not isinstance(args, Mapping):
            if listed == len(args):
                raise InvalidOptionError(f"args has no value for the ? at character {token.at + 1}")
            yield token.at, token.at + 1, to_sql(literal_of(args[listed]))
            listed += 1
        elif token.operator == ":" and isinstance(args, Mapping) and behind.text in args:
            value = to_sql(literal_of(args[behind.text]))
            yield token.at, behind.at + len(behind.text), value
