"""Some rows of a row group are those of all of it, and what lies around them is not decoded."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError
from adelta.parquet.decode import row_range as module
from adelta.parquet.page_headers import DICTIONARY_PAGE, pages_of
from adelta.parquet.reader import ParquetFile
from adelta.storage.local import LocalStore
from tests.parquet.many_types import PAGES, READ, ROWS, SHAPES, TABLE
from tests.parquet.recording_store import parquet_bytes, stored

if TYPE_CHECKING:
    from pathlib import Path

CODECS = ["none", "snappy", "zstd", "gzip", "lz4", "brotli"]


def ranges(count: int, seed: int) -> list[range]:
    """Some at the ends, and some anywhere."""
    numbers = random.Random(seed)
    pairs = [sorted(numbers.sample(range(count + 1), 2)) for _ in range(5)]
    return [range(1), range(count), range(count - 1, count), *(range(*pair) for pair in pairs)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("codec", CODECS)
async def test_rows_from_one_to_another_are_those_of_the_row_group(shape: str, codec: str):
    store = await stored(TABLE, compression=codec, **SHAPES[shape])
    file = await ParquetFile.open(store, "f.parquet")
    before = 0
    for group in range(file.layout.num_row_groups):
        rows = file.layout.rows_of((group,))
        fetched = await file.fetch(row_groups=[group])
        for wanted in ranges(rows, seed=group):
            found = file.row_range(fetched, wanted)
            assert found.equals(READ.slice(before + wanted.start, len(wanted)))
            assert found.schema.equals(file.decode(fetched).schema, check_metadata=True)
        before += rows


async def test_so_they_are_of_some_columns_in_any_order(tmp_path: Path):
    pq.write_table(TABLE, tmp_path / "f.parquet", compression="snappy", **PAGES)
    file = await ParquetFile.open(LocalStore(tmp_path), "f.parquet", tail=1000)
    for columns in (["struct.b.c", "list", "few", "id"], ["map"], ["text", "struct"], []):
        fetched = await file.fetch(columns, row_groups=[0])
        every = file.decode(fetched)
        for wanted in ranges(ROWS, seed=len(columns)):
            assert file.row_range(fetched, wanted).equals(every.slice(wanted.start, len(wanted)))


DICTIONARIES = range(0)


async def damaged(table: pa.Table, rows: range, **options: Any) -> ParquetFile:
    """A file of one row group, with noise in the place of the pages that begin at these rows.

    Of `DICTIONARIES` it is in theirs.
    """
    data = bytearray(parquet_bytes(table, **options))
    whole = await ParquetFile.open(await stored(table), "f.parquet")
    leaves = range(whole.layout.tree.num_leaves)
    store = await stored(table)
    await store.put("damaged", bytes(data))
    file = await ParquetFile.open(store, "damaged")
    source = pa.BufferReader(bytes(data))
    for place in file.layout.places(leaves, (0,)):
        at = 0
        for page in pages_of(source, place):
            dictionary = page.kind == DICTIONARY_PAGE
            if dictionary if rows is DICTIONARIES else at in rows:
                start, end = page.payload
                data[start:end] = random.Random(at).randbytes(end - start)
            at += 0 if dictionary else page.values
    await store.put("damaged", bytes(data))
    return await ParquetFile.open(store, "damaged")


PLAIN_PAGES = {**PAGES, "use_dictionary": False}
FLAT = TABLE.select(["id", "number", "text", "money"])


async def test_a_dictionary_is_decoded_where_a_page_refers_to_it():
    table = pa.table({"n": range(20_000), "text": [f"text {n * n}" for n in range(20_000)]})
    options = {"dictionary_pagesize_limit": 20_000, "data_page_size": 9_000, "compression": "zstd"}
    for file in (
        await ParquetFile.open(await stored(table, **options), "f.parquet"),
        await damaged(table, DICTIONARIES, **options),
    ):
        fetched = await file.fetch()
        late = range(15_000, 15_010)
        assert file.row_range(fetched, late).equals(table.slice(15_000, 10))
    sound = await ParquetFile.open(await stored(table, **options), "f.parquet")
    whole = await sound.fetch()
    with sound.bytes.source(whole) as source:
        for wanted in (range(100, 300), range(900, 9000), late):
            found, _ = module.decode_row_range(sound.layout, whole, source, wanted)
            assert found.equals(table.slice(wanted.start, len(wanted)))
    for early in (range(100, 300), range(900, 9000)):
        with pytest.raises(InvalidTableError):
            file.row_range(fetched, early)


@pytest.mark.parametrize("around", [range(900), range(2100, ROWS)])
async def test_what_lies_around_them_is_not_decoded(around: range):
    file = await damaged(FLAT, around, **PLAIN_PAGES)
    fetched = await file.fetch()
    with pytest.raises(InvalidTableError):
        file.decode(fetched)
    assert file.row_range(fetched, range(1500, 1900)).equals(FLAT.slice(1500, 400))


async def test_what_is_damaged_among_them_is_said_to_be():
    file = await damaged(FLAT, range(1400, 1900), **PLAIN_PAGES)
    with pytest.raises(InvalidTableError, match=r"damaged.*restore it"):
        file.row_range(await file.fetch(), range(1500, 1900))


async def test_pages_that_do_not_tell_their_rows_are_read_from_the_first(
    monkeypatch: pytest.MonkeyPatch,
):
    store = await stored(TABLE, compression="zstd", **PAGES)
    file = await ParquetFile.open(store, "f.parquet")
    fetched = await file.fetch()
    monkeypatch.setattr(module, "DATA_PAGE", -1)
    assert file.row_range(fetched, range(700, 750)).equals(READ.slice(700, 50))


async def test_texts_that_are_too_large_together_are_decoded_as_ever(
    monkeypatch: pytest.MonkeyPatch,
):
    file = await ParquetFile.open(await stored(TABLE, **PAGES), "f.parquet")
    fetched = await file.fetch()
    monkeypatch.setattr(type(file.guard), "check_chunks", lambda *_: 10)
    assert file.row_range(fetched, range(700, 750)).equals(READ.slice(700, 50))
