"""What became damaged on its way into a disk cache fails once: the next read is of the store."""

from __future__ import annotations

import random
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import AdeltaError, InvalidTableError
from adelta.storage.resolve import open_store
from tests.storage.test_cached_tables import adelta_store
from tests.storage.test_disk_cache import options_of, settled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from adelta.storage.caching_store import CachingStore
    from tests.support.gcs_server import GcsLocation

VECTORS = {"delta.enableDeletionVectors": "true"}
V2 = {"delta.checkpointPolicy": "v2"}


async def rows_of(table: adelta.Table) -> int:
    return (await (await table.snapshot()).scan().to_arrow()).num_rows


async def versions_followed(table: adelta.Table) -> list[int]:
    found: list[int] = []
    async with aclosing(adelta.tail(table, since=0)) as commits:
        async for commit in commits:
            found.append(commit.version)
            if commit.version == 2:
                break
    return found


async def rows_changed(table: adelta.Table) -> int | None:
    return (await adelta.update(table, {"id": "id + 1000"}, "id = 7")).num_updated_rows


async def test_a_deletion_vector(gcs_location: GcsLocation, tmp_path: Path) -> None:
    uri = gcs_location.uri
    plain = {"storage_options": gcs_location.storage_options}
    await adelta.write_table(uri, pa.table({"id": range(1000)}), properties=VECTORS, **plain)
    await adelta.delete(uri, "id % 3 = 0", **plain)
    await fails_once(gcs_location, tmp_path, rows_of, partial(changed, ".bin", -6), 666)


@pytest.mark.parametrize(("read", "expected"), [(rows_of, 3), (versions_followed, [0, 1, 2])])
async def test_a_commit(
    gcs_location: GcsLocation, tmp_path: Path, read: Any, expected: object
) -> None:
    for number in range(3):
        await adelta.write_table(
            gcs_location.uri,
            pa.table({"id": [number]}),
            storage_options=gcs_location.storage_options,
        )
    damage = partial(changed, "00000000000000000000.json", 0)
    await fails_once(gcs_location, tmp_path, read, damage, expected)


@pytest.mark.parametrize("at", [0, 3])  # JSON no more, and another action
async def test_a_json_checkpoint(gcs_location: GcsLocation, tmp_path: Path, at: int) -> None:
    plain = {"storage_options": gcs_location.storage_options}
    rows = pa.table({"id": [1, 2]})
    await adelta.write_table(gcs_location.uri, rows, properties=V2, **plain)
    store = open_store(gcs_location.uri, gcs_location.storage_options)
    uuid = "3f2b8c1e-9d4a-4f6b-8a71-0c5d2e9f7b64"
    log = "_delta_log/00000000000000000000"
    commit = await store.get(f"{log}.json")
    lines = [line for line in commit.splitlines() if b'"commitInfo"' not in line]
    lines.append(b'{"checkpointMetadata":{"version":0}}')
    await store.put(f"{log}.checkpoint.{uuid}.json", b"\n".join(lines))
    await store.delete([f"{log}.json", f"{log}.crc"])
    await store.aclose()
    damage = partial(changed, f"checkpoint.{uuid}.json", at)
    await fails_once(gcs_location, tmp_path, rows_of, damage, 2)


