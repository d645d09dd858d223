"""Where chunks are by the shape of a footer is what Arrow says of it, or Arrow is asked."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.parquet import page_headers
from adelta.parquet.arrow_reader import open_footer
from adelta.parquet.footer import known_shapes, layout
from adelta.parquet.footer.chunk_ranges import ChunkLayout, chunk_layouts
from adelta.parquet.footer.columns import ColumnTree, column_tree
from adelta.parquet.footer.known_shapes import known_chunks
from adelta.parquet.footer.layout import FileLayout
from adelta.parquet.page_headers import HeldBytes
from tests.parquet.test_footer_shape import SCHEMA, footer_of, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.footer.footer_shape import FooterShape

LEARNS = "adelta.parquet.footer.footer_shape"

Chunks = dict[tuple[int, int], ChunkLayout]


@pytest.fixture(autouse=True)
def _no_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_shapes, "_kinds", [])


def stored(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return sink.getvalue()


def told(footer: bytes, size: int) -> Chunks | None:
    reader = open_footer("f", memoryview(footer))
    tree = column_tree(reader.schema_arrow)
    return known_chunks("f", size, reader.metadata, memoryview(footer), tree)


def by_arrow(footer: bytes, size: int) -> Chunks | None:
    metadata = open_footer("f", memoryview(footer)).metadata
    try:
        groups, leaves = range(metadata.num_row_groups), range(metadata.num_columns)
        return chunk_layouts("f", size, metadata, groups, leaves)
    except (InvalidTableError, UnsupportedFeatureError):
        return None


def taught(files: Sequence[bytes]) -> None:
    for data in files:
        told(footer_of(data), len(data))


NUMBERS = st.lists(st.none() | st.integers(0, 2**31), max_size=12)


@settings(max_examples=25)
@given(NUMBERS, NUMBERS, st.sampled_from(["none", "snappy", "zstd"]), st.booleans())
def test_chunks_are_where_arrow_finds_them(
    first: list[int | None], second: list[int | None], codec: str, dictionary: bool
) -> None:
    options = {"compression": codec, "use_dictionary": dictionary}
    one, other = stored(table(first), **options), stored(table(second), **options)
    taught([one] * 8)
    for data in (one, other):
        footer = footer_of(data)
        assert told(footer, len(data)) in (None, by_arrow(footer, len(data)))


def test_arrow_judges_the_first_small_files_of_a_schema_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = [stored(table(range(start, start + 50))) for start in range(5, 1_000, 50)]
    found = [told(footer_of(data), len(data)) for data in files]
    assert [each is None for each in found] == [True] * 7 + [False] * 13
    # Of others with the same schema the first ones again, and so many in all.
    others = [stored(table(range(9)).replace_schema_metadata({"n": str(n)})) for n in range(90)]
    judged = []
    monkeypatch.setattr(known_shapes, "_learnt", lambda *args: judged.append(args))
    assert [told(footer_of(data), len(data)) for data in others] == [None] * 90
    assert len(judged) == 7


def test_arrow_judges_all_where_no_descriptor_is_left_to_load_what_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full:
        """Finds modules in a process that can open no file."""

        def find_spec(self, name: str, *_: object) -> None:
            if name == LEARNS:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)

    monkeypatch.delitem(sys.modules, LEARNS)
    monkeypatch.setattr(sys, "meta_path", [Full(), *sys.meta_path])
    data = stored(table(range(50)))
    assert [told(footer_of(data), len(data)) for _ in range(10)] == [None] * 10


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_damaged_footer_that_a_shape_reads_is_one_that_arrow_finds_sound(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("long", "cheap", "text", "many")])
    data = stored(table([1, 2, None, 70_000], schema), row_group_size=3, data_page_version=version)
    footer = footer_of(data)
    sound = open_footer("f", memoryview(footer)).schema_arrow
    tree = column_tree(sound)
    taught([data] * 8)
    monkeypatch.setattr(known_shapes, "_LAST_LESSON", 0)
    read = 0
    for at in range(len(footer) - 8):
        for bit in (1, 2, 0x40, 0x80):
            damaged = bytearray(footer)
            damaged[at] ^= bit
            try:
                reader = open_footer("f", memoryview(damaged))
                alike = reader.schema_arrow.equals(sound)
            except (InvalidTableError, UnsupportedFeatureError, UnicodeDecodeError):
                continue
            metadata = reader.metadata
            if not alike or metadata.num_columns != tree.num_leaves:
                continue
            found = known_chunks("f", len(data), metadata, memoryview(damaged), tree)
            if found is not None:
                read += 1
                assert found == by_arrow(bytes(damaged), len(data))
    assert read > 100


def test_a_chunk_behind_the_end_of_the_object_is_left_to_arrow() -> None:
    data = stored(table(range(30)))
    footer = footer_of(data)
    taught([data] * 8)
    assert told(footer, len(data)) is not None
    last = max(chunk.place[1] for chunk in (told(footer, len(data)) or {}).values())
    assert told(footer, last) is not None
    assert told(footer, last - 1) is None


def test_long_footers_large_files_and_footers_not_at_hand_are_left_to_arrow() -> None:
    data = stored(table(range(30)))
    taught([data] * 8)
    reader = open_footer("f", memoryview(footer_of(data)))
    tree = ColumnTree(reader.schema_arrow)
    assert known_chunks("f", len(data), reader.metadata, None, tree) is None
    assert told(footer_of(data), len(data)) is not None
    assert told(footer_of(data), 3 << 20) is None  # of a large file
    long = stored(table(range(30)).replace_schema_metadata({"long": "x" * 70_000}))
    assert [told(footer_of(long), len(long)) for _ in range(9)] == [None] * 9


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write_page_checksum": True, "compression": "zstd"},
        {"use_dictionary": False, "data_page_size": 64},
        {"data_page_version": "2.0"},
    ],
    ids=str,
)
def test_headers_of_pages_are_read_alike_on_the_short_way(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = stored(table(range(400)), **options)
    found = by_arrow(footer_of(data), len(data))
    assert found is not None

    def pages() -> list[Any]:
        source = HeldBytes(pa.BufferReader(data), (0, len(data)))
        return [source.pages(chunk.place) for chunk in found.values()]

    usual = pages()
    heads = [page.header for chunk in usual for page in chunk][:6]
    quick = page_headers._usual_page
    monkeypatch.setattr(page_headers, "_usual_page", lambda *_: None)
    assert pages() == usual
    for head in heads:
        for at in range(len(head)):
            for value in range(256):
                damaged = head[:at] + bytes([value]) + head[at + 1 :] + bytes(16)
                short = quick(damaged, 7)
                if short is not None:
                    assert short == page_headers._page(damaged, 7)


def test_a_file_that_is_read_column_by_column_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(layout, "known_chunks", lambda path, *_: asked.append(path))
    data = stored(table(range(30)))
    for path in ("a", "b"):
        reader = open_footer(path, memoryview(footer := footer_of(data)))
        schema = reader.schema_arrow
        file = FileLayout.of(path, len(data), reader.metadata, schema, memoryview(footer))
        for leaf in range(file.tree.num_leaves):
            file.places((leaf,), (0,))
    assert asked == ["a", "b"]


def test_a_shape_is_learnt_once_and_then_of_what_it_cannot_read() -> None:
    def shape_of(data: bytes) -> FooterShape:
        metadata = pq.read_metadata(io.BytesIO(data))
        return known_shapes.learnt_shape(footer_of(data), metadata, metadata.num_columns)

    known_shapes.forget_shapes()
    plain, nulls = stored(table([1, 2])), stored(table([None, None]))
    first = shape_of(plain)
    assert first.read(footer_of(plain)) is not None
    assert first.read(footer_of(nulls)) is None
    assert shape_of(stored(table([3, 4]))) is first
    both = shape_of(nulls)
    assert both.read(footer_of(plain)) is not None
    assert shape_of(plain) is shape_of(nulls) is both
    known_shapes.forget_shapes()
    assert shape_of(plain) is not both
