"""Functions that are values of their own: arguments, types, and how each is computed.

A function is here with exactly Spark's meaning, in ANSI mode, or it is not here: those of which
Java's last bit cannot be had (`exp`, `sin`, `pow`) are left to the Spark engine.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from adelta.kernel.expressions.library.array_keys import ARRAY_KEYS
from adelta.kernel.expressions.library.array_order import ARRAY_ORDERS
from adelta.kernel.expressions.library.collections import COLLECTIONS, ELEMENT
from adelta.kernel.expressions.library.digests import DIGESTS
from adelta.kernel.expressions.library.intervals import INTERVALS
from adelta.kernel.expressions.library.numbers import NUMBERS
from adelta.kernel.expressions.library.patterns import PATTERNS
from adelta.kernel.expressions.library.strings import STRINGS
from adelta.kernel.expressions.library.times import TIMES
from adelta.kernel.expressions.library.variants import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.expressions.library._function import Function

__all__ = ["ELEMENT", "LIBRARY", "UNWRITTEN"]

UNWRITTEN = frozenset({ELEMENT, *ARRAY_KEYS, *ARRAY_ORDERS, *INTERVALS})
"""Names that no text has: element access, what arrays are compared by, sums with an interval."""

LIBRARY: Mapping[str, Function] = MappingProxyType(
    {
        **STRINGS,
        **PATTERNS,
        **NUMBERS,
        **TIMES,
        **COLLECTIONS,
        **ARRAY_KEYS,
        **ARRAY_ORDERS,
        **DIGESTS,
        **INTERVALS,
        **VARIANTS,
    }
)
"""The functions by their canonical names."""
