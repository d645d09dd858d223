"""Tables on a store before which a disk cache is asked."""

from __future__ import annotations

import asyncio
import io
import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidTableError
from adelta.read.data_files import read_files
from adelta.storage.caching_store import CachingStore
from adelta.storage.object_store import SuffixRead
from adelta.storage.resolve import open_store
from adelta.table import roots_of
from tests.storage.test_disk_cache import UNIQUE, inner_of, options_of, settled

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.gcs_server import GcsLocation


async def test_a_table_is_scanned_again_by_a_listing_alone(
    gcs_location: GcsLocation, tmp_path: Path
) -> None:
    options = options_of(gcs_location, tmp_path)
    rows = pa.table({"id": range(10_000), "text": [f"{n:040}" for n in range(10_000)]})
    for _ in range(3):
        await adelta.write_table(gcs_location.uri, rows, storage_options=options)

    async def scan() -> tuple[pa.Table, list[str]]:
        async with adelta.open_table(gcs_location.uri, storage_options=options) as table:
            seen: list[str] = []
            store = adelta_store(table)
            store.inner.observe_requests(lambda m, k, q: seen.append(f"{m} {k} {q}"))
            read = await (await table.snapshot()).scan().to_arrow()
            return read, seen

    first, cold = await scan()
    again, warm = await scan()
    assert again.equals(first)
    assert len(cold) > len(warm)
    assert all("prefix=" in each or "_last_checkpoint" in each for each in warm), warm


async def test_small_files_are_asked_for_together_and_then_read_here(
    gcs_location: GcsLocation, tmp_path: Path
) -> None:
    options = options_of(gcs_location, tmp_path)
    expected = []
    for number in range(20):
        rows = pa.table({"id": range(number, number + 50), "text": [f"{number:08}"] * 50})
        await adelta.write_table(gcs_location.uri, rows, storage_options=options)
        expected.append(rows)

    async def scan(columns: list[str], where: str | None, together: int) -> tuple[pa.Table, int]:
        async with adelta.open_table(gcs_location.uri, storage_options=options) as table:
            store = adelta_store(table)
            snapshot = await table.snapshot()
            await snapshot.files()
            barrier, original = asyncio.Barrier(together), store.inner.get_suffix

            async def met(path: str, length: int) -> SuffixRead:
                async with barrier:
                    return await original(path, length)

            store.inner.get_suffix = met  # type: ignore[method-assign]
            asked = inner_of(store).request_count
            async with asyncio.timeout(60):
                read = await snapshot.scan(columns=columns, where=where).to_arrow()
            return read, inner_of(store).request_count - asked

    table = pa.concat_tables(expected).sort_by([("id", "ascending"), ("text", "ascending")])
    order = [("id", "ascending"), ("text", "ascending")]
    cold, asked = await scan(["id", "text"], None, 20)
    assert asked == 20
    assert cold.sort_by(order).equals(table)
    warm, asked = await scan(["id", "text"], None, 1)
    assert asked == 0
    assert warm.sort_by(order).equals(table)
    few, asked = await scan(["id", "text"], "id = 25", 1)
    assert asked == 0
    assert few.sort_by(order).equals(table.filter(pc.field("id") == 25))


@pytest.mark.parametrize("where", [slice(100, 2000), slice(-9, -1)])
async def test_what_was_damaged_on_its_way_is_not_kept(
    gcs_location: GcsLocation, tmp_path: Path, where: slice
) -> None:
    options = options_of(gcs_location, tmp_path)
    rows = pa.table({"text": [f"{n * 7919 % 1000:08}" for n in range(1000)]})
    await adelta.write_table(gcs_location.uri, rows, storage_options=options)

    async def scan(*, damaged: bool) -> pa.Table:
        async with adelta.open_table(gcs_location.uri, storage_options=options) as table:
            snapshot = await table.snapshot()
            await snapshot.files()
            inner = adelta_store(table).inner
            original = inner.get_suffix

            async def damaging(path: str, length: int) -> SuffixRead:
                read = await original(path, length)
                data = bytearray(read.data)
                data[where] = bytes(len(data[where]))
                return SuffixRead(bytes(data), read.object_size)

            if damaged:
                inner.get_suffix = damaging  # type: ignore[method-assign]
            return await snapshot.scan().to_arrow()

    with pytest.raises(InvalidTableError) as caught:
        await scan(damaged=True)
    assert "What the disk cache had of it has been deleted" in str(caught.value.__notes__)
    assert (await scan(damaged=False)).equals(rows)


