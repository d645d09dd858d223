"""Commits by entries in DynamoDB: a real S3 server, dynalite, and crashes after every request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

import adelta
from adelta._concurrency import map_concurrent
from adelta.commit.choose import coordinator_of, open_log_store
from adelta.commit.coordinated_store import CoordinatedStore
from adelta.commit.coordinator import Committed, Lost, Unknown
from adelta.commit.dynamodb import DynamoDbCoordinator
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    MissingCommitError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)
from adelta.kernel.log_path import checkpoint_path, commit_path
from adelta.storage.dynamodb import DynamoTable, Item
from adelta.storage.dynamodb_options import parse_dynamo_options
from adelta.storage.resolve import open_store
from tests.support.stores import CountingStore, DenyingStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from adelta.commit.coordinator import CommitOutcome
    from adelta.storage.object_store import ObjectMeta, ObjectStore
    from tests.support.dynamo_server import DynamoServer
    from tests.support.s3_server import S3Location

R = TypeVar("R")
ROWS = pa.table({"id": [1, 2, 3]})


def body(transaction_id: str) -> bytes:
    return b'{"commitInfo":{"operation":"WRITE","txnId":"%s"}}\n' % transaction_id.encode()


@dataclass(frozen=True)
class Place:
    """A table's address and options, and its plain store and lock table for a look behind."""

    uri: str
    options: dict[str, str]
    store: ObjectStore
    locks: DynamoTable

    def coordinator(
        self, store: ObjectStore | None = None, locks: DynamoTable | None = None
    ) -> DynamoDbCoordinator:
        return DynamoDbCoordinator(store or self.store, locks or self.locks)

    async def entry(self, version: int) -> Item | None:
        return await self.locks.get(self.uri, f"{version:020}.json")

    async def claim(self, version: int, temporary: str, *, complete: bool = False) -> None:
        """An entry as another writer's, who got no further than this."""
        await self.locks.put_new(
            {
                "tablePath": self.uri,
                "fileName": f"{version:020}.json",
                "tempPath": temporary,
                "complete": "true" if complete else "false",
            }
        )

    async def paths(self) -> list[str]:
        return [meta.path async for page in self.store.list("_delta_log/") for meta in page]


@pytest.fixture
async def place(s3_location: S3Location, dynamo_server: DynamoServer) -> AsyncIterator[Place]:
    options = {**s3_location.storage_options, **dynamo_server.storage_options()}
    locks = DynamoTable(parse_dynamo_options(options, {}), partition="tablePath", sort="fileName")
    store = open_store(s3_location.uri, options)
    yield Place(s3_location.uri, options, store, locks)
    await locks.aclose()
    await store.aclose()


# ------------------------------------------------------------------------------------ one commit


async def test_a_commit_leaves_a_complete_entry_and_its_file(place: Place) -> None:
    """Keys, attributes and the form of their values are those of S3DynamoDBLogStore."""
    coordinator = place.coordinator()
    before = int(time.time())
    for version in range(2):
        assert isinstance(await coordinator.commit(version, body("a"), "a"), Committed)
        entry = await place.entry(version)
        assert entry is not None
        name = f"{version:020}.json"
        temporary, expires = entry.pop("tempPath"), entry.pop("expireTime")
        assert entry == {"tablePath": place.uri, "fileName": name, "complete": "true"}
        assert str(temporary).startswith(f".tmp/{name}.")
        assert isinstance(expires, int)
        assert before + 86_400 <= expires <= time.time() + 86_400
    assert await place.paths() == [commit_path(0), commit_path(1)]


async def test_a_commit_costs_five_requests_to_the_store_and_three_to_dynamodb(
    place: Place,
) -> None:
    store = CountingStore(place.store)
    coordinator = place.coordinator(store)
    await coordinator.commit(0, body("a"), "a")
    await coordinator.recover()  # it knows the table's path from here on
    store.clear()
    sent = place.locks.request_count
    await coordinator.commit(1, body("b"), "b")
    kinds = [request.kind for request in store.requests]
    assert sorted(kinds) == ["delete", "head", "head", "put", "put"]
    assert place.locks.request_count - sent == 3
    assert await coordinator.recover() == 1
    assert (store.count, place.locks.request_count - sent) == (5, 4)


async def test_the_time_of_a_commit_is_that_of_its_file(place: Place) -> None:
    outcome = await place.coordinator().commit(0, body("a"), "a")
    assert isinstance(outcome, Committed)
    assert outcome.timestamp_ms == (await place.store.head(commit_path(0))).last_modified_ms


