from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from adelta.errors import AdeltaError, ChecksumMismatchError, InvalidTableError
from adelta.kernel.deletion_vector.blob import (
    decode_bitmap,
    encode_bitmap,
    encode_file,
    framed_range,
    unframe,
)

# The file of a table that Spark wrote (rows 0 and 9 of its data file are deleted).
SPARK_FILE = bytes.fromhex(
    "0100000024d1d339640100000000000000000000003a300000010000000000010010000000000009002a671846"
)


def native(rows_by_high: list[list[int]]) -> bytes:
    parts = [struct.pack("<ii", 1681511376, len(rows_by_high))]
    for rows in rows_by_high:
        low = BitMap(rows).serialize()
        parts.append(struct.pack("<i", len(low)) + low)
    return b"".join(parts)


def test_a_file_of_spark_names_the_rows_that_it_should():
    start, end = framed_range(1, 36)
    assert (start, end) == (1, 45)
    assert list(decode_bitmap(unframe(SPARK_FILE[start:end], 36, "f"), "f")) == [0, 9]


def test_without_an_offset_the_vector_stands_behind_the_version_byte():
    assert framed_range(None, 36) == framed_range(1, 36)


@given(st.sets(st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1)), max_size=50))
def test_rows_survive_encoding(rows):
    assert set(decode_bitmap(encode_bitmap(rows), "f")) == rows


def test_each_of_several_vectors_in_a_file_is_found_at_its_offset():
    wanted = [{1, 5}, set(), {1 << 33, 7}]
    bitmaps = [encode_bitmap(rows) for rows in wanted]
    content, offsets = encode_file(bitmaps)
    assert content[0] == 1
    for rows, data, offset in zip(wanted, bitmaps, offsets, strict=True):
        start, end = framed_range(offset, len(data))
        assert set(decode_bitmap(unframe(content[start:end], len(data), "f"), "f")) == rows


def test_the_older_native_layout_is_read():
    data = native([[3, 4], [], [7]])
    assert list(decode_bitmap(data, "f")) == [3, 4, (2 << 32) + 7]


def test_damage_is_found_by_the_checksum():
    frame = bytearray(SPARK_FILE[1:])
    frame[-5] ^= 1
    with pytest.raises(ChecksumMismatchError, match=r"x\.bin.*CRC"):
        unframe(bytes(frame), 36, "x.bin")


def test_a_size_other_than_the_logs_is_refused():
    data = encode_bitmap([1])
    frame = struct.pack(">i", len(data) - 1) + data + struct.pack(">I", zlib.crc32(data))
    with pytest.raises(InvalidTableError, match="where the log says"):
        unframe(frame, len(data), "f")


def test_a_frame_cut_short_is_refused():
    with pytest.raises(InvalidTableError, match="cut short"):
        unframe(SPARK_FILE[1:40], 36, "f")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\x02\x03",
        struct.pack("<i", 42) + bytes(40),
        encode_bitmap([1, 2, 3])[:-3],
        struct.pack("<iq", 1681511377, 1 << 40),
        native([[1, 2, 3]])[:-2],
        struct.pack("<ii", 1681511376, 1 << 30),
        struct.pack("<iii", 1681511376, 1, -5),
    ],
)
def test_bytes_that_are_no_bitmap_are_refused(data):
    with pytest.raises(InvalidTableError):
        decode_bitmap(data, "f")


@given(st.binary(max_size=80), st.sampled_from([1681511377, 1681511376]))
def test_no_bytes_do_more_than_be_refused(data, magic):
    with contextlib.suppress(AdeltaError):
        decode_bitmap(struct.pack("<i", magic) + data, "f")
