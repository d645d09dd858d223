"""What a hostile file makes of few bytes: rare rows are refused before they are many, or much."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adelta.parquet.page_headers import BytesAtHand, pages_of
from adelta.parquet.rare.pages import Allowance, ChunkFacts, Level, UnusualFileError, read_chunk
from adelta.parquet.rare.rows import RareColumns
from adelta.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    CompactReader,
    encoded_binary,
    encoded_integer,
    field_header,
    list_header,
    varint,
)
from tests.parquet.test_rare_rows import (
    MARKERS,
    SCHEMA,
    encoded,
    footer_of,
    rare_rows,
)

OPTIONAL = Level(definition=1, repetition=0)
INT32 = 1


def struct(*fields: tuple[int, int, bytes]) -> bytes:
    out, last = b"", 0
    for number, kind, value in fields:
        out += field_header(kind, number - last) + value
        last = number
    return out + b"\0"


def page(payload: bytes, values: int, *, inner: int = 5, statistics: bytes = b"") -> bytes:
    """A data page of the first version, plain, and of levels that are runs."""
    numbers = (values, 0, 3, 3)
    own = [(n, I32, encoded_integer(number)) for n, number in enumerate(numbers, 1)]
    if statistics:
        own.append((5, STRUCT, struct((1, BINARY, encoded_binary(statistics)))))
    size = encoded_integer(len(payload))
    kind = (1, I32, encoded_integer(0))
    return struct(kind, (2, I32, size), (3, I32, size), (inner, STRUCT, struct(*own))) + payload


def read_levels(levels: bytes, values: int) -> Any:
    data = page(len(levels).to_bytes(4, "little") + levels, values)
    facts = ChunkFacts((0, len(data)), INT32, 0, len(data), values, None)
    return read_chunk(facts, OPTIONAL, memoryview(data), Allowance())


def test_a_long_run_takes_no_memory() -> None:
    assert read_levels(varint(2**31 << 1) + b"\0", 2**31) == ([(0, 0, 2**31)], [])


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (b"\xff" * 50_000 + b"\0", "without an end"),
        (b"\0\0" * 50_000, "of nothing"),
        (b"\1" * 50_000, "of nothing"),
        (varint(125_000 << 1 | 1) + b"\x55" * 125_000, "many"),
        (b"\2\0\2\1" * 500_000, "many"),
    ],
)
def test_levels_are_refused_that_are_much_work(levels: bytes, message: str) -> None:
    with pytest.raises(UnusualFileError, match=message):
        read_levels(levels, 1_000_000)


def test_a_page_of_another_kind_than_its_header_says_is_refused() -> None:
    """Its kind is that of data, and beside a number in place of that header it has another."""
    size = encoded_integer(6)
    own = struct((1, I32, encoded_integer(8)), (2, I32, encoded_integer(0)))
    head = struct(
        *[(1, I32, encoded_integer(0)), (2, I32, size), (3, I32, size)],
        *[(5, I32, encoded_integer(1)), (7, STRUCT, own)],
    )
    data = head + b"\2\0\0\0\x10\0"
    facts = ChunkFacts((0, len(data)), INT32, 0, len(data), 8, None)
    with pytest.raises(UnusualFileError, match="kind"):
        read_chunk(facts, OPTIONAL, memoryview(data), Allowance())


class CountedBytes(BytesAtHand):
    read = 0

    def read_at(self, count: int, at: int) -> bytes:
        found = super().read_at(count, at)
        self.read += len(found)
        return found


def test_long_headers_of_pages_are_read_a_few_times_each() -> None:
    data = page(b"\2\0\0\0\2\0", 1, statistics=b"m" * 400) * 500
    source = CountedBytes(memoryview(data))
    assert sum(page.values for page in pages_of(source, (0, len(data)))) == 500
    assert source.read < 20 * len(data)


def with_row_groups(data: bytes, times: int) -> tuple[bytes, int]:
    """The footer of a file, with its row groups so many times over; and where it is."""
    footer, end = footer_of(data)
    reader = CompactReader(footer)
    fields: list[tuple[int, int, bytes]] = []
    for number, kind in reader.fields():
        if (number, kind) == (4, LIST):
            count = reader.list_of(STRUCT)
            groups = b"".join(reader.skipped(STRUCT) for _ in range(count))
            fields.append((4, LIST, list_header(STRUCT, count * times) + groups * times))
        elif (number, kind) == (3, I64):
            fields.append((3, I64, encoded_integer(reader.integer() * times)))
        else:
            fields.append((number, kind, reader.skipped(kind)))
    return struct(*fields), end


@pytest.mark.parametrize("count", [9000, 1])
def test_row_groups_that_share_their_pages_are_refused_before_they_are_many(count: int) -> None:
    protocol = {"minReaderVersion": 3, "readerFeatures": ["a"] * (9000 // count)}
    data = encoded([{"protocol": protocol}] * count, pa.schema([SCHEMA.field("protocol")]))
    assert len(rare_rows(data)["protocol"]) == count
    columns = RareColumns.of_footer(*with_row_groups(data, 200), MARKERS)
    asked = 0

    def bytes_of(place: tuple[int, int]) -> memoryview:
        nonlocal asked
        asked += 1
        return memoryview(data)[slice(*place)]

    with pytest.raises(UnusualFileError, match="many"):
        columns.plan(MARKERS).rows(bytes_of)
    assert asked < 60


def test_long_lists_of_nulls_in_many_rows_are_refused() -> None:
    protocol = {"minReaderVersion": 3, "readerFeatures": [None] * 60_000}
    schema = pa.schema([SCHEMA.field("protocol")])
    assert rare_rows(encoded([{"protocol": protocol}], schema))["protocol"] == [protocol]
    with pytest.raises(UnusualFileError, match="many"):
        rare_rows(encoded([{"protocol": protocol}] * 10, schema))
