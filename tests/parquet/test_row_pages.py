"""Of a row group the pages with some of its rows are fetched, if they are where an index says."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError
from adelta.parquet.decode import row_range
from adelta.parquet.reader import ParquetFile
from adelta.parquet.row_pages import RowPages, row_pages
from adelta.parquet.skip.page_index import PageLocations, index_places, page_locations
from adelta.storage.local import LocalStore
from tests.parquet.many_types import PAGES, READ, ROWS, TABLE
from tests.parquet.recording_store import RecordingStore, parquet_bytes, stored
from tests.parquet.test_row_range import CODECS, ranges

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHAPES: dict[str, dict[str, Any]] = {
    "in small pages": PAGES,
    "in small row groups": {"row_group_size": 700, **PAGES},
    "without dictionaries": {"use_dictionary": False, **PAGES},
    "in pages of the second version": {"data_page_version": "2.0", **PAGES},
    "with long dictionaries": {"dictionary_pagesize_limit": 4000, **PAGES},
    "in one page each": {},
}


UNREAD = ("lz4", "brotli")  # how long the texts of dictionaries are is not seen


def located(file: ParquetFile, data: bytes, group: int) -> dict[int, PageLocations]:
    """Where the pages of a row group's leaves are, by its indexes."""
    layout = file.layout
    assert layout.footer is not None
    end = layout.footer_start
    wanted = {(group, leaf) for leaf in range(layout.tree.num_leaves)}
    rows = layout.rows_of((group,))
    return {
        leaf: page_locations(
            memoryview(data)[slice(*place.offset_index)],
            rows=rows,
            end=end,
            by_dictionary=place.by_dictionary,
        )
        for (_, leaf), place in index_places(layout.footer, wanted, end=end).items()
    }


async def opened(**options: Any) -> tuple[RecordingStore, ParquetFile, bytes]:
    store = await stored(TABLE, write_page_index=True, **options)
    file = await ParquetFile.open(store, "f.parquet", tail=100)
    store.asked()
    return store, file, await store.get("f.parquet")


def pages(
    file: ParquetFile, group: int, rows: range, found: Mapping[int, PageLocations]
) -> RowPages:
    return row_pages(file.layout, file.layout.select(None).leaves, group, rows, found)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("codec", CODECS)
async def test_rows_of_fetched_pages_are_those_of_the_row_group(shape: str, codec: str):
    _, file, data = await opened(compression=codec, **SHAPES[shape])
    before = 0
    for group in range(file.layout.num_row_groups):
        count, found = file.layout.rows_of((group,)), located(file, data, group)
        for rows in ranges(count, seed=group):
            if not rows:
                continue
            wanted = pages(file, group, rows, found)
            fetched = await file.fetch_pages(file.layout.select(None), group, wanted)
            if codec not in UNREAD:
                assert fetched.chunks is not None
            expected = READ.slice(before + rows.start, len(rows))
            assert file.decode(fetched).equals(expected)
            inner = range(rows.start + len(rows) // 3, rows.stop - len(rows) // 3)
            assert file.row_range(fetched, inner).equals(
                READ.slice(before + inner.start, len(inner))
            )
        before += count


async def test_what_is_fetched_are_the_pages_and_the_dictionaries():
    store, file, data = await opened(use_dictionary=["few"], **PAGES)
    columns = file.layout.select(["id", "few"])
    found = located(file, data, 0)
    wanted = row_pages(file.layout, columns.leaves, 0, range(1550, 1560), found)
    fetched = await file.fetch_pages(columns, 0, wanted)
    (asked,) = [spans for kind, spans in store.asked() if kind == "ranges"]
    id, few = columns.leaves
    ((dictionary, _),) = file.layout.places((few,), (0,))
    assert found[id].first_rows[5] == 1500
    assert len(found[few].places) == 1
    assert asked == [found[id].places[5], (dictionary, found[few].places[0][1])]
    assert wanted.size(columns.leaves) == sum(end - start for start, end in asked)
    assert file.decode(fetched).equals(READ.select(["id", "few"]).slice(1550, 10))


async def test_a_dictionary_is_fetched_where_a_page_refers_to_it():
    store = await stored(TABLE, write_page_index=True, dictionary_pagesize_limit=4000, **PAGES)
    file = await ParquetFile.open(store, "f.parquet", tail=100)
    found = located(file, await store.get("f.parquet"), 0)
    columns = file.layout.select(["text"])
    (leaf,) = columns.leaves
    told = found[leaf].by_dictionary
    assert told is not None
    assert 0 < told < len(found[leaf].places)
    for by_dictionary, row, without in (
        (told, found[leaf].first_rows[told - 1], False),
        (told, found[leaf].first_rows[told], True),
        (None, found[leaf].first_rows[told], False),
        (0, 5, False),  # which is not so: the whole chunk is read
    ):
        pages = {leaf: replace(found[leaf], by_dictionary=by_dictionary)}
        wanted = row_pages(file.layout, (leaf,), 0, range(row, row + 2), pages)
        fetched = await file.fetch_pages(columns, 0, wanted)
        assert (fetched.chunks is None) == (by_dictionary == 0)
        chunk = wanted.chunks[leaf]
        assert (chunk.left_out[0] == chunk.place[0]) == (without or by_dictionary == 0)
        assert file.decode(fetched).equals(READ.select(["text"]).slice(row, 2))


async def test_so_they_are_read_of_a_local_file(tmp_path: Path):
    data = parquet_bytes(TABLE, write_page_index=True, use_dictionary=False, **PAGES)
    (tmp_path / "f.parquet").write_bytes(data)
    store = LocalStore(tmp_path)
    file = await ParquetFile.open(store, "f.parquet", tail=100)
    columns = file.layout.select(["id", "text", "struct"])
    before = store.stats.bytes_read
    await file.read(["id", "text", "struct"])
    every, before = store.stats.bytes_read - before, store.stats.bytes_read
    wanted = row_pages(file.layout, columns.leaves, 0, range(2100, 2190), located(file, data, 0))
    fetched = await file.fetch_pages(columns, 0, wanted)
    assert fetched.in_file
    assert file.decode(fetched).equals(READ.select(["id", "text", "struct"]).slice(2100, 90))
    assert store.stats.bytes_read - before < every * 0.6


def later(pages: PageLocations) -> PageLocations:
    """The page with row 1500 said to begin a row later."""
    at = bisect_right(pages.first_rows, 1500) - 1
    rows = list(pages.first_rows)
    rows[at] += 1
    return replace(pages, first_rows=tuple(rows))


def shifted(pages: PageLocations) -> PageLocations:
    """Each page said to be where the next one is."""
    return replace(pages, places=(*pages.places[1:], pages.places[-1]))


def longer(pages: PageLocations) -> PageLocations:
    return replace(pages, places=tuple((start, end + 9) for start, end in pages.places))


def fewer(pages: PageLocations) -> PageLocations:
    """The page with row 1500 and the one after it said to be one."""
    at = bisect_right(pages.first_rows, 1500) - 1
    joined = ((pages.places[at][0], pages.places[at + 1][1]),)
    return PageLocations(
        pages.first_rows[: at + 1] + pages.first_rows[at + 2 :],
        pages.places[:at] + joined + pages.places[at + 2 :],
    )


def elsewhere(pages: PageLocations) -> PageLocations:
    return replace(pages, places=tuple((start + 9**6, end + 9**6) for start, end in pages.places))


@pytest.mark.parametrize("lie", [later, shifted, longer, fewer, elsewhere])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}])
async def test_an_index_that_does_not_tell_the_truth_is_not_gone_by(lie: Any, options: Any):
    _, file, data = await opened(compression="none", **options, **PAGES)
    found = located(file, data, 0)
    columns = file.layout.select(["id", "text", "day"])
    rows = range(1402, 1598)
    for leaf in columns.leaves:
        told = {**found, leaf: lie(found[leaf])}
        wanted = row_pages(file.layout, columns.leaves, 0, rows, told)
        fetched = await file.fetch_pages(columns, 0, wanted)
        assert file.decode(fetched).equals(READ.select(["id", "text", "day"]).slice(1402, 196))
        if lie in (later, fewer):
            assert fetched.chunks is None
        else:  # it is seen at once that the pages are not all there is of the chunk
            assert fetched.chunks is not None
            assert fetched.chunks[leaf].told is None


