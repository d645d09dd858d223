"""What a function of the library is: how many arguments of which types, and its value for rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from adelta._arrow_values import column_of
from adelta._dataclasses import dataclass
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type

__all__ = [
    "ARRAY",
    "BYTES",
    "DATE",
    "DOUBLE",
    "INT",
    "LONG",
    "MAP",
    "STRING",
    "TIME",
    "Function",
    "Parameter",
    "Values",
    "any_of",
    "per_row",
]

Values: TypeAlias = Any
"""A pa.Array, of a type that is known at run time only."""
Result: TypeAlias = "t.DataType | Callable[[tuple[t.DataType, ...]], t.DataType | str]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an argument is: the types that are taken as they are, and the one others are cast to.

    `kind` is a class of types that are all taken, such as every array; `object` is any.
    """

    taken: tuple[t.DataType, ...] = ()
    to: t.DataType | None = None
    kind: type | None = None


def any_of(*types: t.DataType) -> Parameter:
    """An argument of one of some types; others are cast to the last one, where that is implicit."""
    return Parameter(types, types[-1])


STRING = any_of(t.STRING)
BYTES = any_of(t.STRING, t.BINARY)
INT = any_of(t.INTEGER)
LONG = any_of(t.LONG)
DOUBLE = any_of(t.DOUBLE)
DATE = any_of(t.DATE)
TIME = any_of(t.TIMESTAMP)
ARRAY = Parameter(kind=t.ArrayType)
MAP = Parameter(kind=t.MapType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the library.

    Attributes:
        group: of what it is, for the documentation.
        example: a call of it, whose value is the same in Spark.
        parameters: what its arguments are; the last one stands for any number where it is
            `variadic`.
        optional: how many of the last arguments may be left out.
        variadic: whether the last parameter may come several times, or not at all.
        result: the type of its value, or what makes it of the arguments' types; a text says why
            there is none.
        named_type: the position of an optional constant that names the type of the result, and the
            function that parses it into a type, or into a message that says why it is refused.
        compute: the value for each row, of the arguments' columns, and of constants as they are.
        constants: the places of arguments that have to be constants; NULL for one is NULL for all.
        safe: whether it has a value for all rows.
        fits: what makes the arguments' types of those that were given, where these depend on each
            other.
        tolerant: whether it may have a value where an argument is NULL.
        zoned: whether `compute` takes the session's `zone`.
        counted: whether `compute` takes the `count` of rows, as there may be no arguments.
    """

    group: str
    example: str
    parameters: tuple[Parameter, ...]
    result: Result
    compute: Callable[..., Values]
    optional: int = 0
    named_type: tuple[int, Callable[[str], t.DataType | str]] | None = None
    variadic: bool = False
    constants: tuple[int, ...] = ()
    safe: bool = True
    tolerant: bool = False
    zoned: bool = False
    counted: bool = False
    fits: Callable[[tuple[t.DataType, ...]], tuple[t.DataType, ...] | str] | None = None

    @property
    def least(self) -> int:
        """The fewest arguments."""
        return len(self.parameters) - self.optional - self.variadic

    @property
    def most(self) -> int | None:
        """The most arguments; None for any number."""
        return None if self.variadic else len(self.parameters)

    def parameter(self, place: int) -> Parameter:
        """What the argument at a place is."""
        return self.parameters[min(place, len(self.parameters) - 1)]


def per_row(result: t.DataType, function: Callable[..., Any], *columns: Any) -> Values:
    """The values of `function` for each row; NULL where an argument is. Constants are as they are.

    Raises:
        Whatever the function does.
    """
    rows = _rows(columns)
    made = [None if any(v is None for v in row) else function(*row) for row in rows]
    return column_of(made, to_arrow_type(result))


def _rows(columns: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    count = next(len(c) for c in columns if isinstance(c, pa.Array))
    lists = [c.to_pylist() if isinstance(c, pa.Array) else [c] * count for c in columns]
    return zip(*lists, strict=True)


Library: TypeAlias = Mapping[str, Function]
