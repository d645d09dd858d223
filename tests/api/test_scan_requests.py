"""What a scan asks of a store: how many requests, and how many bytes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.storage.local import LocalStore
from tests.parquet.recording_store import RecordingStore
from tests.support.data_tables import described, opened, put_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore, SuffixRead
    from adelta.storage.pin import Pin

FILES, ROWS = 5, 20_000
TWO = ["c2", "c11"]


def rows(first: int) -> pa.Table:
    return pa.table(
        {
            f"c{n}": pa.array([row * 7919 + n for row in range(first, first + ROWS)])
            for n in range(16)
        }
    )


async def written(store: ObjectStore) -> tuple[list[object], int]:
    """A commit of several files of sixteen columns alike, and the bytes of one column of all."""
    lines = []
    for number in range(FILES):
        table = rows(number * ROWS)
        options = {"row_group_size": ROWS // 2, "compression": "none", "use_dictionary": False}
        lines.append(await put_data(store, f"f{number}.parquet", table, **options))
    return [*described(table.schema), *lines], 8 * ROWS * FILES


async def test_two_of_sixteen_columns_cost_two_requests_a_file_and_their_own_bytes():
    store = RecordingStore()
    commit, column = await written(store)
    async with await opened(store, commit) as table:
        snapshot = await table.snapshot()
        store.asked()
        found = await snapshot.scan(TWO).to_arrow()
        asked = store.asked()
    assert found.num_rows == FILES * ROWS
    assert found.equals(pa.concat_tables([rows(n * ROWS) for n in range(FILES)]).select(TWO))
    assert sorted(kind for kind, _ in asked) == ["ranges"] * FILES + ["suffix"] * FILES
    spans = [span for kind, what in asked if kind == "ranges" for span in what]
    assert len(spans) == FILES * 4  # two columns of two row groups, together in one request
    assert 2 * column <= sum(end - start for start, end in spans) < 2.02 * column


class WaitingStore(RecordingStore):
    """A store whose answers to requests for the end of an object wait for one for its start."""

    def __init__(self) -> None:
        super().__init__()
        self.start_asked_for = asyncio.Event()

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        await asyncio.wait_for(self.start_asked_for.wait(), 60)
        return await super().get_suffix(path, length)

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if ranges[0][0] == 0:
            self.start_asked_for.set()
        return await super().get_ranges(path, ranges)


async def test_a_scan_of_all_columns_asks_for_the_first_rows_with_the_first_footer():
    store = WaitingStore()
    commit, _ = await written(store)
    async with await opened(store, commit) as table:
        snapshot = await table.snapshot()
        store.asked()
        found = await snapshot.scan().to_arrow()
        asked = store.asked()
    assert found.equals(pa.concat_tables([rows(n * ROWS) for n in range(FILES)]))
    assert len(asked) == 2 * FILES
    sizes = (await snapshot.files()).column("size").to_pylist()
    spans = [span for kind, what in asked if kind == "ranges" for span in what]
    assert [span for span in spans if span[0] == 0] == [(0, sizes[0] - 64 * 1024)]
    assert sum(end - start for start, end in spans) < sum(sizes)


class WatchedStore(LocalStore):
    """A local store that remembers what was read of its files, copied or by Arrow."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.copied: list[tuple[int, int]] = []
        self.read: list[tuple[int, int]] = []

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if path.endswith(".parquet"):
            self.copied += ranges
        return await super().get_ranges(path, ranges)

    @contextlib.contextmanager
    def file_to_read(
        self, path: str, ranges: Sequence[tuple[int, int]] = (), *, pin: Pin | None = None
    ) -> Iterator[bytes]:
        self.read += ranges
        with super().file_to_read(path, ranges, pin=pin) as name:
            yield name


async def test_on_a_local_disk_arrow_reads_the_same_bytes_and_nothing_is_copied(tmp_path: Path):
    store = WatchedStore(tmp_path)
    commit, column = await written(store)
    async with await opened(store, commit) as table:
        found = await (await table.snapshot()).scan(TWO).to_arrow()
        assert found.equals(pa.concat_tables([rows(n * ROWS) for n in range(FILES)]).select(TWO))
        assert store.copied == []
        assert len(store.read) == FILES * 4
        assert 2 * column <= sum(end - start for start, end in store.read) < 2.02 * column
        store.read.clear()
        assert (await (await table.snapshot()).scan([]).to_arrow()).num_rows == FILES * ROWS
        assert store.read == []
