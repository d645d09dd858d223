from __future__ import annotations

import io

import pytest

from adelta.errors import InvalidUseError
from adelta.parquet.sparse_file import SparseFile

WHOLE = bytes(range(100))


def sparse(*ranges: tuple[int, int]) -> SparseFile:
    return SparseFile("f", 100, [(start, memoryview(WHOLE)[start:end]) for start, end in ranges])


def test_reads_inside_and_across_touching_pieces_give_the_bytes_of_the_object():
    file = sparse((30, 40), (10, 20), (20, 30))
    for start, end in [(10, 20), (12, 15), (15, 35), (10, 40), (39, 40)]:
        file.seek(start)
        assert file.read(end - start) == WHOLE[start:end]
        assert file.tell() == end


def test_a_read_inside_one_piece_copies_nothing():
    data = bytearray(WHOLE)
    file = SparseFile("f", 100, [(0, memoryview(data))])
    buffer = file.read_buffer(10)
    data[3] = 255
    assert buffer.to_pybytes()[3] == 255


@pytest.mark.parametrize(("start", "end"), [(0, 5), (5, 15), (15, 25), (35, 45), (90, 100)])
def test_a_read_of_what_was_not_fetched_raises(start: int, end: int):
    file = sparse((10, 20), (30, 40))
    file.seek(start)
    with pytest.raises(InvalidUseError, match="never fetched"):
        file.read(end - start)


def test_the_end_of_the_file_is_where_the_object_ends():
    file = sparse((90, 100))
    assert file.seek(-4, io.SEEK_END) == 96
    assert file.read(50) == WHOLE[96:]
    assert file.read(1) == b""
    file.seek(95)
    assert file.read() == WHOLE[95:]
    with pytest.raises(InvalidUseError, match="before its start"):
        file.seek(-1)


def test_closing_gives_the_bytes_back():
    file = sparse((0, 100))
    file.close()
    with pytest.raises(InvalidUseError):
        file.read(1)