@pytest.mark.parametrize("column", ["protocol.minReaderVersion", "add.path"])
async def test_a_checkpoint_that_was_damaged_on_its_way_is_not_kept(
    gcs_location: GcsLocation, tmp_path: Path, column: str
) -> None:
    options = options_of(gcs_location, tmp_path)
    await adelta.write_table(
        gcs_location.uri, pa.table({"id": [1]}), storage_options=gcs_location.storage_options
    )
    store = open_store(gcs_location.uri, gcs_location.storage_options)
    async with adelta.open_table(
        gcs_location.uri, storage_options=gcs_location.storage_options
    ) as table:
        await adelta.checkpoint(table)
    log = "_delta_log/00000000000000000000"
    described = pq.read_metadata(io.BytesIO(await store.get(f"{log}.checkpoint.parquet")))
    await store.delete([f"{log}.json", f"{log}.crc"])
    await store.aclose()
    chunks: list[Any] = [
        described.row_group(group).column(number)
        for group in range(described.num_row_groups)
        for number in range(described.num_columns)
    ]
    (place,) = (
        chunk.data_page_offset
        for chunk in chunks
        if chunk.path_in_schema == column and chunk.statistics.null_count < chunk.num_values
    )

    async def files(*, damaged: bool) -> int:
        async with adelta.open_table(gcs_location.uri, storage_options=options) as table:
            inner = adelta_store(table).inner
            original = inner.get_suffix

            async def damaging(path: str, length: int) -> SuffixRead:
                read = await original(path, length)
                at = place - (read.object_size - len(read.data))
                return SuffixRead(read.data[:at] + bytes(8) + read.data[at + 8 :], read.object_size)

            if damaged:
                inner.get_suffix = damaging  # type: ignore[method-assign]
            return (await (await table.snapshot()).files()).num_rows

    with pytest.raises(InvalidTableError):
        await files(damaged=True)
    assert await files(damaged=False) == 1


@pytest.mark.parametrize("where", [None, "text != 'x'"])
async def test_what_the_cache_loses_while_rows_are_decoded_comes_from_the_store(
    gcs_location: GcsLocation, tmp_path: Path, where: str | None
) -> None:
    options = options_of(gcs_location, tmp_path)
    luck = random.Random(18)
    ids = pa.array(range(300_000), pa.int64())
    rows = pa.table({"id": ids, "text": [luck.randbytes(6).hex() for _ in range(300_000)]})
    with_more = rows.append_column("more", ids)
    await adelta.write_table(gcs_location.uri, with_more, storage_options=options)

    async def scan() -> tuple[list[int], int, int]:
        async with adelta.open_table(gcs_location.uri, storage_options=options) as table:
            store = adelta_store(table)
            snapshot = await table.snapshot()
            files = await snapshot.add_files()
            asked, counts, found = inner_of(store).request_count, list[int](), list[pa.Table]()
            plan = snapshot.scan(columns=rows.column_names, where=where).plan
            async with aclosing(
                read_files(roots_of(table), plan, files, read_ahead_bytes=1 << 20)
            ) as tables:
                async for part in tables:
                    counts.append(part.num_rows)
                    found.append(part)
            assert pa.concat_tables(found).equals(rows)
            return counts, inner_of(store).request_count - asked, store.figures.misses

    first, cold, _ = await scan()
    again, warm, misses = await scan()
    assert cold > warm == misses == 0
    assert again == first
    assert len(first) > 2
    kept = [path for path in (tmp_path / "cache" / "objects").glob("*/*/*") if is_large(path)]
    assert kept
    for path in kept:
        data = bytearray(path.read_bytes())
        data[len(data) * 3 // 4] ^= 1  # the rows before are given when that is found out
        path.write_bytes(data)
    torn, asked, misses = await scan()
    assert asked >= misses >= 1
    assert torn == first
    assert (await scan())[1:] == (0, 0)


async def test_what_was_there_a_moment_ago_may_have_gone_or_come_since(
    gcs_location: GcsLocation, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 1000
    spans = [(0, 100), (5_000, 70_000)]
    expected = [data[start:end] for start, end in spans]
    one, other = (
        open_store(gcs_location.uri, options_of(gcs_location, tmp_path)) for _ in range(2)
    )
    assert isinstance(one, CachingStore)
    assert isinstance(other, CachingStore)
    async with aclosing(one), aclosing(other):
        await one.put(UNIQUE, data)

        async def asked_for() -> int:
            before = inner_of(one).request_count
            assert list(map(bytes, await one.get_ranges(UNIQUE, spans))) == expected
            await settled(one)
            return inner_of(one).request_count - before

        assert (await one.get_suffix(UNIQUE, 50)).data == data[-50:]  # nothing but this is here
        assert list(map(bytes, await other.get_ranges(UNIQUE, spans))) == expected
        await settled(other)
        assert await asked_for() <= 2
        assert await asked_for() == 0
        assert await asyncio.to_thread(one.read_suffix, UNIQUE, 50) is not None  # all is here
        for file in (tmp_path / "cache").glob("objects/*/*/*"):
            file.unlink()
        assert await asked_for() >= 1
        assert await asked_for() == 0
        assert await asyncio.to_thread(one.read_suffix, UNIQUE, 50) is None
        assert await asked_for() == 0  # of what is here beside the end


def is_large(path: Path) -> bool:
    return path.stat().st_size > 1 << 20


def adelta_store(table: adelta.Table) -> CachingStore:
    store: Any = table._roots.store
    while store is not None and not isinstance(store, CachingStore):
        store = store.inner
    assert store is not None
    return store
