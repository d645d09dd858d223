"""Cloudflare R2, on a server that is held to its documentation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import ObjectExistsError
from adelta.storage import s3_multipart
from adelta.storage.s3 import S3Store
from tests.storage.http_store_suite import SHAKY
from tests.storage.object_store_suite import paths_of, pieces
from tests.storage.request_counts import RequestCounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.r2_server import FakeR2, R2Location


def store_at(location: R2Location, **options: str) -> S3Store:
    given = {**location.storage_options, **options}
    return S3Store.from_options(location.bucket, location.prefix, given)


@pytest.fixture
async def store(r2_location: R2Location) -> AsyncIterator[S3Store]:
    store = store_at(r2_location)
    yield store
    await store.aclose()


class TestRequestCountsOfR2(RequestCounts):
    """As the suite has them."""


async def test_a_table_is_written_and_read_by_the_options_of_the_guide(
    r2_location: R2Location, fake_r2: FakeR2
) -> None:
    rows = pa.table({"n": [1, 2, 3]})
    uri = f"s3://{r2_location.bucket}/{r2_location.prefix}"
    for _ in range(3):
        await adelta.write_table(uri, rows, storage_options=r2_location.storage_options)
    async with adelta.open_table(uri, r2_location.storage_options) as table:
        assert await (await table.snapshot()).scan().count() == 9
        assert (await table.snapshot()).version == 2
    scopes = {headers["authorization"].split(",")[0] for _, headers in fake_r2.sent}
    assert {scope.split("/")[2:4] == ["auto", "s3"] for scope in scopes} == {True}


async def test_one_of_many_racing_puts_wins(store: S3Store) -> None:
    async def put(number: int) -> bool:
        try:
            await store.put_if_absent("contested", str(number).encode())
        except ObjectExistsError:
            return False
        return True

    assert sum(await asyncio.gather(*map(put, range(12)))) == 1


async def test_parts_have_one_length_however_many_there_are(
    store: S3Store, fake_r2: FakeR2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_multipart, "FIRST_PART", 5 << 20)
    monkeypatch.setattr(s3_multipart, "_PARTS_OF_ONE_SIZE", 2)
    data = bytes(range(256)) * (29 << 12)
    step = 3 << 20
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    made = await store.put_stream("large", pieces(*chunks))
    assert made.size == len(data)
    assert fake_r2.asked["begin_upload"] == 1  # it is not begun again without checksums
    assert fake_r2.asked["put"] == 6
    sums = [h for kind, h in fake_r2.sent if kind == "put" and "x-amz-checksum-crc32" in h]
    assert len(sums) == 6
    assert await store.get("large") == data
    assert (await store.head("large")).etag == made.etag


async def test_writes_that_come_too_fast_are_made_again(
    r2_location: R2Location, fake_r2: FakeR2
) -> None:
    store = store_at(r2_location, **SHAKY)
    fake_r2.too_many = 2
    assert (await store.put_if_absent("log/0.json", b"ours")).size == 4
    assert fake_r2.asked["put"] == 3
    fake_r2.too_many = 1
    with pytest.raises(ObjectExistsError):
        await store.put_if_absent("log/0.json", b"theirs")
    assert await store.get("log/0.json") == b"ours"
    await store.aclose()


async def test_objects_are_deleted_a_thousand_a_request_and_listed_from_any_path_on(
    store: S3Store, fake_r2: FakeR2
) -> None:
    paths = [f"{number:04}" for number in range(1003)]
    root = store._root
    bucket = fake_r2.objects.setdefault("lake", {})
    bucket.update({f"{root}{path}": fake_r2.stored(b"") for path in paths})
    assert await paths_of(store, start_after="0999") == paths[1000:]
    await store.delete(paths)
    assert fake_r2.asked["delete_many"] == 2
    assert await paths_of(store) == []
