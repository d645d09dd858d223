"""Stores that cannot exclude writers: read as any other, written to at the user's word alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.commit.choose import coordinator_of, open_log_store
from adelta.commit.coordinated_store import CoordinatedStore
from adelta.commit.coordinator import Committed, Lost
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.commit.ownable_store import OwnableStore
from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from adelta.storage.s3 import S3Store

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore
    from tests.support.s3_server import S3Location

WITHOUT_PUT = {"aws_conditional_put": "disabled"}
ROWS = pa.table({"id": [1, 2, 3]})


def body(transaction_id: str) -> bytes:
    return b'{"commitInfo":{"operation":"WRITE","txnId":"%s"}}\n' % transaction_id.encode()


async def test_a_table_without_such_options_keeps_its_plain_store() -> None:
    """It pays nothing for what it does not use."""
    assert isinstance(plain(open_log_store("memory://plain")), MemoryStore)
    store = open_log_store("s3://bucket/t", {"aws_region": "eu-north-1"})
    assert isinstance(plain(store), S3Store)
    assert isinstance(coordinator_of(store), FilesystemCoordinator)
    alone = open_log_store("s3://bucket/t", {"unsafe_single_writer": "true"})
    assert isinstance(plain(alone), S3Store)


def plain(store: ObjectStore) -> ObjectStore:
    assert isinstance(store, OwnableStore)
    return store.inner


async def test_a_store_that_cannot_exclude_writers_is_read_and_not_written(
    s3_location: S3Location,
) -> None:
    uri, options = s3_location.uri, s3_location.storage_options
    await adelta.write_table(uri, ROWS, storage_options=options)
    without = {**options, **WITHOUT_PUT}
    async with adelta.open_table(uri, without) as table:
        assert await (await table.snapshot()).scan().count() == 3
        before = [o.path async for page in table.store.list() for o in page]
        with pytest.raises(InvalidOptionError, match="unsafe_single_writer=true"):
            await adelta.write_table(table, ROWS)
        with pytest.raises(InvalidOptionError, match="must not be written to"):
            async with table.transaction():
                pass
        with pytest.raises(InvalidOptionError, match="must not be written to"):
            await adelta.set_properties(table, {"delta.appendOnly": "true"})
        assert [o.path async for page in table.store.list() for o in page] == before


@pytest.mark.parametrize("call", ["write", "create"])
async def test_a_new_table_is_refused_before_anything_is_written(
    s3_location: S3Location, call: str
) -> None:
    options = {**s3_location.storage_options, **WITHOUT_PUT}

    async def make() -> None:
        if call == "write":
            await adelta.write_table(s3_location.uri, ROWS, storage_options=options)
        else:
            await adelta.create_table(s3_location.uri, ROWS.schema, storage_options=options)

    with pytest.raises(InvalidOptionError, match="must not be written to"):
        await make()
    store = open_log_store(s3_location.uri, options)
    assert [page async for page in store.list()] == []
    await store.aclose()


async def test_the_keyword_lets_a_single_writer_write(s3_location: S3Location) -> None:
    uri, options = s3_location.uri, {**s3_location.storage_options, **WITHOUT_PUT}
    made = await adelta.create_table(
        uri, ROWS.schema, storage_options=options, unsafe_single_writer=True
    )
    await made.aclose()
    written = await adelta.write_table(
        uri, ROWS, storage_options=options, unsafe_single_writer=True
    )
    assert written.version == 1
    async with adelta.open_table(uri, options, unsafe_single_writer=True) as table:
        assert (await adelta.write_table(table, ROWS)).version == 2
        assert await (await table.snapshot()).scan().count() == 6
        with pytest.raises(InvalidOptionError, match="open_table"):
            await adelta.write_table(table, ROWS, unsafe_single_writer=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("unsafe_single_writer", "true"), ("AWS_S3_ALLOW_UNSAFE_RENAME", "TRUE")],
)
async def test_so_do_the_storage_options(s3_location: S3Location, name: str, value: str) -> None:
    options = {**s3_location.storage_options, **WITHOUT_PUT, name: value}
    for version in range(2):
        made = await adelta.write_table(s3_location.uri, ROWS, storage_options=options)
        assert made.version == version


@pytest.mark.parametrize("variable", ["ADELTA_UNSAFE_SINGLE_WRITER", "AWS_S3_ALLOW_UNSAFE_RENAME"])
async def test_so_do_the_environment_variables(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    store = open_log_store("s3://bucket/t", {"aws_region": "eu-north-1"})
    with pytest.raises(InvalidOptionError):
        coordinator_of(store)
    monkeypatch.setenv(variable, "1")
    store = open_log_store("s3://bucket/t", {"aws_region": "eu-north-1"})
    assert isinstance(coordinator_of(store), FilesystemCoordinator)


async def test_a_single_writer_does_not_replace_a_commit_that_is_there(
    s3_location: S3Location,
) -> None:
    options = {**s3_location.storage_options, **WITHOUT_PUT, "unsafe_single_writer": "true"}
    store = open_log_store(s3_location.uri, options)
    coordinator = coordinator_of(store)
    assert isinstance(await coordinator.commit(0, body("a"), "a"), Committed)
    assert await coordinator.commit(0, body("b"), "b") == Lost(0)
    assert await store.get(commit_path(0)) == body("a")
    assert await coordinator.recover() is None
    await store.aclose()


async def test_a_commit_is_not_made_past_its_coordinator() -> None:
    inner = MemoryStore()
    store = CoordinatedStore(inner, FilesystemCoordinator(inner), conditional_put=True)
    with pytest.raises(InvalidUseError, match="coordinator"):
        await store.put_if_absent(commit_path(0), body("a"))
    await store.put_if_absent("_delta_log/00000000000000000000.crc", b"{}")