async def test_pages_that_are_copied(gcs_location: GcsLocation, tmp_path: Path) -> None:
    luck = random.Random(18)  # of files above a megabyte alone columns are copied
    texts = [luck.randbytes(30).hex() for _ in range(40_000)]
    rows = pa.table({"id": [n % 50 for n in range(40_000)], "text": texts})
    await adelta.write_table(gcs_location.uri, rows, storage_options=gcs_location.storage_options)

    def damaged(path: str, data: bytes) -> bytes:
        long = path.endswith(".parquet") and len(data) > 500_000
        return changed(".parquet", len(data) // 3, path, data) if long else data

    await fails_once(gcs_location, tmp_path, rows_changed, damaged, 800)


async def test_a_footer_whose_chunks_lie_elsewhere(
    gcs_location: GcsLocation, tmp_path: Path
) -> None:
    few, more = (
        pa.table({"id": range(n), "text": [f"{k * 7919:012}" for k in range(n)]})
        for n in (9_000, 9_900)
    )
    await adelta.write_table(gcs_location.uri, few, storage_options=gcs_location.storage_options)
    other = f"{gcs_location.uri}-more"
    made = await adelta.write_table(other, more, storage_options=gcs_location.storage_options)
    store = open_store(other, gcs_location.storage_options)
    async with adelta.open_table(other, storage_options=gcs_location.storage_options) as table:
        (path,) = (await (await table.snapshot()).files()).column("path").to_pylist()
    assert made.version == 0
    tail = (await store.get_suffix(path, 8)).data
    footer = (await store.get_suffix(path, int.from_bytes(tail[:4], "little") + 8)).data
    await store.aclose()

    def damaged(kept: str, data: bytes) -> bytes:
        if not kept.endswith(".parquet") or data[-8:] != footer[-8:]:
            return data
        return data[: -len(footer)] + footer

    await fails_once(gcs_location, tmp_path, rows_of, damaged, 9_000)


async def test_a_check_of_the_objects_goes_past_the_cache(
    gcs_location: GcsLocation, tmp_path: Path
) -> None:
    options = options_of(gcs_location, tmp_path)
    rows = pa.table({"id": range(20_000), "text": [f"{n * 7919:012}" for n in range(20_000)]})
    await adelta.write_table(gcs_location.uri, rows, storage_options=options)
    async with adelta.open_table(gcs_location.uri, storage_options=options) as table:
        assert await rows_of(table) == 20_000
        (path,) = (await (await table.snapshot()).files()).column("path").to_pylist()
        store = adelta_store(table)
        await settled(store)
        data = bytearray(await store.inner.get(path))
        data[len(data) // 2] ^= 1
        await store.inner.put(path, bytes(data))
        (problem,) = (await adelta.fsck(table, deep=True)).problems
        assert problem.path == path
        assert await rows_of(table) == 20_000  # which the cache still has


async def fails_once(
    location: GcsLocation,
    folder: Path,
    read: Any,
    damage: Callable[[str, bytes], bytes],
    expected: object,
) -> None:
    """`read` with what the store gives damaged, and then with what it has."""
    options = options_of(location, folder)

    async def reading(*, damaged: bool) -> Any:
        async with adelta.open_table(location.uri, storage_options=options) as table:
            store = adelta_store(table)
            if damaged:
                answer_with(store, damage)
            found = await read(table)
            await settled(store)
            return found

    with pytest.raises(AdeltaError) as caught:
        await reading(damaged=True)
    assert isinstance(caught.value, InvalidTableError)
    assert await reading(damaged=False) == expected


def changed(end: str, at: int, path: str, data: bytes) -> bytes:
    """The bytes of an object whose path has that end, with one of them changed."""
    if not path.endswith(end) or not -len(data) <= at < len(data):
        return data
    found = bytearray(data)
    found[at] ^= 0x55
    return bytes(found)


def answer_with(store: CachingStore, damage: Callable[[str, bytes], bytes]) -> None:
    """Have the store below answer with damaged bytes."""
    inner: Any = store.inner
    suffix, ranges, whole = inner.get_suffix, inner.get_ranges, inner.get_with_meta

    async def get_suffix(path: str, length: int) -> Any:
        read = await suffix(path, length)
        return type(read)(damage(path, read.data), read.object_size)

    async def get_ranges(path: str, wanted: Any) -> Any:
        return [damage(path, bytes(each)) for each in await ranges(path, wanted)]

    async def get_with_meta(path: str) -> Any:
        data, meta = await whole(path)
        return damage(path, data), meta

    inner.get_suffix, inner.get_ranges, inner.get_with_meta = get_suffix, get_ranges, get_with_meta
