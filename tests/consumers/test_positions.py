"""Where positions are kept: in a folder, on S3 as well, and in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta import FilePositions, Position, PostgresqlPositions, StoredPosition
from adelta.errors import (
    ConsumerTakenOverError,
    InvalidOptionError,
    InvalidTableError,
    StorageError,
)
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from adelta.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import ObjectMeta
    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Location

WITHIN = Position(12, 3, 400, in_snapshot=True, table_id="a/b c", share="a%2Fb:0/4")


async def check(one: Any, other: Any) -> None:
    """Two handles on one place."""
    assert await one.load("c") is None
    await one.save("c", StoredPosition(Position(1), 1))
    found = await other.load("c")
    assert found == StoredPosition(Position(1), 1)
    await other.save("c", StoredPosition(WITHIN, 2))
    with pytest.raises(ConsumerTakenOverError, match="'c'"):
        await one.save("c", StoredPosition(Position(1, 5), 2))
    with pytest.raises(ConsumerTakenOverError, match="'c'"):
        await one.save("c", StoredPosition(Position(1, 5), 1))
    found = await one.load("c")
    assert found == StoredPosition(WITHIN, 2)
    assert str(found.position) == str(WITHIN)
    assert await one.load("d") is None
    await one.save("d", StoredPosition(Position(7), 1))
    assert await other.load("d") == StoredPosition(Position(7), 1)
    await one.aclose()
    await other.aclose()


class CancelsAfterPut(MemoryStore):
    """Once the file `path` is written, `task` is cancelled."""

    path = ""
    task: asyncio.Task[None] | None = None

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        found = await super().put_if_absent(path, data)
        if path == self.path and self.task is not None:
            self.task.cancel()
        return found


async def test_a_transaction_that_was_cancelled_once_it_had_committed_is_skipped_when_made_again(
    tmp_path: Path,
) -> None:
    rows = pa.table({"id": [1, 2]})
    await adelta.write_table(tmp_path, rows)
    store = CancelsAfterPut()
    target = Table(store.uri, store=store)
    await adelta.write_table(target, rows.slice(0, 0))
    store.path = commit_path(1)
    async with adelta.Consumer(tmp_path, "c", target, follow=False) as consumer:
        batch = await anext(consumer)

        async def copied() -> None:
            async with consumer.transaction(batch) as tx:
                await tx.append(batch)

        store.task = asyncio.create_task(copied())
        with pytest.raises(asyncio.CancelledError):
            await store.task
        async with consumer.transaction(batch) as again:
            await again.append(batch)
        assert again.skipped
        assert consumer.position == batch.position
        assert [rest async for rest in consumer] == []
    assert await (await target.snapshot()).scan().count() == 2


async def test_rows_are_shared_anew_from_the_least_position_of_those_that_shared_them(
    tmp_path: Path,
) -> None:
    table, kept = str(tmp_path / "table"), tmp_path / "kept"
    for first in (0, 100):
        rows = pa.table({"id": list(range(first, first + 100))})
        await adelta.write_table(table, rows)
    stopped, seen = [], set[int]()
    for number in range(2):
        async with adelta.Consumer(
            table, f"a{number}", kept, share=("id", number, 2), max_rows=9, start=0
        ) as consumer:
            for _ in range(number * 4 + 3):
                batch = await anext(consumer)
                seen |= set(batch.data.column("id").to_pylist())
                await consumer.acknowledge(batch)
            stopped.append(consumer.position)
    assert len(set(stopped)) == 2
    for number in range(3):
        async with adelta.Consumer(
            table, f"b{number}", kept, share=("id", number, 3), start=min(stopped), follow=False
        ) as consumer:
            async for batch in consumer:
                seen |= set(batch.data.column("id").to_pylist())
    assert seen == set(range(200)), "nothing is missed"


async def test_in_a_folder(tmp_path: Path) -> None:
    await check(FilePositions(tmp_path), FilePositions(str(tmp_path)))
    assert [path.name for path in (tmp_path / "c").iterdir()] == [f"{2:020d}.json"]
    for left in (1, 3):  # by processes that died before they had cleared up
        (tmp_path / "c" / f"{left:020d}.json").write_text(
            f'{{"position": "{left}:0", "revision": {left}}}'
        )
    again = FilePositions(tmp_path)
    assert await again.load("c") == StoredPosition(Position(3), 3)
    await again.save("c", StoredPosition(Position(4), 4))
    assert [path.name for path in (tmp_path / "c").iterdir()] == [f"{4:020d}.json"]
    (tmp_path / "c" / f"{5:020d}.json").write_text("{}")
    with pytest.raises(InvalidTableError, match="holds no position"):
        await again.load("c")


async def test_in_a_folder_on_s3(s3_location: S3Location) -> None:
    uri, options = f"{s3_location.uri}/positions", s3_location.server.storage_options
    await check(FilePositions(uri, options), FilePositions(uri, options))


async def test_in_postgresql(postgres_server: PostgresServer) -> None:
    one = PostgresqlPositions(postgres_server.address, table="public.positions_of_test")
    await check(one, PostgresqlPositions(postgres_server.address, table="positions_of_test"))
    with pytest.raises(StorageError, match="cannot be reached"):
        await PostgresqlPositions("postgresql://nobody:x@127.0.0.1:1/none").load("c")


def test_in_postgresql_by_its_address_and_without_await(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    uri = str(tmp_path / "source")
    adelta.sync.write_table(uri, pa.table({"id": [1, 2, 3]}))
    for wanted in ([[1, 2], [3]], [], [[4]]):
        with adelta.sync.Consumer(
            uri, "sync", postgres_server.address, max_rows=2, follow=False
        ) as consumer:
            found = []
            for batch in consumer:
                found.append(batch.data.column("id").to_pylist())
                consumer.acknowledge(batch)
            assert found == wanted
            assert consumer.lag().versions == 0
        if not wanted:
            adelta.sync.write_table(uri, pa.table({"id": [4]}))


def test_without_await_in_the_table_that_is_written_to(tmp_path: Path) -> None:
    uri = str(tmp_path / "source")
    adelta.sync.write_table(uri, pa.table({"id": [1, 2, 3]}))
    target = adelta.sync.create_table(str(tmp_path / "target"), pa.schema({"id": pa.int64()}))
    with target, adelta.sync.Consumer(uri, "c", target, max_rows=2, follow=False) as consumer:
        for batch in consumer:
            with consumer.transaction(batch) as tx:
                tx.append(batch.data)
        assert target.snapshot().scan().count() == 3
        consumer.seek("latest")
        with pytest.raises(StopIteration):
            next(iter(consumer))


def test_addresses_and_names_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="address of a server"):
        PostgresqlPositions("host:5432")
    with pytest.raises(InvalidOptionError, match="plain name"):
        PostgresqlPositions("postgresql://x", table="a; DROP TABLE b")
    with pytest.raises(InvalidOptionError):
        FilePositions("")
