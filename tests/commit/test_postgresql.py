"""Commits under a lock in PostgreSQL, for an S3 server that is not asked for conditional puts."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

from adelta._concurrency import map_concurrent
from adelta.commit.choose import coordinator_of, open_log_store
from adelta.commit.coordinator import Committed, Lost, Unknown
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.commit.postgresql import PostgresCoordinator, lock_key
from adelta.errors import InvalidOptionError, PermissionDeniedError, StorageError, ThrottledError
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from tests.support.appender import race
from tests.support.stores import CountingStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import asyncpg

    from adelta.storage.object_store import ObjectMeta
    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Location

WITHOUT_PUT = {"aws_conditional_put": "disabled"}
ROWS = pa.table({"id": [1, 2, 3]})


def body(transaction_id: str) -> bytes:
    return b'{"commitInfo":{"operation":"WRITE","txnId":"%s"}}\n' % transaction_id.encode()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def server(postgres_server: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the superuser, for a look behind."""
    connection = await postgres_server.connect()
    yield connection
    await connection.close()


async def end_holders(server: asyncpg.Connection) -> None:
    """Cut the connections of all who hold a lock."""
    held = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    await server.execute(held)


async def until(server: asyncpg.Connection, condition: str) -> None:
    """Wait until the server says so."""
    with anyio.fail_after(60):
        while not await server.fetchval(condition):  # noqa: ASYNC110 - it tells nobody by itself
            await anyio.sleep(0.02)


# ------------------------------------------------------------------------------------ one commit


async def test_a_free_version_is_claimed_and_a_taken_one_is_left_as_it_is(
    store: MemoryStore, postgres_server: PostgresServer
) -> None:
    counting = CountingStore(store)
    coordinator = PostgresCoordinator(counting, postgres_server.address)
    outcome = await coordinator.commit(3, body("a"), "a")
    assert [request.kind for request in counting.requests] == ["head", "list", "put"]
    assert isinstance(outcome, Committed)
    assert outcome.timestamp_ms == (await store.head(commit_path(3))).last_modified_ms
    assert await coordinator.commit(3, body("b"), "b") == Lost(3)
    assert await store.get(commit_path(3)) == body("a")
    assert await coordinator.recover() is None
    await coordinator.aclose()


async def test_a_store_with_conditional_puts_goes_on_using_them(
    store: MemoryStore, postgres_server: PostgresServer
) -> None:
    counting = CountingStore(store)
    options = {**postgres_server.storage_options}
    assert isinstance(
        coordinator_of(open_log_store("memory://locked", options)), PostgresCoordinator
    )
    coordinator = PostgresCoordinator(counting, postgres_server.address, conditional_put=True)
    assert isinstance(await coordinator.commit(0, body("a"), "a"), Committed)
    assert [request.kind for request in counting.requests] == ["put"]


