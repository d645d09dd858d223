from __future__ import annotations

import contextlib
import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.footer.chunk_ranges import chunk_ranges
from tests.parquet.recording_store import parquet_bytes

ROWS = 3_000
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS)),
        "text": pa.array([f"text {n}" * 9 for n in range(ROWS)]),
        "nothing": pa.nulls(ROWS, pa.int32()),
        "struct": pa.array([{"a": n, "b": {"c": str(n)}} for n in range(ROWS)]),
        "list": pa.array([[n] * (n % 4) for n in range(ROWS)]),
        "map": pa.array(
            [[("k", n)] if n % 2 else None for n in range(ROWS)], pa.map_(pa.string(), pa.int64())
        ),
    }
)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("rows", [ROWS, 1_000])
@pytest.mark.parametrize("dictionary", [True, False])
def test_chunks_are_where_the_footer_says(codec: str, rows: int, dictionary: bool):
    data = parquet_bytes(TABLE, compression=codec, row_group_size=rows, use_dictionary=dictionary)
    metadata = pq.read_metadata(io.BytesIO(data))
    groups, leaves = range(metadata.num_row_groups), range(metadata.num_columns)
    expected = {}
    for group in groups:
        for leaf in leaves:
            chunk = metadata.row_group(group).column(leaf)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            expected[group, leaf] = (start, start + chunk.total_compressed_size)
    assert chunk_ranges("f", len(data), metadata, groups, leaves) == expected
    some = {key: span for key, span in expected.items() if key[0] == 0 and key[1] in (1, 4)}
    assert chunk_ranges("f", len(data), metadata, (0,), (4, 1)) == some


def test_row_groups_without_rows_are_no_obstacle():
    data = parquet_bytes(TABLE.slice(0, 0))
    metadata = pq.read_metadata(io.BytesIO(data))
    leaves = range(metadata.num_columns)
    found = chunk_ranges("f", len(data), metadata, range(metadata.num_row_groups), leaves)
    assert all(0 <= start <= end <= len(data) for start, end in found.values())


def test_damaged_metadata_of_a_chunk_never_ends_the_process():
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.select(["number"]).schema, compression="snappy") as writer:
        writer.write_table(TABLE.select(["number"]))
    data = sink.getvalue()
    length = struct.unpack("<i", data[-8:-4])[0]
    footer = data[-8 - length : -8]
    for at in range(length):
        for value in (0, 0x80, 0xFF):
            damaged = footer[:at] + bytes([value]) + footer[at + 1 :]
            with contextlib.suppress(InvalidTableError, UnsupportedFeatureError):
                metadata = open_arrow_reader("f", memoryview(damaged + data[-8:])).metadata
                groups = range(min(metadata.num_row_groups, 3))
                found = chunk_ranges("f", len(data), metadata, groups, range(metadata.num_columns))
                assert all(0 <= start <= end for start, end in found.values())
