"""The `_last_checkpoint` hint and its checksum."""

import tracemalloc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.kernel.last_checkpoint import (
    MAX_BYTES,
    LastCheckpoint,
    canonical_form,
    checksum,
    decode,
    encode,
)

PROTOCOL_EXAMPLE = (
    b"""{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": """
    b"""["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
)


def test_the_canonical_form_is_that_of_the_protocols_example() -> None:
    assert canonical_form(PROTOCOL_EXAMPLE) == (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,'
        '"k1"+"k3"+2+"k4"="v4","k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6",'
        '"k1"+"k3"+2+"k5"+2="v7"'
    )
    assert checksum(PROTOCOL_EXAMPLE) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (b'"hello world"', '"hello%20world"'),
        (
            b'{"a":10,"b":{"y":null,"x":"https://delta.io"}}',
            '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null',
        ),
        (b'[null,"hi ho",2.71]', '0=null,1="hi%20ho",2=2.71'),
        (b'{"k1":"v1","checksum":"x","k3":23}', '"k1"="v1","k3"=23'),
        (b'{"a":{"checksum":1}}', '"a"+"checksum"=1'),
        (b"[1.50,1e3,-0]", "0=1.50,1=1e3,2=-0"),
    ],
)
def test_canonical_forms(text: bytes, form: str) -> None:
    assert canonical_form(text) == form


def test_array_indices_sort_as_bytes_not_as_numbers() -> None:
    form = canonical_form(orjson.dumps(list(range(11))))
    assert form.startswith("0=0,1=1,10=10,2=2")


def test_a_key_that_occurs_twice_makes_the_text_invalid() -> None:
    with pytest.raises(ValueError, match="twice"):
        canonical_form(b'{"a":1,"a":2}')


hints = st.builds(
    LastCheckpoint,
    version=st.integers(0, 2**53),
    size=st.integers(0, 2**40),
    parts=st.none() | st.integers(1, 1000),
    size_in_bytes=st.none() | st.integers(0, 2**53),
    num_of_add_files=st.none() | st.integers(0, 2**40),
)


@given(hints)
def test_a_written_hint_is_read_back(hint: LastCheckpoint) -> None:
    assert decode(encode(hint)) == hint


def test_what_spark_expects_first_comes_first() -> None:
    text = encode(LastCheckpoint(10, 5, parts=2, size_in_bytes=7))
    assert text.startswith(b'{"version":10,"size":5,"parts":2,')


@given(hints, st.data())
def test_a_changed_digit_is_noticed(hint: LastCheckpoint, data: st.DataObject) -> None:
    text = encode(hint)
    at = data.draw(st.sampled_from([i for i, c in enumerate(text) if chr(c).isdigit()]))
    other = data.draw(st.sampled_from([d for d in b"0123456789" if d != text[at]]))
    assert decode(text[:at] + bytes([other]) + text[at + 1 :]) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"size":1}',
        b'{"version":-1,"size":1}',
        b'{"version":"1","size":1}',
        b'{"version":1,"size":1,"parts":0}',
        b'{"version":1,"version":2,"size":1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_hint_that_makes_no_sense_is_no_hint(text: bytes) -> None:
    assert decode(text) is None


@given(st.binary(max_size=200))
def test_no_bytes_make_decoding_fail(text: bytes) -> None:
    decode(text)


def test_a_hint_of_more_than_a_megabyte_is_no_hint() -> None:
    long = orjson.dumps({"version": 1, "size": 1, "x": "y"}).ljust(MAX_BYTES)
    assert decode(long) is not None
    assert decode(long + b" ") is None


def test_a_hint_whose_canonical_form_outgrows_it_is_no_hint() -> None:
    """Each leaf repeats the names on the way to it."""
    assert decode(b'{"version":1,"size":1,"x":{"%s":[%s]}}' % (b"k" * 9000, b"0," * 100 + b"0"))
    leaves = b"0," * 250_000 + b"0"
    tracemalloc.start()
    try:
        assert decode(b'{"version":1,"size":1,"%s":[%s]}' % (b"k" * 400_000, leaves)) is None
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