async def test_no_connection_stays_behind(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    coordinator = PostgresCoordinator(store, postgres_server.address)
    for version in range(3):
        await coordinator.commit(version, body("a"), "a")
    others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    await until(server, f"SELECT ({others}) = 1")


def test_the_key_is_the_same_for_every_writer() -> None:
    """Other programs may take the lock too, so it must not change."""
    assert lock_key("s3://bucket/table") == -3486541496696747292
    assert lock_key("s3a://bucket/table/") == lock_key("s3://bucket/table")
    assert lock_key("s3://bucket/Table") != lock_key("s3://bucket/table")
    assert -(2**63) <= lock_key("file:///t") < 2**63


async def test_the_lock_is_held_from_the_look_to_the_put(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    counting = CountingStore(store)
    coordinator = PostgresCoordinator(counting, postgres_server.address)
    key = lock_key(store.uri)
    outcomes = []

    async def commit() -> None:
        outcomes.append(await coordinator.commit(0, body("a"), "a"))

    await server.execute("SELECT pg_advisory_lock($1)", key)
    async with anyio.create_task_group() as group:
        group.start_soon(commit)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        await until(server, f"SELECT ({waiting}) = 1")
        assert counting.requests == []
        await server.execute("SELECT pg_advisory_unlock($1)", key)
    assert isinstance(outcomes[0], Committed)

    class Asking(WrappedStore):
        async def put(self, path: str, data: bytes) -> ObjectMeta:
            taken.append(await server.fetchval("SELECT pg_try_advisory_lock($1)", key))
            return await super().put(path, data)

    taken: list[bool] = []
    await PostgresCoordinator(Asking(store), postgres_server.address).commit(1, body("a"), "a")
    assert taken == [False]
    assert await server.fetchval("SELECT pg_try_advisory_lock($1)", key)


async def test_waiting_for_the_lock_ends(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    await server.execute("SELECT pg_advisory_lock($1)", lock_key(store.uri))
    coordinator = PostgresCoordinator(store, postgres_server.address, wait=0.05)
    with pytest.raises(ThrottledError, match=r"held the commit lock for 0\.05 s"):
        await coordinator.commit(0, body("a"), "a")
    assert [page async for page in store.list()] == []


# ------------------------------------------------------------------------------------ lost locks


class Hooked(WrappedStore):
    """Runs something before or after the first put."""

    def __init__(
        self,
        inner: MemoryStore,
        *,
        after_look: Callable[[], Awaitable[None]] | None = None,
        before_put: Callable[[], Awaitable[None]] | None = None,
        after_put: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(inner)
        self.after_look, self.before_put, self.after_put = after_look, before_put, after_put

    async def head(self, path: str) -> ObjectMeta:
        try:
            return await super().head(path)
        finally:
            hook, self.after_look = self.after_look, None
            if hook is not None:
                await hook()

    async def put(self, path: str, data: bytes) -> ObjectMeta:
        before, self.before_put = self.before_put, None
        if before is not None:
            await before()
        made = await super().put(path, data)
        after, self.after_put = self.after_put, None
        if after is not None:
            await after()
        return made


async def test_a_lock_that_is_lost_before_the_put_is_taken_again(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    async def lose() -> None:
        await end_holders(server)
        await store.put(commit_path(0), body("theirs"))  # the next holder was faster

    hooked = Hooked(store, after_look=lose)
    assert await PostgresCoordinator(hooked, postgres_server.address).commit(
        0, body("a"), "a"
    ) == Lost(0)
    assert await store.get(commit_path(0)) == body("theirs")

    async def only_lose() -> None:
        await end_holders(server)

    hooked = Hooked(store, after_look=only_lose)
    outcome = await PostgresCoordinator(hooked, postgres_server.address).commit(1, body("a"), "a")
    assert isinstance(outcome, Committed)


async def test_a_lock_that_is_lost_during_the_put_leaves_it_to_what_is_there(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    async def lose() -> None:
        await end_holders(server)

    async def lose_to_another() -> None:
        await end_holders(server)
        other = PostgresCoordinator(CountingStore(store), postgres_server.address)
        await store.delete([commit_path(1)])  # our put comes later than the other's look
        assert isinstance(await other.commit(1, body("theirs"), "theirs"), Committed)

    for version, hooks, committed in (
        (0, {"before_put": lose}, True),
        (1, {"after_put": lose_to_another}, False),
        (2, {"after_put": lose}, True),
    ):
        coordinator = PostgresCoordinator(Hooked(store, **hooks), postgres_server.address)
        outcome = await coordinator.commit(version, body("a"), "a")
        if committed:
            assert isinstance(outcome, Committed)
        else:
            assert outcome == Lost(version)


async def test_the_outcome_is_unknown_where_the_lock_is_lost_for_good(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    async def lose() -> None:
        await end_holders(server)
        await server.execute("SELECT pg_advisory_lock($1)", lock_key(store.uri))

    coordinator = PostgresCoordinator(
        Hooked(store, after_put=lose), postgres_server.address, wait=0.05
    )
    outcome = await coordinator.commit(0, body("a"), "a")
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.cause, ThrottledError)


async def test_with_conditional_puts_a_lost_lock_leaves_no_doubt(
    store: MemoryStore, postgres_server: PostgresServer, server: asyncpg.Connection
) -> None:
    class Losing(WrappedStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            await end_holders(server)
            return await super().put_if_absent(path, data)

    counting = CountingStore(Losing(store))
    coordinator = PostgresCoordinator(counting, postgres_server.address, conditional_put=True)
    assert isinstance(await coordinator.commit(0, body("a"), "a"), Committed)
    assert counting.count == 1


# ---------------------------------------------------------------------------- refusals and options


async def test_a_server_that_refuses_is_an_error_that_shows_no_secret(
    store: MemoryStore, postgres_server: PostgresServer
) -> None:
    wrong = f"postgresql://postgres:hunter2@127.0.0.1:{postgres_server.port}/postgres"
    with pytest.raises(PermissionDeniedError, match="commit lock") as denied:
        await PostgresCoordinator(store, wrong).commit(0, body("a"), "a")
    assert "hunter2" not in str(denied.value)
    with pytest.raises(StorageError, match="commit lock"):
        await PostgresCoordinator(store, "postgresql://u:hunter2@127.0.0.1:9/db").commit(
            0, body("a"), "a"
        )
    with pytest.raises(InvalidOptionError, match="percent-encoded") as invalid:
        await PostgresCoordinator(store, "postgresql://u:hunter2@host:port/db").commit(
            0, body("a"), "a"
        )
    assert "hunter2" not in str(invalid.value)
    assert [page async for page in store.list()] == []


def test_wrong_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOptionError, match="address of a PostgreSQL server"):
        open_log_store("memory://t", {"adelta_commit_lock": "mysql://u:hunter2@host/db"})
    both = {
        "adelta_commit_lock": "postgresql://host/db",
        "aws_s3_locking_provider": "dynamodb",
        "aws_region": "eu-north-1",
    }
    with pytest.raises(InvalidOptionError, match="two ways"):
        open_log_store("s3://bucket/t", both)
    monkeypatch.setenv("ADELTA_COMMIT_LOCK", "postgresql://host/db")
    locked = open_log_store("s3://bucket/t", {"aws_region": "eu-north-1"})
    assert isinstance(coordinator_of(locked), PostgresCoordinator)
    other = open_log_store("memory://t")  # the variable is for S3
    assert isinstance(coordinator_of(other), FilesystemCoordinator)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InvalidOptionError, match=r"pip install 'adelta\[postgres\]'"):
        open_log_store("s3://bucket/t", {"aws_region": "eu-north-1"})


# ----------------------------------------------------------------------------------------- races


async def test_of_many_racing_attempts_exactly_one_is_told_that_it_won(
    s3_location: S3Location, postgres_server: PostgresServer
) -> None:
    options = {**s3_location.storage_options, **WITHOUT_PUT, **postgres_server.storage_options}
    stores = [open_log_store(s3_location.uri, options) for _ in range(8)]

    async def attempt(at: int) -> bool:
        outcome = await coordinator_of(stores[at]).commit(0, body(f"t{at}"), f"t{at}")
        return isinstance(outcome, Committed)

    won = await map_concurrent(attempt, range(8), limit=8)
    assert won.count(True) == 1
    assert await stores[0].get(commit_path(0)) == body(f"t{won.index(True)}")
    for each in stores:
        await each.aclose()


async def test_with_the_lock_no_commit_of_racing_processes_is_lost(
    s3_location: S3Location, postgres_server: PostgresServer
) -> None:
    """A1-18: coordination makes up for a store without put-if-absent."""
    options = {**s3_location.storage_options, **WITHOUT_PUT, **postgres_server.storage_options}
    result = await race(s3_location.uri, 2, 20, options)
    result.check(["w0", "w1"], 20)


async def test_without_the_lock_commits_of_racing_processes_are_lost(
    s3_location: S3Location,
) -> None:
    """A1-18, the negative control: what the tests of the lock would see if it did nothing."""
    options = {**s3_location.storage_options, **WITHOUT_PUT, "unsafe_single_writer": "true"}
    lost = 0
    for attempt in range(5):
        result = await race(f"{s3_location.uri}-{attempt}", 2, 20, options, may_stop=True)
        lost += 40 - sum(result.rows.values())
        if lost:
            break
    assert lost > 0
