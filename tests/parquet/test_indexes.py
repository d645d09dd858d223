"""Page indexes and Bloom filters as real writers leave them, and as damage does."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.parquet.skip.bloom_filter import SplitBlockFilter
from adelta.parquet.skip.page_index import decode_pages, index_places
from adelta.parquet.skip.plain_values import PlainType, decode_plain, encode_plain
from adelta.parquet.thrift import I32, STRUCT, CompactReader, ThriftError
from tests.parquet.recording_store import parquet_bytes

UTC = dt.UTC
ROWS = 600
VALUES: dict[str, tuple[pa.DataType, list[Any], Any]] = {
    "byte": (pa.int8(), [n % 100 for n in range(ROWS)], 101),
    "short": (pa.int16(), [n * 2 for n in range(ROWS)], 3),
    "int": (pa.int32(), [n * -2 for n in range(ROWS)], 3),
    "long": (pa.int64(), [n << 33 for n in range(ROWS)], 3),
    "float": (pa.float32(), [n + 0.5 for n in range(ROWS)], 0.25),
    "double": (pa.float64(), [n + 0.1 for n in range(ROWS)], 0.25),
    "text": (pa.string(), [f"é{n}" for n in range(ROWS)], "e1"),
    "bytes": (pa.binary(), [bytes([n % 256, n // 256]) for n in range(ROWS)], b"\xff\xff"),
    "small": (pa.decimal128(7, 2), [Decimal(n).scaleb(-2) for n in range(ROWS)], Decimal("-0.01")),
    "middle": (pa.decimal128(15, 2), [Decimal(n) for n in range(ROWS)], Decimal("0.01")),
    "large": (pa.decimal128(38, 9), [Decimal(-n) for n in range(ROWS)], Decimal("0.01")),
    "day": (pa.date32(), [dt.date(1960, 1, 1) + dt.timedelta(n) for n in range(ROWS)], dt.date.min),
    "at": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 55, 0, n, UTC) for n in range(ROWS)],
        dt.datetime(1969, 1, 1, tzinfo=UTC),
    ),
}
TABLE = pa.table({name: pa.array(values, kind) for name, (kind, values, _) in VALUES.items()})
# A decimal that fits is an integer to Spark and deltalake, and bytes to Arrow unless it is told.
AS_INTEGERS = {"store_decimal_as_integer": True}


def stored(metadata: pq.FileMetaData, column: int) -> PlainType:
    found = metadata.schema.column(column)
    return PlainType(found.physical_type, TABLE.schema.field(column).type, found.length or 0)


def by_arrow(**options: Any) -> bytes:
    blooms = {name: {"ndv": ROWS, "fpp": 0.0001} for name in TABLE.column_names}
    return parquet_bytes(TABLE, bloom_filter_options=blooms, **options)


def by_deltalake(tmp_path: Any) -> bytes:
    bloom = deltalake.BloomFilterProperties(True, fpp=0.0001, ndv=ROWS)
    properties = deltalake.WriterProperties(
        default_column_properties=deltalake.ColumnProperties(bloom_filter_properties=bloom)
    )
    deltalake.write_deltalake(str(tmp_path), TABLE, writer_properties=properties)
    (file,) = tmp_path.glob("*.parquet")
    return bytes(file.read_bytes())


@pytest.fixture(params=["arrow", "arrow, decimals as integers", "deltalake"])
def data(request: pytest.FixtureRequest, tmp_path: Any) -> bytes:
    if request.param == "deltalake":
        return by_deltalake(tmp_path)
    return by_arrow(**(AS_INTEGERS if "decimals" in request.param else {}))


@pytest.mark.parametrize("name", VALUES)
def test_a_filter_has_every_value_stored_and_not_another(data: bytes, name: str) -> None:
    """Other engines' filters are of the bytes that `encode_plain` makes, for every type."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    column = TABLE.schema.get_field_index(name)
    chunk: Any = metadata.row_group(0).column(column)
    start = chunk.bloom_filter_offset
    found = SplitBlockFilter(memoryview(data)[start : start + chunk.bloom_filter_length])
    kind = stored(metadata, column)
    _, values, absent = VALUES[name]
    encoded = [encode_plain(value, kind) for value in values]
    assert None not in encoded
    assert all(found.may_contain(value) for value in encoded if value is not None)
    other = encode_plain(absent, kind)
    assert other is not None
    assert not found.may_contain(other)


