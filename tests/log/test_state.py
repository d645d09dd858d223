"""Opening a version, its files, and going on from it: what is read, and what is not read twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidTableError,
    MissingCommitError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, checkpoint_path, commit_path
from adelta.log.checksum_writer import known_checksum
from adelta.log.load import load_state
from adelta.log.refresh import refresh_state
from adelta.storage.memory import MemoryStore
from adelta.table import latest_state
from tests.support.logs import (
    add,
    checkpoint_bytes,
    metadata,
    protocol,
    put_checkpoint,
    put_commit,
    put_hint,
    put_v2_checkpoint,
    remove,
    txn,
)
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.log.state import LogState

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


async def write_commits(store: CountingStore, last: int, first: int = 0) -> None:
    """Version 0 makes the table, every later one adds a file; then the count starts anew."""
    for version in range(first, last + 1):
        lines = [add(f"{version}.parquet")]
        if version == 0:
            lines = [protocol(), metadata(), *lines]
        await put_commit(store, version, *lines)
    store.requests.clear()


def state_lines(last: int) -> list[dict[str, object]]:
    return [protocol(), metadata(), *(add(f"{version}.parquet") for version in range(last + 1))]


async def paths(state: LogState) -> list[str]:
    return sorted(file.path for file in (await state.files()).rows())


async def test_a_young_table_is_opened_by_the_hint_one_listing_and_its_commits(
    store: CountingStore,
) -> None:
    await write_commits(store, 2)
    state = await load_state(store)
    assert state.version == 2
    assert store.kinds == Counter(get=1 + 3, list=1)
    assert await paths(state) == ["0.parquet", "1.parquet", "2.parquet"]
    assert store.count == 5, "the commits were read when the table was opened"


async def test_opening_reads_two_requests_a_checkpoint_part_at_most(store: CountingStore) -> None:
    await write_commits(store, 12)
    lines = state_lines(10)
    await put_checkpoint(store, 10, lines[:4], lines[4:8], lines[8:])
    store.requests.clear()
    state = await load_state(store)
    assert state.version == 12
    assert store.count <= 2 + 2 + 2 * 3
    assert await paths(state) == sorted(f"{version}.parquet" for version in range(13))


async def test_a_large_checkpoint_gives_its_protocol_without_its_files(
    store: CountingStore,
) -> None:
    await write_commits(store, 11)
    many = [add(f"{'x' * 200}{n}.parquet", stats="y" * 300) for n in range(5000)]
    await put_checkpoint(
        store, 10, [protocol(), metadata(), *many], compression="none", use_dictionary=False
    )
    size = (await store.head(checkpoint_path(10))).size
    received = 0
    original = store.inner.get_range

    async def measured(path: str, start: int, end: int) -> bytes:
        nonlocal received
        data = await original(path, start, end)
        received += len(data)
        return data

    store.inner.get_range = measured  # type: ignore[method-assign]
    store.requests.clear()
    state = await load_state(store)
    assert store.count <= 2 + 1 + 2
    assert received < size / 20
    assert (await state.files()).num_files == 5001


async def test_the_listing_starts_at_the_hint_when_the_log_is_long(store: CountingStore) -> None:
    await put_commit(store, 0, protocol(), metadata())
    for version in range(1, 1203):
        await put_commit(store, version, add(f"{version}.parquet"))
    await put_checkpoint(store, 1200, state_lines(1200))
    store.requests.clear()
    state = await load_state(store)
    assert state.version == 1202
    assert store.kinds["list"] == 2, "the first page of all, and the page from the checkpoint on"
    assert (await state.files()).num_files == 1203


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"not json",
        b'{"version":10,"size":1,"checksum":"00000000000000000000000000000000"}',
        b'{"version":7,"size":1}',
        b'{"version":99,"size":1}',
        b'{"version":10,"size":1,"parts":5}',
    ],
)
async def test_a_bad_hint_costs_no_more_than_a_listing(store: CountingStore, hint: bytes) -> None:
    await write_commits(store, 12)
    await put_checkpoint(store, 10, state_lines(10), hint=False)
    await store.put(LAST_CHECKPOINT_PATH, hint)
    state = await load_state(store)
    assert state.version == 12
    assert (await state.files()).num_files == 13


async def test_a_hint_beyond_the_log_is_passed_over_in_a_long_log(store: CountingStore) -> None:
    await put_commit(store, 0, protocol(), metadata())
    for version in range(1, 1102):
        await put_commit(store, version, add(f"{version}.parquet"))
    await put_hint(store, 5000)
    assert (await load_state(store)).version == 1101


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"no parquet at all"])
async def test_a_damaged_checkpoint_is_passed_over_for_an_earlier_one(
    store: CountingStore, damage: bytes
) -> None:
    await write_commits(store, 12)
    await put_checkpoint(store, 5, state_lines(5), hint=False)
    await put_hint(store, 10)
    await store.put(checkpoint_path(10), damage)
    state = await load_state(store)
    assert state.version == 12
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 5
    assert (await state.files()).num_files == 13


async def test_a_damaged_checkpoint_without_another_way_names_the_file(
    store: CountingStore,
) -> None:
    await write_commits(store, 12, first=11)
    await store.put(checkpoint_path(10), b"no parquet at all")
    with pytest.raises(InvalidTableError, match=r"00000000000000000010\.checkpoint\.parquet"):
        await load_state(store)


@pytest.mark.parametrize(("json", "classic"), [(False, False), (True, False), (False, True)])
async def test_v2_checkpoints_are_read_whatever_their_name_and_format(
    store: CountingStore, json: bool, classic: bool
) -> None:
    await put_v2_checkpoint(
        store,
        10,
        [protocol(), metadata(), txn("app", 3)],
        [add("a.parquet"), add("b.parquet")],
        [add("c.parquet"), remove("d.parquet")],
        json=json,
        classic_name=classic,
    )
    await put_commit(store, 11, remove("b.parquet"), add("e%20f.parquet"))
    state = await load_state(store)
    assert await paths(state) == ["a.parquet", "c.parquet", "e%20f.parquet"]
    assert (await state.set_transactions())["app"].version == 3
    gone = await state.tombstones()
    assert sorted(gone.column("path").to_pylist()) == ["b.parquet", "d.parquet"]


async def test_a_v2_checkpoint_with_its_files_inline_is_read(store: CountingStore) -> None:
    await put_v2_checkpoint(store, 10, [protocol(), metadata(), add("a.parquet")])
    assert await paths(await load_state(store)) == ["a.parquet"]


async def test_time_travel_reads_no_newer_commit(store: CountingStore) -> None:
    await write_commits(store, 12)
    await put_checkpoint(store, 10, state_lines(10))
    store.requests.clear()
    state = await load_state(store, version=4)
    assert await paths(state) == sorted(f"{version}.parquet" for version in range(5))
    assert commit_path(5) not in {request.path for request in store.requests}


async def test_a_version_out_of_range_is_refused_by_name(store: CountingStore) -> None:
    await write_commits(store, 2)
    with pytest.raises(VersionNotFoundError, match="latest version is 2"):
        await load_state(store, version=3)


async def test_no_log_is_no_table(store: CountingStore) -> None:
    with pytest.raises(TableNotFoundError, match="memory://"):
        await load_state(store)


async def test_a_refresh_without_news_is_one_request_and_the_same_state(
    store: CountingStore,
) -> None:
    await write_commits(store, 3)
    state = await load_state(store)
    store.requests.clear()
    assert await refresh_state(state) is state
    assert store.count == 1


async def test_a_refresh_reads_the_new_commits_alone(store: CountingStore) -> None:
    await write_commits(store, 12)
    await put_checkpoint(store, 10, state_lines(10))
    state = await load_state(store)
    before = await state.files()
    await write_commits(store, 13, first=13)
    await put_commit(store, 14, remove("3.parquet"), txn("app", 1))
    store.requests.clear()
    later = await refresh_state(state)
    assert later.version == 14
    files = await later.files()
    assert store.kinds == Counter(list=1, get=2)
    assert files.num_files == before.num_files
    assert "3.parquet" not in {file.path for file in files.rows()}
    assert before.num_files == 13, "the earlier state stays as it was"


async def test_a_refreshed_state_equals_one_opened_anew(store: CountingStore) -> None:
    await write_commits(store, 3)
    state = await load_state(store)
    await state.set_transactions()
    await put_commit(store, 4, remove("1.parquet"), txn("app", 1), protocol(1, 4))
    await put_commit(store, 5, add("1.parquet", size=9), metadata(name="new"))
    await put_checkpoint(store, 5, [protocol(1, 4), metadata(name="new")])
    later, anew = await refresh_state(state), await load_state(store, version=5)
    assert later.protocol == anew.protocol
    assert later.metadata == anew.metadata
    assert (await later.set_transactions())["app"].version == 1
    assert later.timestamp_ms == anew.timestamp_ms
    assert {f.path: f.size for f in (await later.files()).rows()}["1.parquet"] == 9


async def test_what_applications_have_done_is_gathered_once_and_carried_on(
    store: CountingStore,
) -> None:
    await put_commit(store, 0, protocol(), metadata(), txn("app", 1))
    state = await load_state(store)
    await put_commit(store, 1, txn("other", 7))
    first = await refresh_state(state)
    found = await first.set_transactions()
    await write_commits(store, 2, first=2)
    second = await refresh_state(first)
    assert await second.set_transactions() is found
    await put_commit(store, 3, txn("app", 2))
    third = await refresh_state(second)
    assert {app: t.version for app, t in (await third.set_transactions()).items()} == {
        "app": 2,
        "other": 7,
    }
    assert {app: t.version for app, t in found.items()} == {"app": 1, "other": 7}


async def test_an_earlier_state_is_made_of_the_commits_at_hand_as_far_as_they_tell(
    tmp_path: Path,
) -> None:
    properties = {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "100"}
    table = await adelta.create_table(tmp_path / "t", SCHEMA, properties=properties)
    states = [await latest_state(table)]
    for version in range(1, 7):
        async with table.transaction() as tx:
            if version == 4:
                tx.update_metadata(replace(tx.metadata, name="new"))
            tx.set_transaction("app", version)
            await tx.append(pa.table({"id": [version]}, SCHEMA))
        states.append(await latest_state(table))
    newest = states[-1]
    for version in (4, 5):
        earlier = newest.at(version)
        loaded = await load_state(newest.store, version=version)
        assert earlier is not None
        assert (earlier.version, earlier.timestamp_ms) == (version, loaded.timestamp_ms)
        assert (earlier.protocol, earlier.metadata) == (loaded.protocol, loaded.metadata)
        assert await paths(earlier) == await paths(loaded)
        assert (await earlier.set_transactions())["app"].version == version
        checksums = [await known_checksum(earlier), await known_checksum(loaded)]
        assert checksums[0] is not None
        assert replace(checksums[0], transaction_id=None) == checksums[1]
        assert await earlier.mark.stands(newest.store)
    assert newest.at(3) is None, "its metadata is another"
    assert states[3].at(0) is None, "it is what the segment was read of"
    assert newest.at(7) is None
    await table.aclose()


async def test_a_gap_that_opens_behind_a_state_is_found(store: CountingStore) -> None:
    await write_commits(store, 3)
    state = await load_state(store)
    await write_commits(store, 6, first=5)
    with pytest.raises(MissingCommitError, match="version 4 is missing"):
        await refresh_state(state)


async def test_a_state_far_behind_takes_a_checkpoint_instead_of_every_commit(
    store: CountingStore,
) -> None:
    await write_commits(store, 1)
    state = await load_state(store)
    for version in range(2, 1102):
        await put_commit(store, version, add(f"{version}.parquet"))
    await put_checkpoint(store, 1100, state_lines(1100))
    store.requests.clear()
    later = await refresh_state(state)
    assert later.version == 1101
    assert store.kinds["get"] <= 4
    assert (await later.files()).num_files == 1102


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
async def test_a_state_without_protocol_or_metadata_is_no_table(
    store: CountingStore, missing: str
) -> None:
    lines = [line for line in (protocol(), metadata()) if missing not in line]
    await put_commit(store, 0, *lines)
    with pytest.raises(InvalidTableError, match=missing):
        await load_state(store)


async def test_a_checkpoint_without_protocol_is_passed_over(store: CountingStore) -> None:
    await write_commits(store, 12)
    await store.put(checkpoint_path(12), checkpoint_bytes([txn("app", 1)]))
    assert (await (await load_state(store)).files()).num_files == 13
