"""The closed set of functions: their names, their spellings, how many arguments they take.

What each means is in `library`, or in `call_types` (types) and `compute` (values); what is not here
is refused by name, so that nobody mistakes a function that adelta does not know for one that it
computes differently.
"""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.expressions.library import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALIASES", "FUNCTIONS", "Arity", "near"]


@dataclass(frozen=True, slots=True)
class Arity:
    """How many arguments a function takes; `most` of None is any number."""

    least: int
    most: int | None

    def __str__(self) -> str:
        """For messages."""
        if self.most is None:
            return f"{self.least} or more arguments"
        if self.least == self.most:
            return f"{self.least} argument" + ("" if self.least == 1 else "s")
        return f"{self.least} to {self.most} arguments"


_ONE, _TWO, _MANY = Arity(1, 1), Arity(2, 2), Arity(1, None)

FUNCTIONS: Mapping[str, Arity] = MappingProxyType(
    {
        # Numbers.
        "abs": _ONE,
        "ceil": _ONE,
        "floor": _ONE,
        "isnan": _ONE,
        "pmod": _TWO,
        "round": Arity(1, 2),
        # Choices.
        "coalesce": _MANY,
        "greatest": Arity(2, None),
        "least": Arity(2, None),
        # Dates and times.
        "add_months": _TWO,
        "date_add": _TWO,
        "date_format": _TWO,
        "date_sub": _TWO,
        "date_trunc": _TWO,
        "datediff": _TWO,
        "day": _ONE,
        "dayofweek": _ONE,
        "dayofyear": _ONE,
        "hour": _ONE,
        "last_day": _ONE,
        "minute": _ONE,
        "month": _ONE,
        "quarter": _ONE,
        "second": _ONE,
        "trunc": _TWO,
        "weekday": _ONE,
        "weekofyear": _ONE,
        "year": _ONE,
        # Strings.
        "concat": _MANY,
        "contains": _TWO,
        "endswith": _TWO,
        "left": _TWO,
        "length": _ONE,
        "lower": _ONE,
        "ltrim": Arity(1, 2),
        "md5": _ONE,
        "replace": Arity(2, 3),
        "right": _TWO,
        "rlike": _TWO,
        "rtrim": Arity(1, 2),
        "startswith": _TWO,
        "substring": Arity(2, 3),
        "trim": Arity(1, 2),
        "upper": _ONE,
        **{name: Arity(found.least, found.most) for name, found in LIBRARY.items()},
    }
)
"""Canonical names and arities."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "bit_get": "getbit",
        "cardinality": "size",
        "ceiling": "ceil",
        "char": "chr",
        "char_length": "length",
        "character_length": "length",
        "date_diff": "datediff",
        "dateadd": "date_add",
        "dayofmonth": "day",
        "ifnull": "coalesce",
        "lcase": "lower",
        "len": "length",
        "nvl": "coalesce",
        "position": "locate",
        "regexp": "rlike",
        "regexp_like": "rlike",
        "sha": "sha1",
        "signum": "sign",
        "substr": "substring",
        "ucase": "upper",
    }
)
"""Other spellings of canonical names."""


def near(name: str) -> str:
    """What to say behind a name that is no function's, of one that is spelt nearly so."""
    found = difflib.get_close_matches(name, {*FUNCTIONS, *ALIASES}, 1, 0.8)
    return f" (did you mean {found[0]}?)" if found else ""
