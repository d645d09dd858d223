"""Reads of an object that is written again between two of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError, ObjectChangedError
from adelta.parquet.reader import ParquetFile
from adelta.storage.coalesce import LARGEST_FETCH
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from adelta.storage.pin import Pin, pinned
from adelta.storage.s3 import S3Store
from tests.parquet.recording_store import parquet_bytes
from tests.storage.tampering_proxy import TamperingProxy, header, without_header

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore
    from tests.support.s3_server import S3Location

OLD = pa.table({"n": range(100_000), "text": [f"old {n}" for n in range(100_000)]})
NEW = pa.table({"n": range(100_000), "text": [f"new {n}" for n in range(100_000)]})
SETTINGS = {"compression": "none", "use_dictionary": False, "write_statistics": False}


@pytest.fixture(params=["memory", "local", "s3"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "local":
        return LocalStore(tmp_path)
    location: S3Location = request.getfixturevalue("s3_location")
    return S3Store.from_options(location.bucket, location.prefix, location.storage_options)


@pytest.fixture
async def store(new_store: ObjectStore) -> AsyncIterator[ObjectStore]:
    yield new_store
    await new_store.aclose()


async def test_reads_with_one_pin_are_of_one_version(store: ObjectStore) -> None:
    await store.put("x", b"0123456789")
    with pinned(Pin()):
        assert (await store.get_suffix("x", 3)).data == b"789"
        assert await store.get_range("x", 0, 3) == b"012"
        found = await store.get_ranges("x", [(3, 5), (5, 7)])
        assert [bytes(each) for each in found] == [b"34", b"56"]
        await store.put("x", b"abcdefghij")
        with pytest.raises(ObjectChangedError, match=r"x changed while it was read"):
            await store.get_range("x", 0, 3)
        with pytest.raises(ObjectChangedError):
            await store.get_ranges("x", [(3, 5), (5, 7)])
        with pytest.raises(ObjectChangedError):
            await store.get_suffix("x", 3)
    assert await store.get_range("x", 0, 3) == b"abc"


async def test_no_rows_are_made_of_two_versions_of_a_file(store: ObjectStore) -> None:
    old, new = (parquet_bytes(table, **SETTINGS) for table in (OLD, NEW))
    assert len(old) == len(new)
    await store.put("f.parquet", old)
    file = await ParquetFile.open(store, "f.parquet", tail=4000)
    assert (await file.read(["text"])).equals(OLD.select(["text"]))
    await store.put("f.parquet", new)
    with pytest.raises(InvalidTableError, match=r"f\.parquet: .* changed while it was read"):
        await file.read(["text"])
    again = await ParquetFile.open(store, "f.parquet", tail=4000)
    assert (await again.read()).equals(NEW)


async def test_a_footer_in_two_pieces_is_of_one_version(store: ObjectStore) -> None:
    class Changing(type(store)):  # type: ignore[misc]
        async def get_range(self, path: str, *where: Any, **how: Any) -> bytes:
            await self.put(path, new)
            return await super().get_range(path, *where, **how)

    old, new = (parquet_bytes(table, **SETTINGS) for table in (OLD, NEW))
    await store.put("f.parquet", old)
    store.__class__ = Changing
    with pytest.raises(InvalidTableError, match="changed while it was read"):
        await ParquetFile.open(store, "f.parquet", tail=100)


async def test_the_first_bytes_are_of_the_version_of_the_footer(
    s3_location: S3Location,
) -> None:
    async with TamperingProxy(s3_location.server.endpoint) as proxy:
        options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
        store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
        old = parquet_bytes(OLD, **SETTINGS)
        await store.put("f.parquet", old)

        def other_tag(request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
            if header(request, "range") == "bytes=0-9999":
                head = without_header(head, "etag") + b'\r\netag: "another"'
            return head, body

        proxy.answering = other_tag
        with pytest.raises(InvalidTableError, match="changed while it was read"):
            await ParquetFile.open_and(
                store, "f.parquet", lambda _: None, size=len(old), head=10_000, tail=2000
            )
        await store.aclose()


async def test_later_requests_name_the_version_that_the_first_saw_and_none_is_added(
    s3_location: S3Location,
) -> None:
    async with TamperingProxy(s3_location.server.endpoint) as proxy:
        options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
        store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
        await store.put("f.parquet", parquet_bytes(OLD, **SETTINGS))
        proxy.heads.clear()
        file = await ParquetFile.open(store, "f.parquet", tail=4000)
        await file.read()
        tags = [header(head, "if-match") for head in proxy.heads]
        assert tags[0] == ""
        assert len(tags) == 2
        assert tags[1] == (await store.head("f.parquet")).etag
        await store.aclose()


async def test_large_ranges_in_several_requests_are_of_one_version(
    s3_location: S3Location,
) -> None:
    async with TamperingProxy(s3_location.server.endpoint) as proxy:
        options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
        store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
        data = bytes(2 * LARGEST_FETCH)
        await store.put("x", data)
        proxy.answering = lambda request, head, body: (
            (without_header(head, "etag") + b'\r\netag: "another"', body)
            if header(request, "range").startswith("bytes=0-")
            else (head, body)
        )
        with pytest.raises(ObjectChangedError):
            await store.get_ranges("x", [(0, len(data))])
        await store.aclose()


async def test_a_file_of_this_machine_that_is_replaced_while_arrow_reads_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    await store.put("f.parquet", parquet_bytes(OLD, **SETTINGS))
    file = await ParquetFile.open(store, "f.parquet", tail=4000)
    fetched = await file.fetch()
    with file.bytes.source(fetched) as source:
        await store.put("f.parquet", parquet_bytes(NEW, **SETTINGS))
        place = file.layout.places([1], [0])[0]
        source.seek(place[0])
        assert b"old 0" in source.read(1000)


async def test_a_file_of_this_machine_that_changes_in_place_gives_no_rows(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("f.parquet", parquet_bytes(OLD, **SETTINGS))
    file = await ParquetFile.open(store, "f.parquet", tail=4000)
    fetched = await file.fetch()

    def change_while_it_is_read() -> None:
        with file.bytes.source(fetched):
            os.truncate(tmp_path / "f.parquet", 10)

    with pytest.raises(InvalidTableError, match="changed while it was read"):
        change_while_it_is_read()