@pytest.mark.parametrize(
    ("value", "physical", "kind"),
    [
        (0.0, "DOUBLE", pa.float64()),
        (-0.0, "FLOAT", pa.float32()),
        (float("nan"), "DOUBLE", pa.float64()),
        (0.1, "FLOAT", pa.float32()),
        (1e300, "FLOAT", pa.float32()),
        (2**31, "INT32", pa.int32()),
        (1.5, "INT64", pa.int64()),
        (float("inf"), "INT64", pa.int64()),
        (Decimal("1.555"), "INT32", pa.decimal128(7, 2)),
        (Decimal("1.5"), "BYTE_ARRAY", pa.decimal128(7, 2)),
        (Decimal("1e30"), "INT64", pa.decimal128(18, 2)),
        (1.5, "INT64", pa.decimal128(18, 2)),
        (dt.datetime(2020, 1, 1, 0, 0, 0, 1), "INT64", pa.timestamp("ms")),
        (dt.datetime(2020, 1, 1), "INT64", pa.timestamp("ns")),
        (dt.datetime(2020, 1, 1), "INT96", pa.timestamp("us")),
        (dt.datetime(2020, 1, 1), "INT32", pa.date32()),
        (True, "BOOLEAN", pa.bool_()),
        (True, "INT32", pa.int32()),
        (None, "INT32", pa.int32()),
        (5, "INT32", pa.uint32()),
        (b"a", "FIXED_LEN_BYTE_ARRAY", pa.binary(1)),
        ("a", "INT32", pa.int32()),
    ],
)
def test_a_value_of_several_spellings_or_of_none_is_not_looked_for(value, physical, kind) -> None:
    assert encode_plain(value, PlainType(physical, kind, 1)) is None


def test_a_value_is_looked_for_in_the_type_that_the_file_has() -> None:
    """What a column was before it was widened is what its old files hash."""
    seven = struct.pack("<i", 7)
    assert encode_plain(7, PlainType("INT32", pa.int32(), 0)) == seven
    assert encode_plain(7.0, PlainType("INT32", pa.int32(), 0)) == seven
    assert encode_plain(Decimal("7.000"), PlainType("INT32", pa.int8(), 0)) == seven
    assert encode_plain(7, PlainType("INT64", pa.int64(), 0)) == struct.pack("<q", 7)
    assert encode_plain(0.5, PlainType("FLOAT", pa.float32(), 0)) == struct.pack("<f", 0.5)
    hundredths = PlainType("FIXED_LEN_BYTE_ARRAY", pa.decimal128(20, 2), 9)
    assert encode_plain(Decimal(-7), hundredths) == (-700).to_bytes(9, "big", signed=True)
    at = dt.datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
    assert encode_plain(at, PlainType("INT64", pa.timestamp("ms"), 0)) == struct.pack("<q", 7000)


