from __future__ import annotations

import uuid

import pytest

from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor
from adelta.kernel.deletion_vector.blob import decode_bitmap
from adelta.kernel.deletion_vector.descriptor import encode_relative, inline_bytes, vector_path


def described(storage: str, text: str, size: int = 4, **more) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(storage, text, size, 1, **more)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            "ab^-aqEH.-t@S}K{vb[*k^",
            "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        ),
        ("vBn[lx{q8@P<9BNH/isA", "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"),
    ],
)
def test_a_relative_vector_is_found_by_its_uuid(text, path):
    assert vector_path(described("u", text)) == path


def test_a_path_that_is_made_is_the_path_that_is_found():
    unique = uuid.uuid4()
    assert vector_path(described("u", encode_relative(unique, "xy"))) == (
        f"xy/deletion_vector_{unique}.bin"
    )


def test_an_absolute_vector_keeps_its_path():
    assert vector_path(described("p", "s3://b/dv%20.bin")) == "s3://b/dv%20.bin"


@pytest.mark.parametrize(("storage", "text"), [("u", "short"), ("i", "00000"), ("x", "a" * 20)])
def test_a_descriptor_that_names_no_file_is_refused(storage, text):
    with pytest.raises(InvalidTableError, match="storage type"):
        vector_path(described(storage, text))


def test_an_inline_vector_of_spark_names_the_rows_that_it_should():
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    found = decode_bitmap(inline_bytes(described("i", text, 44)), "f")
    assert list(found) == [3, 4, 7, 11, 18, 29]


def test_an_inline_vector_with_a_short_last_group_is_read():
    text = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093"
    assert list(decode_bitmap(inline_bytes(described("i", text, 34)), "f")) == [3]


@pytest.mark.parametrize("size", [-1, 5])
def test_an_inline_vector_cannot_have_more_bytes_than_its_text(size):
    with pytest.raises(InvalidTableError, match="holds 4"):
        inline_bytes(described("i", "00000", size))


def test_the_unique_id_tells_vectors_in_one_file_apart():
    one, other = (described("u", "a" * 20, offset=offset) for offset in (1, 50))
    assert one.unique_id != other.unique_id
    assert described("i", "00000").unique_id == "i00000"
