"""Functions that are other expressions by another name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adelta.kernel.expressions import literals
from adelta.kernel.expressions.nodes import (
    Arithmetic,
    Case,
    Cast,
    Comparison,
    IsNull,
    Literal,
    Negate,
    Not,
)
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.expressions.nodes import Node

__all__ = ["REWRITTEN"]

REWRITTEN: dict[str, tuple[int, Callable[..., Node]]] = {
    "e": (0, lambda: Literal(math.e, t.DOUBLE)),
    "equal_null": (2, lambda a, b: Comparison("<=>", a, b)),
    "isnotnull": (1, lambda a: Not(IsNull(a))),
    "isnull": (1, IsNull),
    "negative": (1, Negate),
    "mod": (2, lambda a, b: Arithmetic("%", a, b)),
    "nullif": (2, lambda a, b: Case(((Comparison("=", a, b), literals.NULL),), a)),
    "pi": (0, lambda: Literal(math.pi, t.DOUBLE)),
    "nvl2": (3, lambda a, b, c: Case(((Not(IsNull(a)), b),), c)),
    "to_date": (1, lambda a: Cast(a, t.DATE)),
    "to_timestamp": (1, lambda a: Cast(a, t.TIMESTAMP)),
}
"""How many arguments a function takes, and what it stands for, by its name."""
