"""File systems of fsspec as stores: memory, SFTP by a real server, and archives."""

from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidOptionError, ObjectNotFoundError, StorageError
from adelta.storage import open_store
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of, pieces
from tests.support.depth import DEEP
from tests.support.sftp_server import running_sftp_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from adelta.storage import ObjectStore
    from tests.support.postgres_server import PostgresServer
    from tests.support.sftp_server import SftpServer

ALONE = {"unsafe_single_writer": "true"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    (tmp_path / "served").mkdir()
    with running_sftp_server(tmp_path / "served") as running:
        yield running


class FsspecSuite(ObjectStoreSuite):
    async def test_put_if_absent_does_not_replace(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidOptionError, match="adelta_commit_lock"):
            await store.put_if_absent("log/0.json", b"first")
        assert await paths_of(store) == []

    async def test_one_of_many_racing_puts_wins(self, store: ObjectStore) -> None:
        pytest.skip("put_if_absent is refused")


class TestMemory(FsspecSuite):
    @pytest.fixture
    async def store(self, request: pytest.FixtureRequest) -> ObjectStore:
        return open_store(f"fsspec+memory://suite/{abs(hash(request.node.name))}")


class TestSftp(FsspecSuite):
    @pytest.fixture
    async def store(self, server: SftpServer) -> ObjectStore:
        return open_store(f"{server.address}/lake/t", server.options)

    async def test_a_stream_of_any_shape_becomes_one_object(self, store: ObjectStore) -> None:
        chunks = [os.urandom(size) for size in (700_000, 1, 0, 900_000)]
        made = await store.put_stream("big/file", pieces(*chunks))
        assert made.size == sum(map(len, chunks))
        assert await store.get("big/file") == b"".join(chunks)

    async def test_a_long_list_comes_in_pages_each_path_once(self, store: ObjectStore) -> None:
        if not DEEP:
            pytest.skip("it takes long; the deep run does it")
        await super().test_a_long_list_comes_in_pages_each_path_once(store)

    async def test_a_list_keeps_to_its_prefix_and_start(self, store: ObjectStore) -> None:
        if not DEEP:
            pytest.skip("it takes long; the deep run does it")
        await super().test_a_list_keeps_to_its_prefix_and_start(store)

    async def test_a_large_object_goes_in_and_comes_out(self, store: ObjectStore) -> None:
        data = os.urandom(3 << 20)  # the server is one in Python
        assert (await store.put("large", data)).size == len(data)
        assert await store.get("large") == data


async def test_a_connection_that_broke_is_made_again(server: SftpServer) -> None:
    store = open_store(f"{server.address}/t", server.options)
    await store.put("a", b"1")
    server.break_connections()
    assert await store.get("a") == b"1"
    assert store.stats.retries == 1
    await store.aclose()


async def test_a_server_that_is_gone_is_not_taken_for_one_without_the_object(
    tmp_path: Path,
) -> None:
    with running_sftp_server(tmp_path) as server:
        store = open_store(f"{server.address}/t", server.options)
        await store.put("a", b"1")
    with pytest.raises(StorageError) as caught:
        await store.head("a")
    assert not isinstance(caught.value, ObjectNotFoundError)
    with pytest.raises(StorageError):
        await paths_of(store)


async def test_a_link_is_no_object_and_what_is_broken_off_stays_hidden(
    server: SftpServer, tmp_path: Path
) -> None:
    store = open_store(f"{server.address}/t", server.options)
    await store.put("a", b"1")
    os.symlink(tmp_path, tmp_path / "served" / "t" / "outside")
    (tmp_path / "served" / "t" / ".adelta-tmp-0123456789abcdef").write_bytes(b"half")
    assert await paths_of(store) == ["a"]


async def test_a_table_is_written_by_one_alone_and_read_by_anybody(server: SftpServer) -> None:
    uri = f"{server.address}/lake/t"
    rows = pa.table({"n": [1, 2, 3]})
    with pytest.raises(InvalidOptionError, match="must not be written to"):
        await adelta.write_table(uri, rows, storage_options=server.options)
    options = {**server.options, **ALONE}
    await adelta.write_table(uri, rows, storage_options=options)
    await adelta.delete(uri, "n = 2", storage_options=options)
    async with adelta.open_table(uri, storage_options=server.options) as table:
        snapshot = await table.snapshot()
        assert snapshot.version == 1
        assert sorted((await snapshot.scan().to_arrow()).column("n").to_pylist()) == [1, 3]


async def test_writers_are_kept_apart_by_postgresql(
    server: SftpServer, postgres_server: PostgresServer
) -> None:
    uri = f"{server.address}/locked"
    options = {**server.options, "adelta_commit_lock": postgres_server.address}
    for number in range(3):
        await adelta.write_table(uri, pa.table({"n": [number]}), storage_options=options)
    async with adelta.open_table(uri, storage_options=server.options) as table:
        assert (await table.snapshot()).version == 2


async def test_a_table_in_an_archive_is_read_and_not_written_to(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path / "t", pa.table({"n": [1, 2, 3]}))
    archive = tmp_path / "tables.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for path in sorted((tmp_path / "t").rglob("*")):
            made.write(path, path.relative_to(tmp_path))
    options = {"fsspec_options": json.dumps({"fo": str(archive)})}
    async with adelta.open_table("zip://t", storage_options=options) as table:
        assert await (await table.snapshot()).scan(where="n > 1").count() == 2
    with pytest.raises(StorageError):
        await adelta.write_table(
            "zip://t", pa.table({"n": [4]}), storage_options={**options, **ALONE}
        )


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("sftp://me:secret@host/t", {}, "has a password in it"),
        ("zip://t::file:///tables.zip", {}, "is a chain"),
        ("sftp://host/t", {"fsspec_options": "me"}, "object in JSON"),
        ("fsspec+ftp://host/t", {}, "cannot be relied on"),
        ("fsspec+nothing://host/t", {}, "no file system 'nothing'"),
        ("nothing://host/t", {}, "unknown scheme"),
    ],
)
def test_what_cannot_be_opened_is_refused_by_name(
    address: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidOptionError, match=said) as caught:
        open_store(address, options)
    assert "secret" not in str(caught.value)
