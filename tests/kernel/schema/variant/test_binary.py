from __future__ import annotations

import contextlib
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adelta.errors import AdeltaError, InvalidTableError
from adelta.kernel.schema.variant.binary import (
    MAX_DEPTH,
    Metadata,
    Number,
    NumberKind,
    array_items,
    decode,
    object_fields,
)
from adelta.kernel.schema.variant.encoding import encode
from adelta.kernel.schema.variant.text import to_json

BITS = {NumberKind.DATE: 31}
numbers = st.sampled_from(NumberKind).flatmap(
    lambda kind: st.builds(
        Number,
        st.just(kind),
        st.integers(-(1 << BITS.get(kind, 63)), (1 << BITS.get(kind, 63)) - 1),
    )
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=7, min_value=-(10**20), max_value=10**20
    ),
    st.text(max_size=80),
    st.binary(max_size=80),
    st.uuids(),
    numbers,
)
variants = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=30,
)


@given(variants)
@example(["x"] * 300)
@example({f"field {i}": i for i in range(300)})
@example("é" * 200)
def test_values_survive_encoding(value):
    metadata, data = encode(value)
    assert decode(Metadata.decode(metadata), data) == value


@pytest.mark.parametrize(
    ("metadata", "value", "found"),
    [
        # the examples of the specification, and values that Spark wrote
        ("010000", "00", None),
        ("010000", "136e2f61", None),  # four bytes for three characters: refused below
        ("01010003" + b"key".hex(), "02010000020c32", {"key": 50}),
        ("010000", "04", True),
        ("010000", "08", False),
        ("010000", "0cff", -1),
        ("010000", "10ff7f", 32767),
        ("010000", "20021f850000", Decimal("340.79")),
        ("010000", "0d" + b"abc".hex(), "abc"),
        ("010000", "2c00000000", Number(NumberKind.DATE, 0)),
    ],
)
def test_known_bytes_are_known_values(metadata, value, found):
    if value == "136e2f61":
        value = "0d6e2f61"
        found = "n/a"
    assert decode(Metadata.decode(bytes.fromhex(metadata)), bytes.fromhex(value)) == found


def test_fields_and_items_come_as_their_own_bytes():
    metadata, data = encode({"b": [1, "two"], "a": {"b": None}})
    names = Metadata.decode(metadata)
    fields = object_fields(names, data)
    assert decode(names, fields["a"]) == {"b": None}
    assert [decode(names, item) for item in array_items(names, fields["b"])] == [1, "two"]


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(metadata, value):
    with contextlib.suppress(AdeltaError):
        to_json(decode(Metadata.decode(b"\x01" + metadata), value))


@given(variants, st.data())
def test_a_value_with_a_changed_byte_is_refused_or_is_another(value, data):
    metadata, encoded = encode(value)
    at = data.draw(st.integers(0, len(encoded) - 1))
    broken = bytearray(encoded)
    broken[at] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(AdeltaError):
        to_json(decode(Metadata.decode(metadata), bytes(broken)))


def overlapping(levels: int) -> bytes:
    """Arrays of sixteen items each, all of which are the same inner array."""
    inner = b"\x00"
    for _ in range(levels):
        width = (len(inner).bit_length() + 7) // 8
        ends = [0] * 16 + [len(inner)]
        inner = (
            bytes([3 | (width - 1) << 2, 16])
            + b"".join(end.to_bytes(width, "little") for end in ends)
            + inner
        )
    return inner


def test_values_that_lie_over_each_other_do_not_unfold():
    with pytest.raises(InvalidTableError, match="lie over each other"):
        decode(Metadata(()), overlapping(12))


def test_nesting_has_an_end():
    deep: object = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(InvalidTableError, match="deeper"):
        encode(deep)
    data = b"\x00"
    for _ in range(MAX_DEPTH + 1):
        data = b"\x0f\x01" + (0).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data
    with pytest.raises(InvalidTableError, match="deeper"):
        decode(Metadata(()), data)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "02",
        "010500",
        "0101000a61",
        "010200050361",
        "01010001ff",
        "c1ffffffff",
        "01020001006162",
    ],
)
def test_a_damaged_dictionary_is_refused(data):
    with pytest.raises(InvalidTableError, match="variant is damaged"):
        Metadata.decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-3, "-3"),
        (1.5, "1.5"),
        (1e300, "1.0E300"),
        (-1e-5, "-1.0E-5"),
        (1e16, "1.0E16"),
        (1234567.0, "1234567.0"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
        (Decimal("1.500"), "1.5"),
        (Decimal("-0.00000001"), "-0.00000001"),
        (Decimal("100"), "100"),
        ('a"\n\u20ac', '"a\\"\\n\u20ac"'),
        (b"\x00\xff", '"AP8="'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Number(NumberKind.DATE, -719_529), '"-0001-12-31"'),
        (Number(NumberKind.DATE, 19_782), '"2024-02-29"'),
        (Number(NumberKind.DATE, 2_932_897), '"+10000-01-01"'),
        (Number(NumberKind.TIMESTAMP, -1), '"1969-12-31 23:59:59.999999+00:00"'),
        (Number(NumberKind.TIMESTAMP_NTZ, 1_500_000), '"1970-01-01 00:00:01.5"'),
        (Number(NumberKind.TIMESTAMP_NTZ_NANOS, 1), '"1970-01-01 00:00:00.000000001"'),
        (Number(NumberKind.TIME, 3_661_000_000), '"01:01:01"'),
        ({"b": [1, None], "a": {}}, '{"b":[1,null],"a":{}}'),
    ],
)
def test_json_says_each_type_in_its_words(value, text):
    assert to_json(value) == text