@pytest.mark.parametrize("options", [{}, AS_INTEGERS, {"data_page_version": "2.0"}])
@pytest.mark.parametrize("name", VALUES)
def test_pages_are_read_with_their_bounds(name: str, options: dict[str, Any]) -> None:
    _, values, _ = VALUES[name]
    rows = [None if n < ROWS // 2 or n % 7 == 0 else value for n, value in enumerate(values)]
    table = pa.table({"other": [b"x" * 1000] * ROWS, name: pa.array(rows, VALUES[name][0])})
    file = parquet_bytes(
        table,
        write_page_index=True,
        data_page_size=1,
        write_batch_size=50,
        use_dictionary=False,
        row_group_size=ROWS // 2,
        **options,
    )
    metadata = pq.read_metadata(pa.BufferReader(file))
    column = metadata.schema.column(1)
    kind = PlainType(column.physical_type, VALUES[name][0], column.length or 0)
    end = len(file) - 8 - int.from_bytes(file[-8:-4], "little")
    places = index_places(memoryview(file)[end:], [(0, 1), (1, 1)], end=end)
    assert set(places) == {(0, 1), (1, 1)}
    for group in (0, 1):
        column_index, offset_index = (
            memoryview(file)[slice(*place)]
            for place in (places[group, 1].column_index, places[group, 1].offset_index)
        )
        pages = decode_pages(column_index, offset_index, rows=ROWS // 2, end=end)
        starts = [0] if group == 0 else list(range(0, ROWS // 2, 50))
        assert list(pages.first_rows) == starts
        first = group * ROWS // 2
        parts = [
            rows[first + start : first + stop]
            for start, stop in zip(starts, [*starts[1:], ROWS // 2], strict=True)
        ]
        assert pages.null_counts == tuple(part.count(None) for part in parts)
        present = [[value for value in part if value is not None] for part in parts]
        for found, least in ((pages.minima, min), (pages.maxima, max)):
            wanted = [least(part) if part else None for part in present]
            decoded = decode_plain(list(found), kind)
            if name == "bytes":
                assert decoded is None
            else:
                assert decoded is not None
                assert decoded.to_pylist() == wanted


def test_a_file_that_does_not_say_its_order_has_no_bounds() -> None:
    assert index_places(memoryview(b"\x15\x04\x19\x0c\x16\x00\x19\x0c\x00"), [(0, 0)], end=99) == {}


BITS = b"\x15\x40\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"


def test_a_filter_without_bits_set_has_nothing() -> None:
    assert not SplitBlockFilter(memoryview(BITS + bytes(32))).may_contain(b"x")
    assert SplitBlockFilter(memoryview(BITS + b"\xff" * 32)).may_contain(b"x")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x00",
        BITS[:-1],
        BITS.replace(b"\x15\x40", b"\x15\x3e"),  # 31 bytes
        BITS.replace(b"\x15\x40", b"\x15\x3f"),  # -32 bytes
        BITS.replace(b"\x15\x40", b"\x15\x00"),
        BITS.replace(b"\x1c\x1c\x00\x00\x00", b"\x1c\x2c\x00\x00\x00"),  # compressed
        b"\x15\x80\x80\x80\x80\x08" + BITS[2:],  # 1 GiB
    ],
)
def test_a_filter_of_another_kind_or_damaged_is_refused(header: bytes) -> None:
    with pytest.raises(ThriftError):
        SplitBlockFilter(memoryview(header + bytes(32)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x15",  # an integer that is not there
        b"\x15" + b"\xff" * 20,
        b"\x18\xff\xff\xff\xff\x07abc",  # a text of 2 GB
        b"\x19\xfc\xff\xff\xff\xff\x07",  # a list of 2 thousand million structs
        b"\x1b\xff\xff\xff\xff\x07\x88",  # such a map
        b"\x1c" * 100,
        b"\x19\x19" * 100,
        b"\x1e",  # of no type
    ],
)
def test_bytes_that_ask_for_more_than_there_is_are_refused(data: bytes) -> None:
    with pytest.raises(ThriftError):
        CompactReader(data).skip(STRUCT)


def test_a_list_of_something_else_is_refused() -> None:
    with pytest.raises(ThriftError):
        CompactReader(b"\x28\x00\x00").list_of(I32)


@pytest.mark.parametrize(
    ("first_rows", "rows"),
    [((0, 5, 5), 10), ((0, 5), 5), ((1, 5), 10), ((), 10), ((0, -3), 10)],
)
def test_pages_that_do_not_share_the_rows_are_refused(first_rows, rows) -> None:
    locations = [(4 + 10 * n, 10, row) for n, row in enumerate(first_rows)]
    count = len(first_rows)
    column_index = (
        b"\x19" + bytes([count << 4 | 2]) + b"\x02" * count + b"\x19" + bytes([count << 4 | 8])
        + b"\x00" * count + b"\x19" + bytes([count << 4 | 8]) + b"\x00" * count + b"\x00"
    )  # fmt: skip
    offset_index = b"\x19" + bytes([count << 4 | 12])
    for at, size, row in locations:
        offset_index += b"\x16" + _zigzag(at) + b"\x15" + _zigzag(size) + b"\x16" + _zigzag(row)
        offset_index += b"\x00"
    with pytest.raises(ThriftError):
        decode_pages(memoryview(column_index), memoryview(offset_index + b"\0"), rows=rows, end=99)


def _zigzag(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
