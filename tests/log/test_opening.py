"""Opening a version: by checksum or compaction, ahead of the listing, backwards; refreshing it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import orjson
import pytest

from adelta.errors import (
    ChecksumMismatchError,
    InvalidTableError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.checksum.json import encode
from adelta.kernel.checksum.summary import summarize
from adelta.kernel.last_checkpoint import LastCheckpoint
from adelta.kernel.last_checkpoint import encode as encode_hint
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    checkpoint_path,
    checksum_path,
    commit_path,
    compaction_path,
)
from adelta.log import refresh as refresh_module
from adelta.log.checksum_io import verify_checksum
from adelta.log.latest import LatestState
from adelta.log.listing import list_log
from adelta.log.load import load_state
from adelta.log.refresh import refresh_state
from adelta.storage.memory import MemoryStore
from tests.support.clock import ManualClock
from tests.support.logs import (
    Line,
    add,
    metadata,
    protocol,
    put_checkpoint,
    put_commit,
    put_hint,
    remove,
    txn,
)
from tests.support.stores import CountingStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.log.state import LogState

R = TypeVar("R")
ICT = {"delta.enableInCommitTimestamps": "true"}


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore(clock=ManualClock(1_000)))


async def history(store: CountingStore, last: int, *, checkpoint: int | None = None) -> None:
    """Version 0 makes the table, every one adds a file."""
    for version in range(last + 1):
        head = [protocol(), metadata()] if version == 0 else []
        await put_commit(store, version, *head, add(f"{version}.parquet"))
    if checkpoint is not None:
        await put_checkpoint(store, checkpoint, table(checkpoint))
    store.clear()


def table(last: int) -> list[Line]:
    return [protocol(), metadata(), *(add(f"{version}.parquet") for version in range(last + 1))]


async def put_checksum(store: CountingStore, version: int, **more: Any) -> None:
    """What is true of `history`, and `more`."""
    files = ADD_SCHEMA.empty_table()
    body = orjson.loads(
        encode(
            summarize(
                files,
                Protocol.from_json(protocol()["protocol"]),
                Metadata.from_json(metadata()["metaData"]),
            )
        )
    )
    del body["allFiles"]
    body |= {"numFiles": version + 1, "tableSizeBytes": version + 1}
    body["deletedRecordCountsHistogramOpt"]["deletedRecordCounts"][0] = version + 1
    await store.put(checksum_path(version), orjson.dumps(body | more))
    store.clear()


async def paths(state: LogState) -> set[str]:
    return {file.path.removesuffix(".parquet") for file in (await state.files()).rows()}


def everything(last: int) -> set[str]:
    return set(map(str, range(last + 1)))


# ---------------------------------------------------------------------------------- checksums


async def test_a_checksum_opens_a_version_without_checkpoint_and_commits(
    store: CountingStore,
) -> None:
    await history(store, 12, checkpoint=10)
    await put_checksum(store, 12)
    state = await load_state(store)
    assert state.version == 12
    assert store.kinds == Counter(list=1, get=3), "the hint; the checksum, and whose commit it is"
    assert state.timestamp_ms == 1_000
    assert await paths(state) == everything(12)


async def test_a_checksum_that_a_table_of_before_has_left_is_not_used(store: CountingStore) -> None:
    await history(store, 11, checkpoint=10)
    await put_commit(store, 12, {"commitInfo": {"txnId": "new"}}, add("12.parquet"))
    other = metadata(configuration={"owner": "another"})["metaData"]
    await put_checksum(store, 12, metadata=other, txnId="old")
    assert "owner" not in (await load_state(store)).metadata.configuration
    await store.delete([checksum_path(12)])
    await put_checksum(store, 12, metadata=other, txnId="new")
    assert "owner" in (await load_state(store)).metadata.configuration


async def test_a_checksum_of_another_version_is_not_used(store: CountingStore) -> None:
    await history(store, 12, checkpoint=10)
    await put_checksum(store, 11)
    await load_state(store)
    assert checksum_path(11) not in store.paths("get")


async def test_few_commits_are_read_rather_than_their_checksum(store: CountingStore) -> None:
    await history(store, 3)
    await put_checksum(store, 3)
    await load_state(store)
    assert checksum_path(3) not in store.paths("get")


async def test_a_checksum_gives_the_in_commit_timestamp(store: CountingStore) -> None:
    await history(store, 12, checkpoint=10)
    body = metadata(configuration=ICT)["metaData"]
    await put_checksum(store, 12, metadata=body, inCommitTimestampOpt=77)
    state = await load_state(store)
    assert state.timestamp_ms == 77


async def test_without_it_the_commit_tells_its_time(store: CountingStore) -> None:
    await history(store, 11, checkpoint=10)
    info = {"commitInfo": {"inCommitTimestamp": 78, "timestamp": 1}}
    await put_commit(store, 12, info, metadata(configuration=ICT), add("12.parquet"))
    await put_checksum(store, 12, metadata=metadata(configuration=ICT)["metaData"])
    assert (await load_state(store)).timestamp_ms == 78


@pytest.mark.parametrize("damage", [b"", b"{}", b"no json", b'{"numFiles": 3}'])
async def test_a_damaged_checksum_is_as_good_as_none(store: CountingStore, damage: bytes) -> None:
    await history(store, 12, checkpoint=10)
    await store.put(checksum_path(12), damage)
    state = await load_state(store)
    assert state.version == 12
    assert await paths(state) == everything(12)
    if damage:
        with pytest.raises(InvalidTableError, match=r"00012\.crc"):
            await verify_checksum(state)


async def test_a_checksum_with_another_schema_than_the_log_is_found_when_files_are_read(
    store: CountingStore,
) -> None:
    await history(store, 12, checkpoint=10)
    await put_checksum(store, 12, metadata=metadata(partitionColumns=["id"])["metaData"])
    with pytest.raises(ChecksumMismatchError, match=r"00012\.crc"):
        await (await load_state(store)).files()


async def test_states_after_one_that_a_checksum_opened_read_the_log_once(
    store: CountingStore,
) -> None:
    await history(store, 12, checkpoint=10)
    await put_checksum(store, 12)
    first = await load_state(store)
    await put_commit(store, 13, remove("3.parquet"), txn("app", 4))
    later = await refresh_state(first)
    assert await paths(later) == everything(12) - {"3"}
    assert (await later.set_transactions())["app"].version == 4
    store.clear()
    assert await paths(first) == everything(12)
    assert not set(store.paths("get")) & {commit_path(11), commit_path(12)}


async def test_a_damaged_checkpoint_behind_a_checksum_is_passed_over(store: CountingStore) -> None:
    await history(store, 12, checkpoint=10)
    await put_checksum(store, 12)
    await store.put(checkpoint_path(10), b"no parquet")
    assert await paths(await load_state(store)) == everything(12)


@pytest.mark.parametrize("checkpoint", [None, 3])
async def test_a_log_that_is_cleaned_up_behind_a_checksum_is_read_from_what_is_left(
    store: CountingStore, checkpoint: int | None
) -> None:
    await history(store, 12, checkpoint=checkpoint)
    await put_checksum(store, 12)
    state = await load_state(store)
    await store.delete([file.path for file in await list_log(store) if file.version < 12])
    await put_checkpoint(store, 12, table(12))
    assert await paths(state) == everything(12)


async def test_a_version_is_held_to_its_checksum(store: CountingStore) -> None:
    await history(store, 12, checkpoint=10)
    assert await verify_checksum(await load_state(store)) is False
    await put_checksum(store, 12)
    assert await verify_checksum(await load_state(store)) is True


async def test_an_old_writers_checksum_is_held_to_what_it_states(store: CountingStore) -> None:
    """It states neither protocol nor metadata, so that no table is opened by it."""
    await history(store, 12, checkpoint=10)
    files = (await (await load_state(store)).files()).table
    size = sum(files.column("size").to_pylist())
    stated = {"numFiles": 13, "tableSizeBytes": size, "numMetadata": 1, "numProtocol": 1}
    await store.put(checksum_path(12), orjson.dumps(stated))
    assert await verify_checksum(await load_state(store)) is True
    await store.put(checksum_path(12), orjson.dumps(stated | {"numFiles": 12}))
    with pytest.raises(ChecksumMismatchError, match="the number of files: 12 is stated, 13 found"):
        await verify_checksum(await load_state(store))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"numFiles": 9}, "the number of files: 9 is stated, 13 found"),
        ({"tableSizeBytes": 1}, "the bytes in the files"),
        ({"metadata": metadata(name="else")["metaData"]}, "the metadata"),
        ({"setTransactions": [{"appId": "a", "version": 1}]}, "the application transactions"),
        ({"numDeletionVectorsOpt": 2}, "the number of deletion vectors: 2 is stated, 0 found"),
    ],
)
async def test_where_a_checksum_is_wrong_is_said(
    store: CountingStore, wrong: dict[str, Any], told: str
) -> None:
    await history(store, 12, checkpoint=10)
    await put_checksum(store, 12, **wrong)
    with pytest.raises(ChecksumMismatchError, match=told):
        await verify_checksum(await load_state(store))


# -------------------------------------------------------------------------------- compactions


async def put_compaction(store: CountingStore, first: int, last: int, *lines: Line) -> None:
    content = b"\n".join(map(orjson.dumps, lines))
    await store.put(compaction_path(first, last), content)
    store.clear()


async def test_a_compaction_is_read_instead_of_its_commits(store: CountingStore) -> None:
    await history(store, 9, checkpoint=3)
    lines = [add(f"{v}.parquet") for v in (5, 6, 7)]
    await put_compaction(store, 5, 8, remove("1.parquet"), *lines, remove("8.parquet"))
    state = await load_state(store)
    asked = store.paths("get")
    assert compaction_path(5, 8) in asked
    assert not {commit_path(v) for v in range(5, 9)} & set(asked)
    assert await paths(state) == everything(9) - {"1", "8"}


async def test_a_compaction_tells_removed_domains_and_transactions(store: CountingStore) -> None:
    def domain(name: str, *, removed: bool = False) -> Line:
        return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": removed}}

    await history(store, 6)
    await put_checkpoint(store, 3, [*table(3), domain("old"), domain("kept"), txn("app", 1)])
    await put_compaction(store, 4, 6, domain("old", removed=True), txn("app", 2))
    state = await load_state(store)
    assert set(await state.domain_metadata()) == {"kept"}
    assert (await state.set_transactions())["app"].version == 2


async def test_a_compaction_that_is_longer_than_the_version_asked_for_is_not_read(
    store: CountingStore,
) -> None:
    await history(store, 9)
    await put_compaction(store, 2, 8, add("wrong.parquet"))
    assert await paths(await load_state(store, version=7)) == everything(7)


@pytest.mark.parametrize(
    "content", [b"", b"{", orjson.dumps(add("x")) + b"\n" + orjson.dumps(remove("x"))]
)
async def test_a_compaction_that_is_damaged_or_none_costs_a_read(
    store: CountingStore, content: bytes
) -> None:
    await history(store, 9)
    await store.put(compaction_path(2, 8), content)
    assert await paths(await load_state(store)) == everything(9)


async def test_a_commit_that_is_missing_is_missing_under_a_compaction_too(
    store: CountingStore,
) -> None:
    await history(store, 9)
    await put_compaction(store, 2, 8, add("x"))
    await store.delete([commit_path(5)])
    with pytest.raises(InvalidTableError, match="version 5 is missing"):
        await load_state(store)


async def test_the_time_of_a_compacted_version_is_read_from_its_commit(
    store: CountingStore,
) -> None:
    await put_commit(store, 0, protocol(), metadata(configuration=ICT))
    for version in (1, 2):
        info = {"commitInfo": {"inCommitTimestamp": 70 + version}}
        await put_commit(store, version, info, add(f"{version}.parquet"))
    await put_compaction(store, 1, 2, add("1.parquet"), add("2.parquet"))
    assert (await load_state(store)).timestamp_ms == 72


# ------------------------------------------------------------------------------------- hints


class Rounds(CountingStore):
    """Counts the round trips: requests that were made before any of them was answered are one.

    None is answered before a quarter of a second has passed without another one.
    """

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.rounds = 0
        self.latest = 0.0
        self.answered: anyio.Event | None = None

    async def request(self, request: Any, run: Any) -> Any:
        self.latest = anyio.current_time()
        if self.answered is not None:
            await self.answered.wait()
            return await super().request(request, run)
        self.rounds += 1
        answered = self.answered = anyio.Event()
        try:
            while (left := self.latest + 0.25 - anyio.current_time()) > 0:  # noqa: ASYNC110
                await anyio.sleep(left)
        finally:
            self.answered = None
            answered.set()
        return await super().request(request, run)


async def long_log(store: CountingStore, **hint: Any) -> None:
    await put_commit(store, 0, protocol(), metadata())
    for version in range(1, 1103):
        await put_commit(store, version, add(f"{version}.parquet"))
    large = {"compression": "none", "use_dictionary": False}  # its head is not near its footer
    lines = [protocol(), metadata(), *(add(f"{v}.parquet", stats="x" * 300) for v in range(1101))]
    await put_checkpoint(store, 1100, lines, hint=False, row_group_size=500, **large)
    size = (await store.head(checkpoint_path(1100))).size
    found = LastCheckpoint(1100, 1103, size_in_bytes=size, **hint)
    await store.put(LAST_CHECKPOINT_PATH, encode_hint(found))
    store.clear()


async def test_a_long_log_with_a_hint_is_opened_in_three_round_trips() -> None:
    inner = MemoryStore()
    await long_log(CountingStore(inner))
    store = Rounds(inner)
    state = await load_state(store)
    assert state.version == 1102
    assert store.rounds <= 3
    assert store.count <= 2 + 2 + 2 + 2


async def test_a_young_log_is_opened_in_two_round_trips() -> None:
    inner = MemoryStore()
    await history(CountingStore(inner), 4)
    store = Rounds(inner)
    await load_state(store)
    assert store.rounds == 2


@pytest.mark.parametrize(
    "hint",
    [
        {"parts": 3},
        {"v2_path": "00000000000000001100.checkpoint.not-there.parquet"},
        {"v2_path": "../../elsewhere/secret.parquet"},
        {"v2_path": "00000000000000001100.json"},
        {"parts": 10_000_000_000},
    ],
)
async def test_a_hint_that_names_what_is_not_there_costs_no_more_than_looking(
    store: CountingStore, hint: dict[str, Any]
) -> None:
    await long_log(store, **hint)
    state = await load_state(store)
    assert state.version == 1102
    assert (await state.files()).num_files == 1103
    assert all(path.startswith("_delta_log/0") for path in store.paths("get")[1:])
    assert store.count < 80


async def test_a_checkpoint_that_changed_since_its_hint_is_read_as_it_is(
    store: CountingStore,
) -> None:
    await long_log(store)
    await store.put(
        LAST_CHECKPOINT_PATH, encode_hint(LastCheckpoint(1100, 1, size_in_bytes=100_000_000))
    )
    assert (await (await load_state(store)).files()).num_files == 1103


# ------------------------------------------------------------------------------- time travel


async def test_an_old_version_is_found_without_listing_the_whole_log(store: CountingStore) -> None:
    await long_log(store)
    await put_checkpoint(store, 500, table(500), hint=False)
    store.clear()
    state = await load_state(store, version=520)
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 500
    assert store.kinds["list"] == 1
    assert LAST_CHECKPOINT_PATH not in store.paths("get")
    assert (await state.files()).num_files == 521


async def test_the_search_goes_back_until_it_finds_a_checkpoint(store: CountingStore) -> None:
    await long_log(store)
    await put_checkpoint(store, 10, table(10), hint=False)
    state = await load_state(store, version=700)
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 10


async def test_a_damaged_checkpoint_on_the_way_back_is_passed_over(store: CountingStore) -> None:
    await long_log(store)
    await put_checkpoint(store, 500, table(500), hint=False)
    await put_checkpoint(store, 300, table(300), hint=False)
    await store.put(checkpoint_path(500), b"no parquet at all")
    state = await load_state(store, version=520)
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 300


@pytest.mark.parametrize(
    ("version", "told"),
    [(1103, "latest version is 1102"), (99_999, "latest version is 1102")],
)
async def test_a_version_that_does_not_exist_names_the_latest(
    store: CountingStore, version: int, told: str
) -> None:
    await long_log(store)
    with pytest.raises(VersionNotFoundError, match=told):
        await load_state(store, version=version)


async def test_a_version_that_was_cleaned_up_names_what_can_be_read(store: CountingStore) -> None:
    await history(store, 30, checkpoint=20)
    await store.delete([commit_path(v) for v in range(20)])
    for version in (0, 5, 19):
        with pytest.raises(VersionNotFoundError, match="versions 20 to 30 can be read"):
            await load_state(store, version=version)
    assert await paths(await load_state(store, version=20)) == everything(20)


class _CleanedUp(WrappedStore):
    """As soon as a commit or a checkpoint is read, there is a later one, and nothing before it."""

    def __init__(self, inner: MemoryStore, times: int) -> None:
        super().__init__(inner)
        self.times = times

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if self.times and re.search(r"/0\d+\.(json|checkpoint)", request.path):
            self.times -= 1
            store = CountingStore(self.inner)
            last = max(file.version for file in await list_log(store))
            await put_commit(store, last + 1, add(f"{last + 1}.parquet"))
            await put_checkpoint(store, last + 1, table(last + 1))
            old = [file.path for file in await list_log(store) if file.version <= last]
            await store.delete(old)
        return await run()


@pytest.mark.parametrize("checkpoint", [None, 6, 9])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_log_that_is_cleaned_up_while_it_is_opened_is_listed_again(
    store: CountingStore, checkpoint: int | None, times: int
) -> None:
    await history(store, 9, checkpoint=checkpoint)
    state = await load_state(_CleanedUp(store.inner, times))
    assert await paths(state) == everything(state.version)
    assert state.version >= 10


async def test_an_old_version_that_is_cleaned_up_while_it_is_opened_is_no_longer_kept(
    store: CountingStore,
) -> None:
    await history(store, 9, checkpoint=6)
    with pytest.raises(VersionNotFoundError, match="versions 10 to 10 can be read"):
        await load_state(_CleanedUp(store.inner, 1), version=8)


async def test_a_version_of_no_table_is_no_table(store: CountingStore) -> None:
    with pytest.raises(TableNotFoundError):
        await load_state(store, version=3)


# --------------------------------------------------------------------------------- refreshing


async def test_a_recent_state_asks_for_the_next_commits_by_name(store: CountingStore) -> None:
    await history(store, 12, checkpoint=10)
    state = await load_state(store)
    store.clear()
    assert await refresh_state(state, recent=True) is state
    assert store.kinds == Counter(get=1, head=1)
    await put_commit(store, 13, add("13.parquet"))
    store.clear()
    later = await refresh_state(state, recent=True)
    assert (later.version, later.timestamp_ms) == (13, 1_000)
    assert store.kinds == Counter(get=2, head=1)
    assert await paths(later) == everything(13)


async def test_a_refresh_by_name_is_one_round_trip_where_nothing_is_new() -> None:
    inner = MemoryStore()
    await history(CountingStore(inner), 4)
    state = await load_state(inner)
    for news in range(2):
        if news:
            await put_commit(inner, 5, add("5.parquet"))
        store = Rounds(inner)
        later = await refresh_state(replace(state, store=store), recent=True)
        assert later.version == 4 + news
        assert (store.rounds, store.count) == ((2, 3) if news else (1, 2))


async def test_a_recent_state_that_is_far_behind_lists_what_follows(store: CountingStore) -> None:
    await history(store, 2)
    state = await load_state(store)
    for version in range(3, 9):
        await put_commit(store, version, add(f"{version}.parquet"))
    store.clear()
    later = await refresh_state(state, recent=True)
    assert later.version == 8
    assert store.kinds == Counter(get=2 + 4, head=1, list=1)
    assert await paths(later) == everything(8)


async def test_a_handle_left_alone_lists_again_because_the_log_may_have_been_cleaned_up() -> None:
    clock = ManualClock(1_000)
    store = CountingStore(MemoryStore(clock=clock))
    await history(store, 5)
    latest = LatestState(store, clock)
    assert (await latest.latest_state()).version == 5
    for version in range(6, 21):
        await put_commit(store, version, add(f"{version}.parquet"))
    await put_checkpoint(store, 20, table(20))
    await store.delete([commit_path(v) for v in range(20)])
    clock.advance(days=1)
    assert (await latest.latest_state()).version == 20


async def test_a_tail_that_has_grown_long_is_left_for_a_checkpoint(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_module, "_MAX_TAIL", 20)
    await history(store, 0)
    state = await load_state(store)
    for version in range(1, 25):
        await put_commit(store, version, add(f"{version}.parquet"))
        state = await refresh_state(state, recent=True)
    assert (state.version, state.tail_length) == (24, 25)
    await put_checkpoint(store, 24, table(24))
    state = await refresh_state(state, recent=True)
    assert (state.version, state.tail_length) == (24, 0)
    assert await paths(state) == everything(24)


async def test_a_hint_to_the_latest_version_needs_no_commit(store: CountingStore) -> None:
    await history(store, 12, checkpoint=12)
    await put_hint(store, 12)
    store.clear()
    state = await load_state(store)
    assert commit_path(12) not in store.paths("get")
    assert await paths(state) == everything(12)
