"""Arrays are in the order of what they are compared by."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from adelta.kernel.expressions.library import LIBRARY
from adelta.kernel.expressions.library.array_order import ARRAY_ORDER
from tests.kernel.expressions.test_array_keys import VALUES, made

MORE_VALUES: dict[Any, list[Any]] = {
    **VALUES,
    pa.int64(): [0, 1, -5, 2**63 - 1, -(2**63)],
    pa.float64(): [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf],
    pa.string(): ["", "\0", "\0\0", "a", "a\0", "a\1", "ab", "\uffff", "\U0001f600"],
    pa.binary(): [b"", b"\0", b"\xff", b"\0\xff"],
}


def order(one: Any, other: Any) -> int:
    """What Spark says of two values, by its own rules."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list):
        for pair in zip(one, other, strict=False):
            if found := order(*pair):
                return found
        return (len(one) > len(other)) - (len(one) < len(other))
    if isinstance(one, float):
        one, other = (
            (math.isnan(each), 0.0 if math.isnan(each) else each) for each in (one, other)
        )
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return int(one > other) - int(one < other)


@pytest.mark.parametrize("base", MORE_VALUES, ids=str)
def test_arrays_have_keys_in_their_order(base, monkeypatch):
    monkeypatch.setitem(VALUES, base, MORE_VALUES[base])
    chance = random.Random(7)
    shapes = (base, pa.list_(base), pa.struct([("a", base), ("b", pa.list_(base))]))
    for kind in map(pa.list_, shapes):
        values = [made(kind, chance) for _ in range(60)]
        arrays: Any = pa.array(values, kind)
        keys = LIBRARY[ARRAY_ORDER].compute(arrays).to_pylist()
        assert LIBRARY[ARRAY_ORDER].compute(arrays.slice(7, 20)).to_pylist() == keys[7:27]
        assert [key is None for key in keys] == [value is None for value in values]
        known = [pair for pair in zip(values, keys, strict=True) if pair[0] is not None]
        for one, of_one in known:
            for other, of_other in known:
                assert order(one, other) == (of_one > of_other) - (of_one < of_other)