async def test_a_taken_version_is_lost_and_left_as_it_is(place: Place) -> None:
    assert isinstance(await place.coordinator().commit(0, body("a"), "a"), Committed)
    assert await place.coordinator().commit(0, body("b"), "b") == Lost(0)
    assert await place.store.get(commit_path(0)) == body("a")


@pytest.mark.parametrize("conditional_put", ["etag", "disabled"])
async def test_of_many_racing_attempts_exactly_one_is_told_that_it_won(
    place: Place, conditional_put: str
) -> None:
    """A1-18: also where the store itself would let all of them win."""
    options = {**place.options, "aws_conditional_put": conditional_put}
    stores = [open_log_store(place.uri, options) for _ in range(6)]

    async def attempt(at: int) -> list[CommitOutcome]:
        commit = coordinator_of(stores[at]).commit
        return [await commit(version, body(f"t{at}"), f"t{at}") for version in range(3)]

    outcomes = await map_concurrent(attempt, range(6), limit=6)
    for version in range(3):
        won = [at for at in range(6) if isinstance(outcomes[at][version], Committed)]
        assert len(won) == 1
        assert await place.store.get(commit_path(version)) == body(f"t{won[0]}")
    assert len(await place.paths()) == 3  # the losers' temporary files are gone
    for store in stores:
        await store.aclose()


# --------------------------------------------------------------------------- crashes and recovery


class Killed(BaseException):
    """The process is gone."""


