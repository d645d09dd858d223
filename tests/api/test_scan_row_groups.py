"""Scans that skip row groups inside files, and decode what a predicate keeps."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import (
    InvalidTableError,
)
from adelta.storage.memory import MemoryStore
from tests.api.test_scan import ids, scanned
from tests.parquet.recording_store import RecordingStore
from tests.support.data_tables import described, opened, put_data


async def recorded(row_groups: list[pa.Table], **options: Any) -> tuple[RecordingStore, list[Any]]:
    """A file of several row groups, each too large to come along with the footer."""
    store = RecordingStore()
    rows = pa.concat_tables(row_groups)
    noise = pa.array([bytes([n % 251]) * 300 for n in range(rows.num_rows)], pa.binary())
    rows = rows.append_column("noise", noise)
    line = await put_data(
        store,
        "f.parquet",
        rows,
        row_group_size=row_groups[0].num_rows,
        compression="none",
        use_dictionary=False,
        **options,
    )
    return store, [*described(rows.schema), line]


async def groups_read(
    store: RecordingStore, commit: list[Any], where: str
) -> tuple[int, list[Any]]:
    """How many row groups were asked for, and the ids of the rows that came."""
    async with await opened(store, commit) as table:
        snapshot = await table.snapshot()
        store.asked()
        rows = await snapshot.scan(where=where).to_arrow()
        asked = [span for kind, spans in store.asked() if kind == "ranges" for span in spans]
    return -(-sum(end - start for start, end in asked) // BYTES), rows.column("id").to_pylist()


GROUP = 1000
BYTES = 330_000  # a little more than a row group takes; of the last one some came with the footer


async def test_row_groups_that_cannot_match_are_not_read():
    groups = [ids(*range(n * GROUP, (n + 1) * GROUP)) for n in range(4)]
    store, commit = await recorded(groups)
    assert await groups_read(store, commit, "id = 1500") == (1, [1500])


@pytest.mark.parametrize(
    ("where", "groups", "found"),
    [
        ("id > 2998", 2, [2999, *range(3000, 4000)]),
        ("id in (5, 3999)", 2, [5, 3999]),
        ("id < 0", 0, []),
        ("id is null", 0, []),
        ("id + 0 = 1500", 4, [1500]),
        ("id = 1500 or noise is null", 1, [1500]),
        ("not (id >= 1000)", 1, list(range(1000))),
    ],
)
async def test_each_condition_reads_the_row_groups_it_needs(where, groups, found):
    rows = [ids(*range(n * GROUP, (n + 1) * GROUP)) for n in range(4)]
    store, commit = await recorded(rows)
    assert await groups_read(store, commit, where) == (groups, found)


async def test_small_neighbours_are_fetched_at_once_and_what_lies_between_is_not():
    rows = [ids(*range(n * GROUP, (n + 1) * GROUP)) for n in range(5)]
    store, commit = await recorded(rows)
    async with await opened(store, commit) as table:
        snapshot = await table.snapshot()
        for where, requests in (("id < 2500", 1), ("id < 500 or id between 2500 and 3500", 2)):
            store.asked()
            await snapshot.scan(where=where).to_arrow()
            assert [kind for kind, _ in store.asked()].count("ranges") == requests


async def test_a_row_group_that_may_hold_nan_is_read_for_what_nan_satisfies():
    """D08: writers leave NaN out of the bounds, and Spark has it greater than every number."""
    nan = float("nan")
    rows = [
        pa.table({"id": range(GROUP), "x": [1.0] * (GROUP - 1) + [nan]}),
        pa.table({"id": range(GROUP, 2 * GROUP), "x": [2.0] * GROUP}),
    ]
    store, commit = await recorded(rows)
    read, found = await groups_read(store, commit, "x > 5")
    assert found == [GROUP - 1]
    assert read == 2
    store, commit = await recorded(rows)
    assert (await groups_read(store, commit, "x < 1.5"))[0] == 1


async def test_a_bound_that_is_nan_says_nothing():
    """Some writers let NaN into their bounds, which nothing is above or below of."""
    store = MemoryStore()
    rows = pa.table({"x": [1234.5, 7.0]})
    line = await put_data(store, "f.parquet", rows)
    data = await store.get("f.parquet")
    footer = len(data) - int.from_bytes(data[-8:-4], "little") - 8
    bound, nan = struct.pack("<d", 7.0), struct.pack("<d", float("nan"))
    assert bound in data[footer:]
    await store.put("f.parquet", data[:footer] + data[footer:].replace(bound, nan))
    found = await scanned(store, [*described(rows.schema), line], where="x < 10")
    assert found == {"x": [7.0]}


async def test_bounds_of_widened_columns_are_compared_in_todays_type():
    store = RecordingStore()
    rows = pa.table({"id": pa.array(range(4000), pa.int32())})
    noise = pa.array([bytes([n % 251]) * 300 for n in range(4000)], pa.binary())
    line = await put_data(
        store,
        "f.parquet",
        rows.append_column("noise", noise),
        row_group_size=GROUP,
        compression="none",
        use_dictionary=False,
    )
    schema = pa.schema([("id", pa.decimal128(12, 1)), ("noise", pa.binary())])
    count, found = await groups_read(store, [*described(schema), line], "id = 2500.0")
    assert (count, [int(n) for n in found]) == (1, [2500])


async def test_row_groups_are_skipped_by_columns_inside_structs_and_by_partition():
    rows = [
        pa.table({"id": range(n * GROUP, (n + 1) * GROUP), "s": [{"x": n}] * GROUP})
        for n in range(3)
    ]
    store, commit = await recorded(rows)
    count, found = await groups_read(store, commit, "s.x = 1 and id = 1001")
    assert (count, found) == (1, [1001])


async def test_columns_are_decoded_only_where_the_predicate_keeps_a_row():
    store, commit = await recorded([ids(*range(GROUP))])
    data = bytearray(await store.get("f.parquet"))
    chunk = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(0).column(1)
    data[chunk.data_page_offset : chunk.data_page_offset + 8] = b"\xff" * 8
    await store.put("f.parquet", bytes(data))
    async with await opened(store, commit) as table:
        snapshot = await table.snapshot()
        assert (await snapshot.scan(where="id + 0 = -1").to_arrow()).num_rows == 0
        with pytest.raises(InvalidTableError, match=r"f\.parquet"):
            await snapshot.scan(where="id + 0 = 1").to_arrow()


async def test_files_without_statistics_are_read_whole():
    rows = [ids(*range(n * GROUP, (n + 1) * GROUP)) for n in range(2)]
    store, commit = await recorded(rows, write_statistics=False)
    assert await groups_read(store, commit, "id = 1500") == (2, [1500])


async def test_a_bound_that_python_has_no_value_for_reads_the_row_group():
    far = pa.array([-(1 << 62)] * GROUP, pa.timestamp("us", "UTC"))
    store, commit = await recorded([pa.table({"id": range(GROUP), "t": far})])
    count, found = await groups_read(store, commit, "t < timestamp'1970-01-01 00:00:00' and id = 3")
    assert (count, found) == (1, [3])
