"""A checkpoint that turns out to be damaged after states were made from it.

It is given up for the commits before it, by whichever of these states meets the damage first. Every
other one has to tell all that the log says, too, whatever it had derived before.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from adelta._concurrency import map_concurrent
from adelta.errors import InvalidTableError
from adelta.kernel.log_path import checkpoint_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.checksum_writer import known_checksum, write_checksum
from adelta.log.commit_reader import read_commit
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from tests.support.logs import add, metadata, protocol, put_checkpoint, put_commit, remove, txn
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.log.state import LogState

AT = 10  # the version of the checkpoint
REMOVED, KEPT = "removed.parquet", [f"{n}.parquet" for n in range(AT)]


def domain(configuration: str) -> dict[str, Any]:
    body = {"domain": "own", "configuration": configuration, "removed": False}
    return {"domainMetadata": body}


async def log_with_checkpoint(store: MemoryStore | CountingStore) -> None:
    """Each commit adds a file; one file has been removed, and one application has committed."""
    await put_commit(store, 0, protocol(), metadata(), add(KEPT[0]))
    for version in range(1, AT):
        await put_commit(store, version, add(KEPT[version]))
    await put_commit(store, AT, remove(REMOVED), txn("app", 7), domain("old"))
    lines = [protocol(), metadata(), *map(add, KEPT), remove(REMOVED), txn("app", 7), domain("old")]
    await put_checkpoint(store, AT, lines)


async def damage(store: MemoryStore, column: str, version: int = AT) -> None:
    """Overwrite what the checkpoint has of a column."""
    data = bytearray(await store.get(checkpoint_path(version)))
    footer = pq.read_metadata(io.BytesIO(data))
    found = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for leaf in map(group.column, range(group.num_columns)):
            if leaf.path_in_schema == column:
                start = leaf.dictionary_page_offset or leaf.data_page_offset
                end = start + leaf.total_compressed_size
                data[start:end] = b"\xff" * (end - start)
                found += 1
    assert found
    await store.put(checkpoint_path(version), bytes(data))


async def two_versions(store: MemoryStore) -> tuple[LogState, LogState]:
    """A state that was made from the checkpoint, and one that follows it and shares it."""
    await put_commit(store, AT + 1, add("late.parquet"))
    older = await load_state(store)
    await put_commit(store, AT + 2, add("later.parquet"), txn("other", 1))
    newer = older.advance([await read_commit(store, AT + 2)])
    return older, newer


async def paths(state: LogState) -> list[str]:
    return sorted((await state.files()).table.column("path").to_pylist())


OLDER = sorted([*KEPT, "late.parquet"])
NEWER = sorted([*KEPT, "late.parquet", "later.parquet"])


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await log_with_checkpoint(store)
    return store


async def derive_by_path(state: LogState) -> None:
    """Derive what does not touch the damaged column."""
    batches = [batch async for batch in state.file_batches(columns=["path"])]
    assert sum(batch.num_rows for batch in batches) in (len(OLDER), len(NEWER))


@pytest.mark.parametrize("first", ["older", "newer"])
async def test_no_file_is_hidden_from_the_states_that_share_a_given_up_checkpoint(
    store: MemoryStore, first: str
) -> None:
    await damage(store, "add.stats")
    older, newer = await two_versions(store)
    await derive_by_path(older)
    await derive_by_path(newer)
    states = (older, newer) if first == "older" else (newer, older)
    for state in states:
        assert await paths(state) == (OLDER if state is older else NEWER)
    assert older.segment.checkpoint is None
    await derive_by_path(older)
    await derive_by_path(newer)


async def test_a_state_made_later_from_one_that_knew_the_damaged_checkpoint_hides_none(
    store: MemoryStore,
) -> None:
    await damage(store, "add.stats")
    older, newer = await two_versions(store)
    await derive_by_path(newer)
    await older.files()
    await put_commit(store, AT + 3, remove(KEPT[3]))
    latest = newer.advance([await read_commit(store, AT + 3)])
    assert await paths(latest) == [path for path in NEWER if path != KEPT[3]]


async def test_files_read_from_a_checkpoint_before_it_was_given_up_are_not_carried_on(
    store: MemoryStore,
) -> None:
    await damage(store, "remove.deletionTimestamp")
    older, _ = await two_versions(store)
    assert await paths(older) == OLDER
    assert older.files_loaded
    later = older.advance([await read_commit(store, AT + 2)])
    assert later.files_loaded
    await older.tombstones()
    assert older.segment.checkpoint is None
    assert not older.files_loaded
    assert not later.files_loaded
    assert (await paths(older), await paths(later)) == (OLDER, NEWER)


async def transactions_of(state: LogState) -> object:
    return {app: one.version for app, one in (await state.set_transactions()).items()}


async def domains_of(state: LogState) -> object:
    return {name: one.configuration for name, one in (await state.domain_metadata()).items()}


async def tombstones_of(state: LogState) -> object:
    return (await state.tombstones()).column("path").to_pylist()


@pytest.mark.parametrize(
    ("column", "read", "expected"),
    [
        ("txn.version", transactions_of, {"app": 7, "other": 1}),
        ("domainMetadata.configuration", domains_of, {"own": "old"}),
        ("remove.deletionTimestamp", tombstones_of, [REMOVED]),
    ],
)
async def test_whatever_is_read_of_a_damaged_checkpoint_is_read_of_the_commits_instead(
    store: MemoryStore, column: str, read: Callable[[LogState], Awaitable[object]], expected: object
) -> None:
    await damage(store, column)
    older, newer = await two_versions(store)
    await derive_by_path(newer)
    assert await read(newer) == expected
    assert older.segment.checkpoint is None
    assert (await paths(newer), await paths(older)) == (NEWER, OLDER)


async def test_transactions_known_of_a_damaged_checkpoint_are_read_anew(store: MemoryStore) -> None:
    """A damaged checkpoint may say something wrong before it is found out."""
    lines = [protocol(), metadata(), *map(add, KEPT), txn("app", 3), domain("wrong")]
    await put_checkpoint(store, AT, lines)
    await damage(store, "add.stats")
    older, newer = await two_versions(store)
    assert await transactions_of(newer) == {"app": 3, "other": 1}
    assert await domains_of(newer) == {"own": "wrong"}
    await older.files()
    assert await transactions_of(newer) == {"app": 7, "other": 1}
    assert await domains_of(newer) == {"own": "old"}


async def test_of_tasks_that_meet_the_damage_together_one_gives_the_checkpoint_up() -> None:
    inner = MemoryStore()
    await log_with_checkpoint(inner)
    await put_checkpoint(inner, 5, [protocol(), metadata(), *map(add, KEPT[:6])])
    await damage(inner, "add.stats")
    store = CountingStore(inner)
    older, newer = await two_versions(store)  # type: ignore[arg-type]  # it is as good a store
    store.clear()
    found = await map_concurrent(paths, [older, newer, older, newer], limit=4)
    assert found == [OLDER, NEWER, OLDER, NEWER]
    assert older.segment.checkpoint is not None
    assert older.segment.checkpoint.version == 5, "the good one is not given up, too"
    assert store.kinds["list"] == 1


async def test_a_reader_in_the_middle_of_a_checkpoint_keeps_to_it() -> None:
    """What it has begun with is whole; what others read meanwhile comes from elsewhere."""
    store = MemoryStore()
    await log_with_checkpoint(store)
    lines = [protocol(), metadata(), *map(add, KEPT), remove(REMOVED), txn("app", 7)]
    await put_checkpoint(store, AT, lines, row_group_size=4)
    await damage(store, "add.stats")
    older, newer = await two_versions(store)
    read: list[Any] = []
    async for batch in newer.file_batches(columns=["path"]):
        if not read:
            await older.files()
        read += batch.column("path").to_pylist()
    assert sorted(read) == NEWER


async def test_a_checkpoint_written_after_another_was_given_up_lacks_no_file(
    store: MemoryStore,
) -> None:
    await damage(store, "add.stats")
    older, newer = await two_versions(store)
    await derive_by_path(newer)
    await older.files()
    await write_checkpoint(newer)
    assert await paths(await load_state(store)) == NEWER


async def test_a_checksum_counted_after_a_checkpoint_was_given_up_counts_every_file(
    store: MemoryStore,
) -> None:
    await damage(store, "add.stats")
    older, newer = await two_versions(store)
    await derive_by_path(newer)
    await older.files()
    await newer.files()
    counted = await known_checksum(newer)
    assert counted is not None
    assert counted.num_files == len(NEWER)


async def test_what_was_counted_of_a_checkpoint_is_forgotten_with_it(store: MemoryStore) -> None:
    await put_checkpoint(store, AT, [protocol(), metadata(), *map(add, KEPT[1:]), remove(REMOVED)])
    await damage(store, "remove.deletionTimestamp")
    older, _ = await two_versions(store)
    await older.files()  # of the checkpoint, which lacks one
    counted = await known_checksum(older)
    assert counted is not None
    assert counted.num_files == len(OLDER) - 1
    await older.tombstones()
    later = older.advance([await read_commit(store, AT + 2)])
    assert older.checksum.counted is None
    assert later.checksum.counted is None
    assert await paths(later) == NEWER
    recounted = await known_checksum(later)
    assert recounted is not None
    assert recounted.num_files == len(NEWER)


async def test_a_state_opened_by_a_checksum_survives_the_damage_of_its_checkpoint(
    store: MemoryStore,
) -> None:
    older, _ = await two_versions(store)
    await older.files()
    state = await load_state(store, version=AT + 1)
    await state.files()
    assert await write_checksum(state)
    await damage(store, "add.stats")
    by_checksum = await load_state(store, version=AT + 1)
    assert by_checksum.held is None, "opened by the checksum alone"
    later = by_checksum.advance([await read_commit(store, AT + 2)])
    assert (await paths(later), await paths(by_checksum)) == (NEWER, OLDER)
    counted = await known_checksum(later)
    assert counted is not None
    assert counted.num_files == len(NEWER)


async def test_a_damaged_checkpoint_with_another_schema_than_the_log_is_named(
    store: MemoryStore,
) -> None:
    other = metadata(schemaString='{"type":"struct","fields":[]}')
    await put_checkpoint(store, AT, [protocol(), other, *map(add, KEPT)])
    await damage(store, "add.stats")
    state = await load_state(store)
    for _ in range(2):
        with pytest.raises(InvalidTableError, match=f"{checkpoint_path(AT)} is damaged, and"):
            await state.files()


async def test_without_an_earlier_start_the_damage_is_an_error_every_time() -> None:
    store = MemoryStore()
    await put_checkpoint(store, AT, [protocol(), metadata(), *map(add, KEPT)])
    await damage(store, "add.stats")
    state = await load_state(store)
    for _ in range(2):
        with pytest.raises(InvalidTableError, match=checkpoint_path(AT)):
            await state.files()
    await state.set_transactions()


async def test_a_state_is_a_value(store: MemoryStore) -> None:
    state = await load_state(store)
    with pytest.raises(AttributeError):
        state.version = 3  # type: ignore[misc]  # which is what is tried
