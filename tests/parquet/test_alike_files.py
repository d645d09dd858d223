"""Small files that are decoded as one have the rows that each has by itself, or are not."""

from __future__ import annotations

import io
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.parquet.arrow_reader import open_footer
from adelta.parquet.decode.alike_files import AlikeFiles, alike_file
from adelta.parquet.footer import known_shapes
from adelta.parquet.footer.columns import column_tree
from adelta.parquet.footer.known_shapes import known_chunks
from adelta.parquet.guard.usual_pages import HEADER_ROOM, words_of
from adelta.parquet.guard.zstd_frames import are_whole_frames
from adelta.storage.object_store import SuffixRead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.decode.alike_files import AlikeFile

CODECS = ["none", "snappy", "zstd", "gzip"]


@pytest.fixture(autouse=True)
def _no_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_shapes, "_kinds", [])


def rows(seed: int, count: int = 60) -> pa.Table:
    chance = random.Random(seed)
    numbers = [chance.choice([None, chance.randrange(9)]) for _ in range(count)]
    numbers[0] = seed
    texts = [None if n is None else f"text {n}" for n in numbers]
    decimals = [None if n is None else Decimal(n) / 4 for n in numbers]
    columns: dict[str, Any] = {
        "flag": [None if n is None else n > 3 for n in numbers],
        "small": pa.array(numbers, pa.int32()),
        "large": pa.array([chance.randrange(2**60) for _ in range(count)], pa.int64()),
        "real": [None if n is None else n / 3 for n in numbers],
        "text": texts,
        "dec": pa.array(decimals, pa.decimal128(25, 4)),
        "at": pa.array(numbers, pa.timestamp("us")),
        "inner": [None if n is None else {"n": n, "t": str(n)} for n in numbers],
    }
    return pa.table(columns)


def stored(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, write_page_checksum=True, **options)
    return sink.getvalue()


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") :]


def taught(files: Sequence[bytes]) -> None:
    for data in (each for each in files for _ in range(8)):
        reader = open_footer("f", memoryview(footer_of(data)))
        tree = column_tree(reader.schema_arrow)
        known_chunks("f", len(data), reader.metadata, memoryview(footer_of(data)), tree)


def alike(data: bytes) -> AlikeFile | None:
    return alike_file("f", SuffixRead(data, len(data)))


def decoded(files: Sequence[bytes]) -> pa.Table | None:
    """The rows of the files; None where one of them is to be read by itself."""
    found = [each for each in map(alike, files) if each is not None]
    if len(found) < len(files) or len({each.kind for each in found}) > 1:
        return None
    whole = AlikeFiles(found)
    if None in whole.sizes:
        return None
    told = whole.decode(range(len(found)), lambda layout: layout.select(None))
    return None if told is None else told[2]


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_files_alike_have_the_rows_of_each(codec: str, dictionary: bool) -> None:
    tables = [rows(seed, 20 * seed + 1) for seed in range(5)]
    files = [stored(t, compression=codec, use_dictionary=dictionary) for t in tables]
    taught(files)
    found = decoded(files)
    assert found is not None
    assert found.equals(pa.concat_tables(tables).cast(found.schema))


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_no_flipped_bit_changes_a_row_unseen(codec: str) -> None:
    chance = random.Random(14)
    tables = [rows(seed) for seed in range(3)]
    files = [stored(table, compression=codec) for table in tables]
    taught(files)
    whole = decoded(files)
    assert whole is not None
    for _ in range(300):
        damaged = bytearray(files[1])
        damaged[chance.randrange(len(damaged) - 8)] ^= 1 << chance.randrange(8)
        try:
            found = decoded([files[0], bytes(damaged), files[2]])
        except ValueError:  # of a footer whose length is damaged
            continue
        assert found is None or found.equals(whole)


def test_other_files_are_read_by_themselves() -> None:
    lists = pa.table({"l": [[1], [2, 3]]})
    others = {
        "lists": stored(lists),
        "row groups": stored(rows(1), row_group_size=20),
        "no rows": stored(rows(1).slice(0, 0)),
        "deltas": stored(
            rows(1).select(["text"]), use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"
        ),
        "pages of another form": stored(rows(1), data_page_version="2.0"),
    }
    for name, data in others.items():
        taught([data])
        assert decoded([data, data]) is None, name


def test_files_of_other_codecs_are_of_another_kind() -> None:
    files = [stored(rows(1), compression=codec) for codec in CODECS]
    taught(files)
    kinds = {each.kind for each in map(alike, files) if each is not None}
    assert len(kinds) == len(CODECS)


def test_texts_that_a_dictionary_repeats_are_counted_as_often() -> None:
    text = "x" * 10_000
    data = stored(pa.table({"t": [text] * 500}))
    taught([data])
    file = alike(data)
    assert file is not None
    assert file.decoded_bytes < len(text) * 2
    (most,) = AlikeFiles([file]).sizes
    assert most is not None
    assert most >= len(text) * 500


@pytest.mark.parametrize("size", [1, 200, 255, 256, 300, 65_791, 65_792, 300_000])
@pytest.mark.parametrize("content", [b"a", b"0123456789"])
def test_only_a_page_that_is_one_whole_frame_is_decompressed_with_others(
    content: bytes, size: int
) -> None:
    raw = random.Random(size).randbytes(size) if len(content) > 1 else content * size
    frame: bytes = pa.Codec("zstd").compress(raw, asbytes=True)

    def is_whole(payload: bytes, unfolded: int = size) -> bool:
        data = payload + frame + bytes(HEADER_ROOM)  # what follows is another page's
        ends = (np.array([each]) for each in (0, len(payload), unfolded))
        (found,) = are_whole_frames(words_of(data), *ends).tolist()
        return bool(found)

    assert is_whole(frame)
    assert not is_whole(frame, size + 1)
    assert not is_whole(frame + b"\0")
    assert not is_whole(frame[:-1])
    assert not is_whole(frame + frame)
    assert not is_whole(b"\0" * len(frame))
    assert not is_whole(frame[:4] + bytes([frame[4] ^ 1]) + frame[5:])  # of a dictionary