async def test_pages_that_are_damaged_are_said_to_be():
    store, file, data = await opened(use_dictionary=False, compression="zstd", **PAGES)
    found = located(file, data, 0)
    (leaf,) = file.layout.select(["text"]).leaves
    at = bisect_right(found[leaf].first_rows, 1550) - 1
    _, end = found[leaf].places[at]
    await store.put("f.parquet", data[: end - 30] + b"\xff" * 30 + data[end:])
    file = await ParquetFile.open(store, "f.parquet", tail=100)
    wanted = pages(file, 0, range(1550, 1560), found)
    fetched = await file.fetch_pages(file.layout.select(None), 0, wanted)
    assert fetched.chunks is not None
    with pytest.raises(InvalidTableError, match=r"damaged.*restore it"):
        file.decode(fetched)


async def test_texts_that_are_too_large_together_are_read_with_all_of_their_row_group(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(row_range, "_TEXTS", 10)
    texts = pa.table({"text": [f"text {n // 500}" for n in range(ROWS)]})
    store = await stored(texts, write_page_index=True, **PAGES)
    file = await ParquetFile.open(store, "f.parquet", tail=100)
    found = located(file, await store.get("f.parquet"), 0)
    wanted = pages(file, 0, range(900, 1010), found)
    fetched = await file.fetch_pages(file.layout.select(None), 0, wanted)
    assert fetched.chunks is None
    assert file.decode(fetched).equals(texts.slice(900, 110))


async def test_no_columns_are_a_number_of_rows():
    _, file, data = await opened(**PAGES)
    none = file.layout.select([])
    wanted = row_pages(file.layout, (), 0, range(900, 1010), located(file, data, 0))
    assert file.decode(await file.fetch_pages(none, 0, wanted)).num_rows == 110


@pytest.mark.parametrize("page", ["of values", "of the dictionary"])
async def test_pages_are_held_to_their_checksums(page: str):
    options = {**PAGES, "compression": "none", "write_page_checksum": True}
    store, file, data = await opened(use_dictionary=["text"], **options)
    found = located(file, data, 0)
    (leaf,) = file.layout.select(["text"]).leaves
    ((start, _),) = file.layout.places((leaf,), (0,))
    row = found[leaf].first_rows[-1] + 5
    at = found[leaf].places[-1][1] - 3 if page == "of values" else start + 60
    await store.put("f.parquet", data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    wanted = row_pages(file.layout, (leaf,), 0, range(row, row + 9), found)
    for verify in (False, True):
        file = await ParquetFile.open(store, "f.parquet", tail=100, verify=verify)
        fetched = await file.fetch_pages(file.layout.select(["text"]), 0, wanted)
        assert (fetched.chunks is None) == verify
    with pytest.raises(InvalidTableError, match="other bytes than its checksum says"):
        file.decode(fetched)
