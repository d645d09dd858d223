"""Arrays are equal where what they are compared by is."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from adelta.kernel.expressions.library import LIBRARY
from adelta.kernel.expressions.library.array_keys import ARRAY_KEY, are_comparable
from adelta.kernel.schema import types as t

VALUES: dict[Any, list[Any]] = {
    pa.int64(): [0, 1, -5],
    pa.float32(): [0.0, -0.0, 1.5, math.nan],
    pa.float64(): [0.0, -0.0, 1.5, math.nan],
    pa.string(): ["", ";", "\\", ";\\", "\\;", "\\N", "N"],
    pa.binary(): [b"", b";", b"\\", b"\xff", b"\\N"],
    pa.bool_(): [True, False],
    pa.date32(): [dt.date(2020, 1, 1), dt.date(1969, 1, 1)],
    pa.timestamp("us"): [dt.datetime(2020, 1, 1), dt.datetime(1969, 1, 1)],
    pa.decimal128(9, 2): [Decimal(0), Decimal("0.25")],
}


def made(kind: Any, chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [made(kind.value_type, chance) for _ in range(chance.randint(0, 2))]
    if pa.types.is_struct(kind):
        return {field.name: made(field.type, chance) for field in kind}
    return chance.choice(VALUES[kind])


def meant(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(map(meant, value))
    return tuple(map(meant, value.values())) if isinstance(value, dict) else value


@pytest.mark.parametrize("base", VALUES, ids=str)
def test_arrays_have_the_same_key_where_they_are_equal(base):
    chance = random.Random(7)
    shapes = (base, pa.list_(base), pa.struct([("a", base), ("b", pa.list_(base))]))
    for kind in map(pa.list_, shapes):
        values = [made(kind, chance) for _ in range(60)]
        arrays: Any = pa.array(values, kind)
        keys = LIBRARY[ARRAY_KEY].compute(arrays).to_pylist()
        assert LIBRARY[ARRAY_KEY].compute(arrays.slice(7, 20)).to_pylist() == keys[7:27]
        assert [key is None for key in keys] == [value is None for value in values]
        for one, of_one in zip(values, keys, strict=True):
            for other, of_other in zip(values, keys, strict=True):
                assert (of_one == of_other) == (meant(one) == meant(other))


def test_arrays_that_have_no_equality_are_told():
    maps = t.ArrayType(t.MapType(t.STRING, t.STRING))
    texts, numbers = t.ArrayType(t.STRING), t.ArrayType(t.INTEGER)
    assert are_comparable(numbers, t.ArrayType(t.LONG))
    assert are_comparable(t.ArrayType(t.VOID), texts)
    for one, other in ((maps, maps), (maps, t.ArrayType(t.VOID)), (texts, numbers)):
        assert not are_comparable(one, other)
