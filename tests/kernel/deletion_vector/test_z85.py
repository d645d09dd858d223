from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.errors import InvalidTableError
from adelta.kernel.deletion_vector import z85


@given(st.binary(max_size=200))
def test_bytes_survive_up_to_the_padding_of_the_last_word(data):
    text = z85.encode(data)
    assert len(text) % 5 == 0
    assert z85.decode(text) == data + b"\0" * (-len(data) % 4)


@given(st.binary(min_size=1, max_size=40))
def test_a_last_group_without_padding_gives_back_just_the_bytes_it_has(data):
    lacking = -len(data) % 4
    text = z85.encode(data[: len(data) - len(data) % 4])
    if lacking:
        tail = z85.encode(b"\0" * lacking + data[len(data) - len(data) % 4 :])
        text += "#" * lacking + tail[lacking:]
    assert z85.decode(text) == data


def test_a_uuid_takes_twenty_characters():
    unique = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    assert z85.encode(unique.bytes) == "^-aqEH.-t@S}K{vb[*k^"
    assert z85.decode("^-aqEH.-t@S}K{vb[*k^") == unique.bytes


def test_a_group_beyond_32_bits_keeps_its_low_ones_as_spark_does():
    assert z85.decode("%nSc0") == b"\xff\xff\xff\xff"
    assert z85.decode("%nSc1") == b"\0\0\0\0"


@pytest.mark.parametrize("text", ["abc", "abcdef", "ab cd", "abcdé", "ab\\de", "####0", "#####"])
def test_what_is_no_base85_is_refused(text):
    with pytest.raises(InvalidTableError, match="Base85"):
        z85.decode(text)
