"""Tables that the service owns, from their creation to their release, on local disk and on S3."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

import adelta
from adelta._concurrency import map_concurrent
from adelta.commit import owner_commit
from adelta.kernel.log_path import LOG_DIR
from adelta.storage.resolve import open_store
from tests.support.depth import cases
from tests.support.owned_lake import lake_of
from tests.support.owners import new_database, running
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.owners import Owner
    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Location

SCHEMA = pa.schema([("id", pa.int64())])


class Lake:
    """A place for tables, and the options by which they are opened."""

    def __init__(self, uri: str, options: dict[str, str], owner: Owner, token: str) -> None:
        self.uri = uri
        self.owner = owner
        self.options = {
            **options,
            "adelta_owner_endpoint": owner.endpoint,
            "adelta_owner_token": token,
        }

    @property
    def conf(self) -> dict[str, str]:
        return {"endpoint": self.owner.endpoint}

    def open(self, name: str = "orders") -> adelta.Table:
        return adelta.open_table(f"{self.uri}/{name}", storage_options=self.options)

    async def adopted(self, name: str = "orders") -> adelta.Table:
        table = await adelta.create_table(
            f"{self.uri}/{name}", SCHEMA, storage_options=self.options
        )
        await adelta.adopt_table(table, "adelta", self.conf)
        return table

    async def published(self, name: str = "orders") -> list[int]:
        store = open_store(f"{self.uri}/{name}", self.options)
        pages = store.list(LOG_DIR, recursive=False)
        paths = [meta.path.removeprefix(LOG_DIR) async for page in pages for meta in page]
        await store.aclose()
        return [int(path[:20]) for path in paths if len(path) == 25]


@pytest.fixture(params=["disk and sqlite", "S3 and postgresql"])
def servers(request: pytest.FixtureRequest) -> tuple[PostgresServer, S3Location] | None:
    """The servers where there are any."""
    if request.param == "disk and sqlite":
        return None
    place: S3Location = request.getfixturevalue("s3_location")
    return request.getfixturevalue("postgres_server"), place


@pytest.fixture
async def lake(
    servers: tuple[PostgresServer, S3Location] | None, tmp_path: Path
) -> AsyncIterator[Lake]:
    if servers is None:
        async with running(tmp_path) as owner:
            yield Lake(str(tmp_path), {}, owner, await owner.token())
        return
    server, place = servers
    options, database = place.storage_options, await new_database(server)
    async with running(tmp_path, database=database, storage_options=options) as owner:
        yield Lake(place.uri, options, owner, await owner.token(prefix=place.uri))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


async def ids(table: adelta.Table) -> list[int]:
    found = await (await table.snapshot()).scan().to_arrow()
    return sorted(found.column("id").to_pylist())


async def test_a_table_is_taken_over_written_read_and_released(lake: Lake) -> None:
    async with await lake.adopted() as table, lake.open() as other:
        for number in range(2, 6):
            assert (await adelta.write_table(table, rows(number))).version == number
        assert await ids(other) == [2, 3, 4, 5]
        await adelta.delete(other, "id = 3")
        assert await ids(table) == [2, 4, 5]
        await adelta.checkpoint(table)
        assert await lake.published() == [*range(7)]
        released = await adelta.release_table(other)
        assert released.version == 7
        assert (await adelta.write_table(table, rows(9))).version == 8
    options = {k: v for k, v in lake.options.items() if "owner" not in k}
    async with adelta.open_table(f"{lake.uri}/orders", storage_options=options) as plain:
        assert await ids(plain) == [2, 4, 5, 9]
        assert (await plain.snapshot()).version == 8


async def test_a_table_is_created_with_its_owner(lake: Lake) -> None:
    properties = {
        "delta.managedCommit.commitOwner": "adelta",
        "delta.managedCommit.commitOwnerConf": json.dumps(lake.conf),
    }
    uri = f"{lake.uri}/orders"
    async with await adelta.create_table(
        uri, SCHEMA, properties=properties, storage_options=lake.options
    ) as table:
        assert (await adelta.write_table(table, rows(1))).version == 1
        assert await ids(table) == [1]


async def test_a_commit_is_one_request_and_the_store_is_asked_for_nothing_but_the_rows(
    lake: Lake,
) -> None:
    async with await lake.adopted() as table:
        await adelta.write_table(table, rows(1))
        await table.snapshot()
        asked = lake.owner.asked()
        store = CountingStore(table.store.inner)
        table.store.inner = store
        await adelta.write_table(table, rows(2))
        assert lake.owner.asked() - asked == {"/api/v1/commit": 1}
        log = [r.path for r in store.requests if LOG_DIR in r.path]
        assert [path for path in log if not path.endswith(".crc")] == []


async def test_what_the_owner_has_published_is_not_asked_for_again_with_each_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_commit, "_FOLLOWED", 4)
    async with await lake.adopted() as table:
        await adelta.set_properties(table, {"delta.checkpointInterval": "1000"})
        asked = lake.owner.asked()
        for number in range(12):
            await adelta.write_table(table, rows(number))
        told = lake.owner.asked() - asked
        assert told["/api/v1/commit"] == 12
        assert told["/api/v1/commits"] <= 3


async def test_racing_writers_have_all_their_rows(lake: Lake) -> None:
    await (await lake.adopted()).aclose()
    each = cases(8, 3)

    async def write(number: int) -> None:
        async with lake.open() as table:
            for at in range(each):
                await adelta.write_table(table, rows(100 * number + at))

    await map_concurrent(write, range(4), limit=4)
    async with lake.open() as table:
        assert (await table.snapshot()).version == 1 + 4 * each
        assert await ids(table) == sorted(100 * n + at for n in range(4) for at in range(each))


async def test_writers_go_on_over_a_change_of_owner(lake: Lake) -> None:
    """Taken over and released while others write: every row is there, and every version once."""
    async with await adelta.create_table(
        f"{lake.uri}/orders", SCHEMA, storage_options=lake.options
    ) as table:
        written: list[int] = []
        stop = anyio.Event()

        async def write(number: int) -> None:
            async with lake.open() as mine:
                while not stop.is_set():
                    row = 1000 * number + len(written)
                    try:
                        await adelta.write_table(mine, rows(row))
                    except adelta.errors.ProtocolChangedError:
                        continue
                    written.append(row)

        async with anyio.create_task_group() as group:
            for number in (1, 2):
                group.start_soon(write, number)
            await adelta.adopt_table(table, "adelta", lake.conf)
            await anyio.sleep(0.2)
            await adelta.release_table(table)
            await anyio.sleep(0.1)
            stop.set()
        assert await ids(table) == sorted(written)
        version = (await table.snapshot()).version
        assert await lake.published() == [*range(version + 1)]


async def test_a_table_moves_to_another_owner_with_all_of_it(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    options = lake.owner.service.parts.settings.storage_options
    async with running(folder, storage_options=options) as second:
        token = await second.token(prefix="*")
        lake.options["adelta_owner_endpoint"] += f",{second.endpoint}"
        lake.options["adelta_owner_token"] += f",{token}"
        async with await lake.adopted() as table, lake.open() as other:
            await adelta.write_table(table, rows(1))
            assert await ids(other) == [1]
            await adelta.adopt_table(table, "adelta", {"endpoint": second.endpoint})
            for number, writer in enumerate((table, other), 2):
                await adelta.write_table(writer, rows(number))
            assert await ids(other) == [1, 2, 3]
            version = (await table.snapshot()).version
        (owned,) = await second.service.parts.ledger.tables()
        assert (owned.state, owned.latest) == ("owned", version)
        (released,) = await lake.owner.service.parts.ledger.tables()
        assert released.state == "released"


async def test_the_store_is_asked_for_checksums_with_checkpoints_alone(tmp_path: Path) -> None:
    """Other commits through the owner put nothing but their data files."""
    async with lake_of(tmp_path) as lake:
        (orders,) = await lake.make("orders")
        for id in range(11):
            await adelta.write_table(orders, rows(id))
        log = tmp_path / "orders" / "_delta_log"
        assert [int(file.stem) for file in log.glob("*.crc")] == [10]
        assert sum(1 for _ in log.glob("*.checkpoint*")) > 0
        assert (await lake.table("orders").snapshot()).version == 11