class Fuse:
    """Blows before or after one of the requests of a commit, be it to the store or to DynamoDB."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.seen = at, after, -1

    async def run(self, work: Callable[[], Awaitable[R]]) -> R:
        self.seen += 1
        if self.seen > self.at or (self.seen == self.at and not self.after):
            raise Killed
        done = await work()
        if self.seen == self.at:
            raise Killed
        return done


class FusedStore(WrappedStore):
    def __init__(self, inner: ObjectStore, fuse: Fuse) -> None:
        super().__init__(inner)
        self.fuse = fuse

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        return await self.fuse.run(run)


class FusedTable(DynamoTable):
    def __init__(self, options: dict[str, str], fuse: Fuse) -> None:
        super().__init__(parse_dynamo_options(options, {}), partition="tablePath", sort="fileName")
        self.fuse = fuse

    async def get(self, partition: str, sort: str) -> Item | None:
        return await self.fuse.run(lambda: super(FusedTable, self).get(partition, sort))

    async def last(self, partition: str) -> Item | None:
        return await self.fuse.run(lambda: super(FusedTable, self).last(partition))

    async def put_new(self, item: Item) -> bool:
        return await self.fuse.run(lambda: super(FusedTable, self).put_new(item))

    async def update(self, item: Item, *, where: Item) -> bool:
        return await self.fuse.run(lambda: super(FusedTable, self).update(item, where=where))


@pytest.mark.parametrize("after", [False, True])
async def test_after_a_crash_at_any_request_the_commit_is_there_or_is_not(
    place: Place, after: bool
) -> None:
    """A reader sees the version or does not, and goes on seeing it; the next writer succeeds."""
    async with await adelta.create_table(
        place.uri, ROWS.schema, storage_options=place.options
    ) as table:
        committed = []
        for at in range(20):
            known = (await table.snapshot()).version
            fuse = Fuse(at, after=after)
            locks = FusedTable(place.options, fuse)
            dying = place.coordinator(FusedStore(place.store, fuse), locks)
            finished = False
            try:
                await dying.commit(known + 1, body(f"t{at}"), f"t{at}")
                finished = True
            except (Killed, BaseExceptionGroup):
                pass
            await locks.aclose()
            entry = await place.entry(known + 1)
            claimed = entry is not None
            # a handle that asks for the next version by name, and one that lists the log
            assert (await table.snapshot()).version == known + claimed
            async with adelta.open_table(place.uri, place.options) as fresh:
                assert (await fresh.snapshot()).version == known + claimed
            if claimed:
                assert await place.store.get(commit_path(known + 1)) == body(f"t{at}")
                left = await place.entry(known + 1)
                assert left is not None
                assert left["complete"] == "true"
            written = await adelta.write_table(table, ROWS)
            assert written.version == known + claimed + 1
            committed.append(claimed)
            if finished:
                break
    assert finished
    assert committed == sorted(committed)  # from some request on, and that for good
    assert committed.count(False) >= 4
    assert committed.count(True) >= 3


async def test_the_next_writer_completes_the_version_before_without_having_listed(
    place: Place,
) -> None:
    await place.coordinator().commit(0, body("a"), "a")
    await place.store.put("_delta_log/.tmp/x.json", body("b"))
    await place.claim(1, ".tmp/x.json")
    assert isinstance(await place.coordinator().commit(2, body("c"), "c"), Committed)
    assert await place.store.get(commit_path(1)) == body("b")
    entry = await place.entry(1)
    assert entry is not None
    assert entry["complete"] == "true"


async def test_the_loser_completes_the_winner(place: Place) -> None:
    await place.store.put("_delta_log/.tmp/x.json", body("b"))
    await place.claim(0, ".tmp/x.json")
    assert await place.coordinator().commit(0, body("c"), "c") == Lost(0)
    assert await place.store.get(commit_path(0)) == body("b")


async def test_a_file_that_is_there_is_marked_and_not_put_again(place: Place) -> None:
    """The temporary file may be gone: delta-rs moves it into the log."""
    await place.store.put(commit_path(0), body("a"))
    await place.claim(0, "_commit_1234.json.tmp")
    coordinator = place.coordinator()
    assert await coordinator.recover() == 0
    entry = await place.entry(0)
    assert entry is not None
    assert entry["complete"] == "true"
    assert await place.store.get(commit_path(0)) == body("a")


async def test_an_entry_whose_bytes_are_nowhere_is_an_error_that_names_it(place: Place) -> None:
    await place.claim(0, ".tmp/gone.json")
    with pytest.raises(InvalidTableError, match=r"00000000000000000000\.json is committed.*gone"):
        await place.coordinator().recover()


@pytest.mark.parametrize(
    ("file", "temporary", "says"),
    [
        ("00000000000000000000.json", "../../other/secret", "no files of a log"),
        ("../../other.json", ".tmp/x", "no files of a log"),
        ("00000000000000000000.json", "00000000000000000000.json", "no files of a log"),
        ("00000000000000000000.json", 7, "lacks one of"),
    ],
)
async def test_an_entry_that_no_writer_makes_is_refused(
    place: Place, file: str, temporary: str | int, says: str
) -> None:
    """What is in the lock table leads nowhere outside of the log."""
    entry: Item = {"tablePath": place.uri, "fileName": file, "complete": "false"}
    await place.locks.put_new({**entry, "tempPath": temporary})
    with pytest.raises(InvalidTableError, match=says):
        await place.coordinator().recover()
    assert await place.paths() == []


async def test_an_entry_that_its_writer_takes_away_again_is_no_commit(place: Place) -> None:
    """delta-rs deletes the entry of a commit that it gives up, and the temporary file."""
    await place.claim(0, ".tmp/gone.json")

    class TakenAway(DynamoTable):
        async def get(self, partition: str, sort: str) -> Item | None:
            return None

    locks = TakenAway(
        parse_dynamo_options(place.options, {}), partition="tablePath", sort="fileName"
    )
    assert await place.coordinator(locks=locks).recover() is None
    assert await place.paths() == []
    await locks.aclose()


async def test_a_reader_who_cannot_complete_a_commit_is_told_so(place: Place) -> None:
    """Showing the table without a commit that was made would be wrong."""
    await place.store.put("_delta_log/.tmp/x.json", body("b"))
    await place.claim(0, ".tmp/x.json")

    class ReadOnly(WrappedStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            raise PermissionDeniedError("you may not write here")

    with pytest.raises(PermissionDeniedError, match=r"000\.json is committed.*may not write here"):
        await place.coordinator(ReadOnly(place.store)).recover()


# ------------------------------------------------------------------------------ doubt and damage


class LossyTable(DynamoTable):
    """Loses the first puts, before or after they took effect; perhaps it can't be asked either."""

    def __init__(self, options: dict[str, str], *, lost: str, puts: int = 1, silent: bool = False):
        super().__init__(parse_dynamo_options(options, {}), partition="tablePath", sort="fileName")
        self.lost, self.puts, self.silent, self.tried = lost, puts, silent, 0

    async def put_new(self, item: Item) -> bool:
        self.tried += 1
        if self.tried > self.puts:
            return await super().put_new(item)
        if self.lost == "answer":
            await super().put_new(item)
        raise CommitOutcomeUnknownError("the connection was cut")

    async def get(self, partition: str, sort: str) -> Item | None:
        if self.silent and self.tried:
            raise StorageError("the network is gone")
        return await super().get(partition, sort)


