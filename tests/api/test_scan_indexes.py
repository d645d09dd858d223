"""Scans that skip row groups by page indexes and Bloom filters, and what they ask the store for."""

from __future__ import annotations

from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.parquet.recording_store import RecordingStore
from tests.support.data_tables import described, opened, put_data

ROWS, GROUPS = 4_000, 4
NOISE = 500  # bytes of each row: a row group has 2 MB
BLOOM = {"ndv": ROWS, "fpp": 0.001}

LARGE = {"large": "x" * 70_000}  # nothing comes along with a footer that is this large


def apart(group: int) -> list[int]:
    """Numbers of a row group: every row group's reach from 0 to 10,000,000 with a wide gap."""
    step = 100 * (group + 1)
    return [n * step for n in range(ROWS // 2)] + [
        10_000_000 - n * step for n in reversed(range(ROWS // 2))
    ]


def scattered(group: int) -> list[int]:
    """Numbers that are in this row group alone, in no order, over nearly the same range."""
    order = np.random.default_rng(group).permutation(ROWS)
    return (order * GROUPS + group).tolist()


async def recorded(columns: dict[str, Any], **options: Any) -> tuple[RecordingStore, list[Any]]:
    store = RecordingStore()
    rows = pa.table(columns)
    noise = np.random.default_rng(0).bytes(ROWS * NOISE)
    texts = [noise[n * NOISE : (n + 1) * NOISE] for n in range(ROWS)] * GROUPS
    rows = rows.append_column("noise", pa.array(texts, pa.binary()))
    settings = {"row_group_size": ROWS, "compression": "none", "use_dictionary": False}
    line = await put_data(store, "f.parquet", rows, **{**settings, **options})
    return store, [*described(rows.schema), line]


async def asked_of(
    store: RecordingStore, commit: list[Any] | None, where: str
) -> tuple[int, float, pa.Table]:
    """How many requests there were after the footer's, how many MB of data, and the rows.

    A page of noise is a quarter of an MB.
    """
    async with await opened(store, *([commit] if commit else [])) as table:
        snapshot = await table.snapshot()
        store.asked()
        rows = await snapshot.scan(where=where).to_arrow()
        requests = [spans for kind, spans in store.asked() if kind == "ranges"]
    data = [end - start for one in requests for start, end in one if end - start > 200_000]
    return len(requests), sum(data) // 250_000 / 4, rows


PAGES: dict[str, Any] = {"write_page_index": True, "data_page_size": 4000, "write_batch_size": 500}


def gapped() -> dict[str, list[int]]:
    return {"id": [n for group in range(GROUPS) for n in apart(group)]}


def shuffled() -> dict[str, list[int]]:
    return {"id": [n for group in range(GROUPS) for n in scattered(group)]}


@pytest.mark.parametrize(
    ("where", "megabytes", "found"),
    [
        ("id = 600300", 0.25, []),  # only the last row group has a page around it
        ("id = 600400", 0.25, [600_400]),
        ("id between 700000 and 5000000", 0.25, [n for n in apart(3) if 700_000 <= n <= 5_000_000]),
        ("id in (150000, 5000000)", 1, [150_000] * 4),
        ("id < 1000", 1, [n for group in range(4) for n in apart(group) if n < 1000]),
        ("id in (100, 9999900)", 1.75, [100, 9_999_900]),
        ("id < 190000", 2.25, [n for group in range(4) for n in apart(group) if n < 190_000]),
        ("id < 9900000", 7.5, [n for group in range(4) for n in apart(group) if n < 9_900_000]),
        ("id > 4000000 and id < 5000000", 0, []),
        ("not (id < 4000000) and not (id > 5000000)", 0, []),
        ("id is null", 0, []),
        ("id + 0 = 5000000", 8, []),
    ],
)
async def test_pages_that_cannot_match_are_not_read(where, megabytes, found):
    """The bounds of every row group alone keep all of them."""
    store, commit = await recorded(gapped(), **PAGES)
    _, read, rows = await asked_of(store, commit, where)
    assert (read, rows.column("id").to_pylist()) == (megabytes, found)


async def test_conditions_on_several_columns_must_meet_in_the_same_rows():
    """Each condition has a page in every row group, and no row group has them side by side."""
    low = [n for _ in range(GROUPS) for n in range(ROWS)]
    columns = {"a": low, "b": low, "s": [{"c": n} for n in low]}
    store, commit = await recorded(columns, **PAGES)
    _, read, rows = await asked_of(store, commit, "a < 400 and s.c > 3600")
    assert (read, rows.num_rows) == (0, 0)
    store, commit = await recorded(columns, **PAGES)
    _, read, rows = await asked_of(store, commit, "a < 400 and b < 200")
    assert (read, rows.num_rows) == (1, 200 * GROUPS)


async def test_pages_of_nulls_alone_hold_no_value_and_pages_without_nulls_no_null():
    columns = {"id": [None if n < ROWS else n % ROWS for n in range(GROUPS * ROWS)]}
    half = {"id": [None if n % ROWS < 500 else n % ROWS for n in range(GROUPS * ROWS)]}
    for made, where, megabytes in (
        (columns, "id is not null", 6),
        (columns, "id is null", 2),
        (half, "id is null", 8),
        (half, "id < 500", 0),
    ):
        store, commit = await recorded(made, **PAGES)
        _, read, _ = await asked_of(store, commit, where)
        assert read == megabytes, where


@pytest.mark.parametrize(
    ("where", "megabytes", "found"),
    [
        ("id = 6003", 2, [6003]),
        ("id <=> 6003", 2, [6003]),
        ("id in (4, 8, 6001)", 4, [4, 8, 6001]),
        ("id = 20000 - 13997", 2, [6003]),
        ("id = 6003.0", 2, [6003]),
        ("id = 6003 or id = 8", 4, [8, 6003]),
        ("id = 6003 and noise is not null", 2, [6003]),
        ("id = 6003 and id in (8, 6)", 0, []),
        ("id = 6003 or noise is null", 8, [6003]),
        ("id <> 6003 and id < 2", 4, [0, 1]),
    ],
)
async def test_row_groups_whose_filter_lacks_the_value_are_not_read(where, megabytes, found):
    store, commit = await recorded(shuffled(), bloom_filter_options={"id": BLOOM})
    _, read, rows = await asked_of(store, commit, where)
    assert (read, sorted(rows.column("id").to_pylist())) == (megabytes, found)


@pytest.mark.parametrize(
    ("where", "requests", "read"),
    [
        ("id = 6003", 2, 2),
        ("id = 6003 and gap > 0", 2, 2),
        ("gap = 5000000 or noise = X'00'", 2, 8),  # the filter of id is not looked at
        ("id > 6003", 2, 8),
        ("noise <> X'00'", 1, 8),
        ("id = 6003 and id > 100000", 0, 0),  # the footer's statistics decide
    ],
)
async def test_indexes_are_asked_for_at_once_and_where_they_may_decide(where, requests, read):
    """The first request to come here is for indexes, the second for rows."""
    columns = shuffled() | {"gap": gapped()["id"]}
    options = {"bloom_filter_options": {"id": BLOOM}, **PAGES}
    store, commit = await recorded(columns, footer=LARGE, **options)
    asked, megabytes, _ = await asked_of(store, commit, where)
    assert (asked, round(megabytes)) == (requests, read)


async def test_indexes_that_came_with_the_footer_are_not_asked_for():
    store, commit = await recorded(shuffled(), bloom_filter_options={"id": BLOOM})
    assert (await asked_of(store, commit, "id = 6003"))[:2] == (1, 2)


async def test_indexes_that_cost_more_than_they_may_save_are_left_alone(monkeypatch):
    monkeypatch.setattr("adelta.read.index_skipping._SHARE", 1000)
    store, commit = await recorded(shuffled(), footer=LARGE, bloom_filter_options={"id": BLOOM})
    assert (await asked_of(store, commit, "id = 6003"))[:2] == (1, 8)


async def test_a_damaged_index_says_nothing():
    """It decides what is worth reading; the rows are where they were."""
    bloom = {"id": BLOOM}
    for options in ({"bloom_filter_options": bloom}, PAGES):
        store, commit = await recorded(shuffled(), **options)
        data = await store.get("f.parquet")
        metadata: Any = pq.read_metadata(pa.BufferReader(data))
        group = metadata.row_group(GROUPS - 1)
        after = max(
            group.column(column).data_page_offset + group.column(column).total_compressed_size
            for column in range(metadata.num_columns)
        )
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        for byte in (b"\x00", b"\xff", b"\x19"):
            changed = data[:after] + byte * (footer - after) + data[footer:]
            again = RecordingStore()
            await again.put("f.parquet", changed)
            _, read, rows = await asked_of(again, commit, "id = 6003")
            assert (read, rows.num_rows) == (8, 1)


async def test_a_column_that_was_widened_is_looked_up_in_the_type_of_its_file():
    columns = {"id": pa.array(shuffled()["id"], pa.int32())}
    store, commit = await recorded(columns, bloom_filter_options={"id": BLOOM})
    for wide in (pa.int64(), pa.decimal128(12, 1), pa.float64()):
        schema = pa.schema([("id", wide), ("noise", pa.binary())])
        again = RecordingStore()
        await again.put("f.parquet", await store.get("f.parquet"))
        lines = [*described(schema), commit[-1]]
        _, read, rows = await asked_of(again, lines, "id = 6003")
        assert (read, rows.num_rows) == (2, 1), wide


async def test_deltalakes_filters_and_pages_are_understood(tmp_path):
    noise = np.random.default_rng(0).bytes(ROWS * NOISE)
    texts = [noise[n * NOISE : (n + 1) * NOISE] for n in range(ROWS)] * GROUPS
    rows = pa.table(shuffled() | {"noise": pa.array(texts, pa.binary())})
    bloom = deltalake.BloomFilterProperties(True, fpp=0.001, ndv=ROWS)
    properties = deltalake.WriterProperties(
        max_row_group_size=ROWS,
        compression="UNCOMPRESSED",
        default_column_properties=deltalake.ColumnProperties(dictionary_enabled=False),
        column_properties={
            "id": deltalake.ColumnProperties(
                bloom_filter_properties=bloom, dictionary_enabled=False
            )
        },
    )
    deltalake.write_deltalake(str(tmp_path), rows, writer_properties=properties)
    (file,) = tmp_path.glob("*.parquet")
    store = RecordingStore()
    await store.put(file.name, file.read_bytes())
    commit = (tmp_path / "_delta_log" / f"{0:020d}.json").read_bytes()
    await store.put(f"_delta_log/{0:020d}.json", commit)
    _, read, found = await asked_of(store, None, "id = 6003")
    assert (round(read), found.num_rows) == (2, 1)
