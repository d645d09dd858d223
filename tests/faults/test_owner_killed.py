"""A commit owner, or a client of it, dies at each step: no commit is lost, doubled or halved.

The owner runs in this process, over a database and stores of which each request is a step. Where it
dies, it answers nothing that it was asked, and another is started on the same database and port.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest

import adelta
from adelta.commit.choose import owned_of
from adelta.commit.owner_client import OWNER_ENDPOINT, OWNER_TOKEN
from adelta.errors import AdeltaError, CommitOutcomeUnknownError, StorageError
from adelta.kernel.log_path import LOG_DIR
from adelta.owner import parts, table_logs
from adelta.owner.access import Right
from adelta.owner.database import open_database
from adelta.owner.limits import ServiceLimits
from adelta.owner.parts import Settings
from adelta.owner.server import running_owner
from adelta.storage.json_http import JsonServer
from adelta.storage.resolve import open_store
from adelta.table import Table
from tests.support.depth import DEEP, cases
from tests.support.local_servers import free_port
from tests.support.owned_lake import OWNER, SCHEMA, owned_by, rows
from tests.support.owners import new_database
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    import pyarrow as pa

    from adelta.owner.database import Database, Make
    from adelta.storage.object_store import ObjectStore
    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Location

R = TypeVar("R")
_SILENCE = 0.1  # seconds; long after whoever asked has been cut off


@dataclass
class Life:
    """So many steps are taken; the next one may take effect, but nobody hears of it.

    Before it is `limited` all are taken. Whoever dies in silence (`hangs`) answers no more; another
    one fails at each step.
    """

    hangs: bool
    limit: int | None = None
    takes_effect: bool = False
    used: int = 0
    deaths: int = 0
    died: anyio.Event = field(default_factory=anyio.Event)

    def limited(self, steps: int, *, takes_effect: bool = False) -> None:
        self.limit, self.takes_effect, self.used, self.deaths = steps, takes_effect, 0, 0

    def begins_anew(self) -> None:
        self.limit, self.died = None, anyio.Event()

    async def step(self, run: Callable[[], Awaitable[R]]) -> R:
        self.used += 1
        if self.limit is None or self.used <= self.limit:
            return await run()
        if not self.died.is_set():
            if self.takes_effect and self.used == self.limit + 1:
                await run()
            self.deaths += 1
            self.died.set()
            if self.hangs:
                await anyio.sleep(_SILENCE)
        raise StorageError("dead")


class MortalStore(WrappedStore):
    def __init__(self, inner: ObjectStore, life: Life) -> None:
        super().__init__(inner)
        self.life = life

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        return await self.life.step(run)


class MortalDatabase:
    def __init__(self, inner: Database, life: Life) -> None:
        self.inner = inner
        self.life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def run(self, make: Make[R], *, reads: bool = False) -> R:
        return await self.life.step(lambda: self.inner.run(make, reads=reads))

    async def ask(self, statement: Any) -> Any:
        return await self.life.step(lambda: self.inner.ask(statement))


@dataclass
class World:
    """Tables below `uri`, an owner that is started again when it dies, and a client that is not."""

    uri: str
    options: Mapping[str, str]
    settings: Settings
    owner: Life
    client: Life
    tables: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    async def run(self, started: anyio.Event) -> None:
        while True:
            async with running_owner(self.settings):
                started.set()
                await self.owner.died.wait()
            self.owner.begins_anew()

    def open(self, address: str) -> adelta.Table:
        return adelta.open_table(address, self.options)

    def victim(self, address: str) -> Table:
        store = MortalStore(open_store(address, self.options), self.client)
        return Table(address, store=store)

    async def made(self, *, owned: bool) -> str:
        """The address of a new table with one row, 0."""
        self.tables += 1
        address = f"{self.uri}/{self.tables}"
        properties = owned_by(self.endpoint) if owned else {}
        await adelta.create_table(
            address, SCHEMA, properties=properties, storage_options=self.options
        )
        await self.append(address, 0)
        return address

    async def append(self, address: str, id: int) -> None:
        await adelta.write_table(address, rows(id), mode="append", storage_options=self.options)

    async def ids(self, address: str) -> list[int]:
        async with self.open(address) as table:
            return await ids(await table.snapshot())

    async def published(self, address: str) -> list[int]:
        store = open_store(address, self.options)
        pages = store.list(LOG_DIR, recursive=False)
        paths = [meta.path.removeprefix(LOG_DIR) async for page in pages for meta in page]
        await store.aclose()
        return sorted(int(path[:20]) for path in paths if len(path) == 25)


async def ids(snapshot: adelta.Snapshot) -> list[int]:
    found: pa.Table = await snapshot.scan().to_arrow()
    return sorted(found["id"].to_pylist())


@asynccontextmanager
async def world_of(
    uri: str, database: str, options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """A world whose client and owner live on until they are limited."""
    owner, client = Life(hangs=True), Life(hangs=False)

    async def mortal_database(address: str, *more: Any) -> Any:
        return MortalDatabase(await open_database(address, *more), owner)

    async def asked(method: Any, server: JsonServer, *given: Any) -> Any:
        return await client.step(lambda: method(server, *given))

    post, get = JsonServer.post, JsonServer.get
    monkeypatch.setattr(JsonServer, "post", lambda *given: asked(post, *given))
    monkeypatch.setattr(JsonServer, "get", lambda *given: asked(get, *given))
    monkeypatch.setattr(parts, "open_database", mortal_database)
    monkeypatch.setattr(
        table_logs, "open_store", lambda *given: MortalStore(open_store(*given), owner)
    )
    settings = Settings(
        database,
        port=free_port(),
        storage_options=dict(options),
        service=ServiceLimits(stop_seconds=0.001),
        sweep_seconds=0.05,
    )
    world = World(uri, options, settings, owner, client)
    opened = await open_database(database)
    token, _ = await parts.Tokens(opened).create(Right.OWN, "*")
    await opened.aclose()
    monkeypatch.setenv(OWNER_TOKEN.upper(), token)
    monkeypatch.setenv(OWNER_ENDPOINT.upper(), world.endpoint)
    async with anyio.create_task_group() as group:
        started = anyio.Event()
        group.start_soon(world.run, started)
        await started.wait()
        yield world
        group.cancel_scope.cancel()


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> tuple[PostgresServer, S3Location] | None:
    """The servers where there are any."""
    if request.param == "disk and sqlite":
        return None
    return request.getfixturevalue("postgres_server"), request.getfixturevalue("s3_location")


# -------------------------------------------------------------------------------- what is tried


async def append(tables: list[Table]) -> None:
    await adelta.write_table(tables[0], rows(1), mode="append")


async def over_both(tables: list[Table]) -> None:
    async with adelta.transaction_over(*tables) as begun:
        for tx in begun:
            await tx.append(rows(1))


async def one_by_one(tables: list[Table]) -> None:
    for table in tables:
        await adelta.write_table(table, rows(1), mode="append")


async def adopt(tables: list[Table]) -> None:
    (table,) = tables
    await adelta.adopt_table(table, "adelta", {"endpoint": os.environ[OWNER_ENDPOINT.upper()]})


async def release(tables: list[Table]) -> None:
    await adelta.release_table(tables[0])


async def backfill(tables: list[Table]) -> None:
    await append(tables)
    owned = owned_of(tables[0].store)
    assert owned is not None
    await owned.client.backfill_to_version()


WORKS: Mapping[str, tuple[Callable[[list[Table]], Awaitable[None]], int]] = {
    "append": (append, 1),
    "backfill": (backfill, 1),
    "adopt": (adopt, 1),
    "release": (release, 1),
    "over both": (over_both, 2),
}


TRIED = [
    (where, name)
    for where in ("disk and sqlite", "S3 and postgresql")
    for name in WORKS
    if DEEP or where == "disk and sqlite" or name == "over both"
]


async def tried(work: Callable[[], Awaitable[None]]) -> bool | None:
    """Whether it was carried out; None where nobody said."""
    try:
        await work()
    except CommitOutcomeUnknownError:
        return None
    except AdeltaError:
        return False
    return True


async def die_at(
    world: World, name: str, life: Life, steps: int, *, takes_effect: bool
) -> tuple[bool, bool]:
    """Whether one who dies after so many steps did so amid a work, and whether it is halved."""
    work, count = WORKS.get(name) or (one_by_one, 2)
    addresses = [await world.made(owned=name != "adopt") for _ in range(count)]
    victims = [world.victim(address) for address in addresses]
    for victim in victims:
        await victim.snapshot()
    life.limited(steps, takes_effect=takes_effect)
    done = await tried(lambda: work(victims))
    early = life.deaths > 0
    if life is world.client:
        life.begins_anew()
        done = done or None  # what a dead client believes
    elif not early:
        life.limit = None
    handles = [world.open(address) for address in addresses]
    if name == "over both":
        seen = [await ids(snapshot) for snapshot in await adelta.snapshots(*handles)]
    else:
        seen = [await world.ids(address) for address in addresses]
    halved = len({tuple(each) for each in seen}) > 1
    wrote = name not in ("adopt", "release")
    for address, found in zip(addresses, seen, strict=True):
        rows_of_it = 1 in found
        assert found in ([0], [0, 1])
        if wrote and name in WORKS:
            assert rows_of_it is done or done is None or (name == "backfill" and rows_of_it)
        await world.append(address, 2)  # whoever comes next goes on
        assert await world.ids(address) == [*found, 2]
        async with world.open(address) as table:
            snapshot = await table.snapshot()
            owner = snapshot.metadata.configuration.get(OWNER)
            if done is not None and not wrote:
                assert (owner is not None) is ((name == "adopt") is done)
            if owner is not None:
                owned = owned_of(table.store)
                assert owned is not None
                await owned.client.backfill_to_version()
            assert await world.published(address) == [*range(snapshot.version + 1)]
    for handle in [*handles, *victims]:
        await handle.aclose()
    return early, halved


@pytest.mark.parametrize("who", ["owner", "client"])
@pytest.mark.parametrize(("servers", "name"), TRIED, indirect=["servers"])
async def test_whoever_dies_at_a_step_loses_no_commit_and_halves_none(
    servers: tuple[PostgresServer, S3Location] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    name: str,
) -> None:
    uri, database, options = str(tmp_path / "lake"), str(tmp_path / "owner.db"), {}
    if servers is not None:
        server, location = servers
        uri, options = location.uri, location.storage_options
        database = await new_database(server)
    async with world_of(uri, database, options, monkeypatch) as world:
        life = world.owner if who == "owner" else world.client
        for takes_effect in (False, True):
            steps = 0
            while True:
                early, halved = await die_at(world, name, life, steps, takes_effect=takes_effect)
                assert not halved, f"{steps} steps"
                if not early:
                    break
                steps += cases(1, 3 if servers is None else 5)


async def test_two_commits_without_one_transaction_are_halved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: what is looked for above is found where it is."""
    uri, database = str(tmp_path / "lake"), str(tmp_path / "owner.db")
    async with world_of(uri, database, {}, monkeypatch) as world:
        found = set()
        for steps in range(40):
            early, halved = await die_at(
                world, "one by one", world.client, steps, takes_effect=False
            )
            found.add(halved)
            if not early:
                break
        assert found == {False, True}