@pytest.mark.parametrize(("lost", "tried"), [("answer", 1), ("request", 2)])
async def test_an_entry_in_doubt_is_looked_up(place: Place, lost: str, tried: int) -> None:
    locks = LossyTable(place.options, lost=lost)
    outcome = await place.coordinator(locks=locks).commit(0, body("a"), "a")
    assert isinstance(outcome, Committed)
    assert locks.tried == tried
    assert await place.paths() == [commit_path(0)]
    await locks.aclose()


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_the_outcome_is_unknown_where_dynamodb_cannot_be_asked(
    place: Place, lost: str
) -> None:
    """The temporary file stays: the entry may need it."""
    locks = LossyTable(place.options, lost=lost, silent=True)
    outcome = await place.coordinator(locks=locks).commit(0, body("a"), "a")
    assert isinstance(outcome, Unknown)
    assert await place.coordinator().recover() == (0 if lost == "answer" else None)
    assert (commit_path(0) in await place.paths()) is (lost == "answer")
    await locks.aclose()


async def test_the_outcome_is_unknown_where_no_put_gets_an_answer(place: Place) -> None:
    locks = LossyTable(place.options, lost="request", puts=100)
    assert isinstance(await place.coordinator(locks=locks).commit(0, body("a"), "a"), Unknown)
    assert 1 < locks.tried < 10
    await locks.aclose()


async def test_the_commit_stands_where_its_file_cannot_be_put(place: Place) -> None:
    """As in the original: the entry is the commit, and the next one to look completes it."""

    class NoCommits(WrappedStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            raise StorageError("the store is down")

    outcome = await place.coordinator(NoCommits(place.store)).commit(0, body("a"), "a")
    assert isinstance(outcome, Committed)
    assert commit_path(0) not in await place.paths()
    assert await place.coordinator().recover() == 0
    assert await place.store.get(commit_path(0)) == body("a")


async def test_a_commit_that_another_puts_in_the_log_meanwhile_is_read(place: Place) -> None:
    """Between the look for the commit by its name and the look for its entry."""

    class Late(WrappedStore):
        async def get(self, path: str) -> bytes:
            try:
                return await super().get(path)
            except ObjectNotFoundError:
                await place.coordinator().recover()
                raise

    await place.coordinator().commit(0, body("a"), "a")
    await place.store.put("_delta_log/.tmp/x.json", body("b"))
    await place.claim(1, ".tmp/x.json")
    store = Late(place.store)
    coordinated = CoordinatedStore(store, place.coordinator(), conditional_put=True)
    assert await coordinated.get(commit_path(1)) == body("b")
    with pytest.raises(ObjectNotFoundError):
        await coordinated.get(commit_path(2))


async def test_a_commit_of_a_writer_without_entries_is_not_passed_over(place: Place) -> None:
    """deltalake since 1.6 ignores the option, and puts its commits into the log directly."""
    await place.store.put(commit_path(0), body("theirs"))
    assert await place.coordinator().commit(0, body("a"), "a") == Lost(0)
    assert await place.entry(0) is None

    class TakenMeanwhile(DynamoTable):
        async def put_new(self, item: Item) -> bool:
            done = await super().put_new(item)
            await place.store.put(commit_path(1), body("theirs"))
            return done

    locks = TakenMeanwhile(
        parse_dynamo_options(place.options, {}), partition="tablePath", sort="fileName"
    )
    assert await place.coordinator(locks=locks).commit(1, body("a"), "a") == Lost(1)
    assert await place.store.get(commit_path(1)) == body("theirs")
    assert isinstance(await place.coordinator().commit(2, body("a"), "a"), Committed)
    await locks.aclose()


async def test_entries_of_a_table_that_is_gone_are_told(place: Place) -> None:
    await place.claim(0, ".tmp/x", complete=True)
    with pytest.raises(InvalidTableError, match="earlier table"):
        await place.coordinator().commit(0, body("a"), "a")
    assert await place.paths() == []


async def test_a_commit_needs_the_one_before_it(place: Place) -> None:
    with pytest.raises(MissingCommitError, match="version 6 is missing"):
        await place.coordinator().commit(7, body("a"), "a")
    await place.store.put(checkpoint_path(6), b"")  # commits up to it have been cleaned up
    assert isinstance(await place.coordinator().commit(7, body("a"), "a"), Committed)
    await place.store.delete([commit_path(7)])
    await place.store.put(checkpoint_path(9), b"")
    assert await place.coordinator().commit(7, body("b"), "b") == Lost(7)


@pytest.mark.parametrize("denied", [6, 7])
async def test_commits_that_the_store_lists_and_denies_are_there(place: Place, denied: int) -> None:
    await place.store.put(commit_path(6), body("a"))
    if denied == 7:  # its entry has expired
        await place.store.put(commit_path(7), body("b"))
    store = DenyingStore(place.store, commit_path(denied), 1)
    outcome = await place.coordinator(store).commit(7, body("c"), "c")
    assert isinstance(outcome, Committed) is (denied == 6)
    assert isinstance(outcome, Lost) is (denied == 7)
    assert await place.store.get(commit_path(7)) == body("c" if denied == 6 else "b")


async def test_without_dynamodb_nothing_is_written_or_read(place: Place) -> None:
    """The lock is never silently replaced by another one."""
    await adelta.write_table(place.uri, ROWS, storage_options=place.options)
    options = {
        **place.options,
        "aws_endpoint_url_dynamodb": "http://127.0.0.1:9",
        "max_retries": "0",
    }
    before = await place.paths()
    with pytest.raises(StorageError, match="DynamoDB"):
        await adelta.write_table(place.uri, ROWS, storage_options=options)
    async with adelta.open_table(place.uri, options) as table:
        with pytest.raises(StorageError, match="DynamoDB"):
            await table.snapshot()
    assert await place.paths() == before


# ----------------------------------------------------------------------------- the table's address


async def test_entries_are_under_the_path_that_has_some(place: Place) -> None:
    """Spark's tables are at ``s3a://`` as often as at ``s3://``; both are the same table."""
    other = place.uri.replace("s3://", "s3a://")
    await adelta.write_table(other, ROWS, storage_options=place.options)
    for version in (1, 2):
        written = await adelta.write_table(place.uri, ROWS, storage_options=place.options)
        assert written.version == version
        assert await place.entry(version) is None
        assert await place.locks.get(other, f"{version:020}.json") is not None


async def test_entries_under_two_paths_are_an_error_for_writers(place: Place) -> None:
    await adelta.write_table(place.uri, ROWS, storage_options=place.options)
    other = place.uri.replace("s3://", "s3a://")
    await place.locks.put_new(
        {"tablePath": other, "fileName": "x", "tempPath": ".tmp/x", "complete": "true"}
    )
    async with adelta.open_table(place.uri, place.options) as table:
        assert (await table.snapshot()).version == 0
        with pytest.raises(InvalidOptionError, match="delta_dynamo_table_path"):
            await adelta.write_table(table, ROWS)
    options = {**place.options, "delta_dynamo_table_path": f"{other}/"}
    assert (await adelta.write_table(place.uri, ROWS, storage_options=options)).version == 1
    assert await place.locks.get(other, f"{1:020}.json") is not None


# ------------------------------------------------------------------------------------ whole tables


@pytest.mark.parametrize("conditional_put", ["etag", "disabled"])
async def test_racing_appends_of_many_handles_all_arrive(
    place: Place, conditional_put: str
) -> None:
    options = {**place.options, "aws_conditional_put": conditional_put}
    made = await adelta.create_table(place.uri, ROWS.schema, storage_options=options)
    await made.aclose()

    async def append(at: int) -> int:
        async with adelta.open_table(place.uri, options) as table:
            made = [
                await adelta.write_table(table, pa.table({"id": [at * 10 + i]})) for i in range(3)
            ]
        return len(made)

    await map_concurrent(append, range(4), limit=4)
    async with adelta.open_table(place.uri, options) as table:
        snapshot = await table.snapshot()
        rows = await snapshot.scan().to_arrow()
    assert snapshot.version == 12
    assert sorted(rows["id"].to_pylist()) == [at * 10 + i for at in range(4) for i in range(3)]
    with pytest.raises(ObjectNotFoundError):
        await place.store.get(commit_path(13))


async def test_a_pickled_handle_keeps_the_coordinator(place: Place) -> None:
    import pickle

    async with adelta.open_table(place.uri, place.options) as table:
        copy = pickle.loads(pickle.dumps(table))
    async with copy:
        await adelta.write_table(copy, ROWS)
    assert await place.entry(0) is not None
