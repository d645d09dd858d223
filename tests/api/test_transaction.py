"""What a transaction promises: all or nothing, once, and in which state which call is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    InvalidOptionError,
    InvalidUseError,
    InvariantViolationError,
    MetadataChangedError,
    SchemaMismatchError,
    TableNotFoundError,
)
from adelta.kernel.log_path import checksum_path, commit_path
from adelta.log.commit_reader import read_commit
from adelta.operations import checkpoint
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.storage.object_store import ObjectStore

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str | None = "x") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


async def new_table(*, partitioned: bool = False, **properties: str) -> MemoryStore:
    store = MemoryStore()
    await TableBuilder.create(
        SCHEMA,
        store=store,
        partition_by=["p"] if partitioned else [],
        properties={key.replace("_", "."): value for key, value in properties.items()},
    )
    return store


def opened(store: ObjectStore) -> Table:
    return Table(store.uri, store=store)


async def ids(store: ObjectStore) -> list[int]:
    snapshot = await opened(store).snapshot()
    return sorted((await snapshot.scan(columns=["id"]).to_arrow()).column("id").to_pylist())


async def data_files(store: ObjectStore) -> list[str]:
    return [meta.path async for page in store.list() for meta in page if ".parquet" in meta.path]


async def commit_info(store: ObjectStore, version: int) -> CommitInfo:
    info = (await read_commit(store, version)).info
    assert info is not None
    return info


# --------------------------------------------------------------------------------- what is written


async def test_an_append_becomes_the_next_version() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        await tx.append(rows(1, 2))
        assert tx.version is None
    assert tx.version == 1
    assert await ids(store) == [1, 2]


async def test_several_appends_become_one_version() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        await tx.append(rows(1))
        await tx.append(rows(2))
    assert tx.version == 1
    assert await ids(store) == [1, 2]
    assert tx.metrics["numFiles"] == 2


async def test_an_append_is_recorded_as_blind_with_everything_spark_wants_to_know() -> None:
    store = await new_table(partitioned=True)
    async with opened(store).transaction(user_metadata="nightly") as tx:
        await tx.append(rows(1, 2))
    info = await commit_info(store, 1)
    assert info.operation == "WRITE"
    assert info.operation_parameters == {"mode": "Append", "partitionBy": '["p"]'}
    assert info.operation_metrics == {k: str(v) for k, v in tx.metrics.items()}
    assert info.operation_metrics["numOutputRows"] == "2"
    assert (info.read_version, info.isolation_level) == (0, "Serializable")
    assert info.is_blind_append is True
    assert info.user_metadata == "nightly"
    assert info.engine_info is not None
    assert info.engine_info.startswith("adelta/")
    assert info.txn_id


async def test_an_overwrite_replaces_every_row() -> None:
    store = await new_table(partitioned=True)
    table = opened(store)
    async with table.transaction() as tx:
        await tx.append(rows(1, p="x"))
        await tx.append(rows(2, p="y"))
    async with table.transaction() as tx:
        await tx.overwrite(rows(3))
    assert await ids(store) == [3]
    assert (tx.metrics["numRemovedFiles"], tx.metrics["numFiles"]) == (2, 1)
    info = await commit_info(store, 2)
    assert info.is_blind_append is False
    assert info.operation_parameters["mode"] == "Overwrite"


async def test_an_overwrite_sees_what_others_committed_before_it() -> None:
    store = await new_table()
    stale = opened(store)
    await stale.snapshot()
    async with opened(store).transaction() as tx:
        await tx.append(rows(1))
    async with stale.transaction() as tx:
        await tx.overwrite(rows(2))
    assert await ids(store) == [2]


async def test_an_empty_block_commits_nothing() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        pass
    assert tx.version is None
    assert not tx.skipped
    assert (await opened(store).snapshot()).version == 0


async def test_an_append_without_rows_is_a_version_without_files() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        await tx.append(rows())
    assert tx.version == 1
    assert await data_files(store) == []


async def test_the_handle_knows_the_new_version_without_reading() -> None:
    inner = await new_table()
    store = CountingStore(inner)
    table = Table(inner.uri, store=store)
    await table.snapshot()
    async with table.transaction() as tx:
        await tx.append(rows(1))
    store.clear()
    async with table.transaction() as tx:
        await tx.append(rows(2))
    assert tx.version == 2
    assert [request.kind for request in store.requests] == ["put", "get", "put", "put"]
    assert store.paths("get") == [commit_path(1)], "whether it is still there, no more"


# ---------------------------------------------------------------------------------- request counts


async def test_an_append_to_an_open_table_is_its_file_its_commit_and_two_small_requests() -> None:
    """One asks for the version that it builds on, and one leaves a checksum."""
    inner = await new_table()
    store = CountingStore(inner)
    table = Table(inner.uri, store=store)
    await table.snapshot()
    store.clear()
    async with table.transaction() as tx:
        await tx.append(rows(1))
    data, base, commit, checksum = store.requests
    assert {data.kind, commit.kind, checksum.kind} == {"put"}
    assert base.kind in ("get", "head")
    assert base.path == commit_path(0)
    assert data.path.endswith(".parquet")
    assert commit.path == commit_path(1)
    assert checksum.path == checksum_path(1)


async def test_a_lost_race_costs_one_read_and_one_more_put_and_no_data_is_written_again() -> None:
    inner = await new_table()
    store = CountingStore(inner)
    table = Table(inner.uri, store=store)
    await table.snapshot()
    async with opened(inner).transaction() as winner:
        await winner.append(rows(1))
    store.clear()
    async with table.transaction() as tx:
        await tx.append(rows(2))
    assert tx.version == 2
    assert [(r.kind, r.path) for r in store.requests[1:]] == [
        ("get", commit_path(0)),  # at once with the next: whether the base is there
        ("put", commit_path(1)),
        ("get", commit_path(0)),  # at once with the next: whether the winner follows the base
        ("get", commit_path(1)),
        ("get", commit_path(1)),
        ("put", commit_path(2)),
        ("put", checksum_path(2)),
    ]


async def test_many_lost_races_are_caught_up_with_by_one_listing() -> None:
    inner = await new_table()
    store = CountingStore(inner)
    table = Table(inner.uri, store=store)
    await table.snapshot()
    other = opened(inner)
    for number in range(7):
        async with other.transaction() as winner:
            await winner.append(rows(number))
    store.clear()
    async with table.transaction() as tx:
        await tx.append(rows(9))
    assert tx.version == 8
    assert store.kinds["list"] == 1
    assert len([p for p in store.paths("put") if p.endswith(".json")]) == 3
    commits = {path for path in store.paths("get") if path != commit_path(0)}
    assert commits == {commit_path(version) for version in range(1, 8)}


# ---------------------------------------------------------------------------------- all or nothing


async def test_an_error_in_the_block_commits_nothing_and_leaves_no_file() -> None:
    store = await new_table()
    tx = opened(store).transaction()

    async def attempt() -> None:
        async with tx:
            await tx.append(rows(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await attempt()
    assert tx.version is None
    assert (await opened(store).snapshot()).version == 0
    assert await data_files(store) == []


async def test_rows_that_do_not_fit_leave_no_file_behind() -> None:
    store = await new_table(partitioned=True)

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        yield rows(1).to_batches()[0]
        yield pa.record_batch({"id": ["text"], "p": ["x"]})

    async def attempt() -> None:
        async with opened(store).transaction() as tx:
            await tx.append(batches())

    with pytest.raises(SchemaMismatchError, match="'id'"):
        await attempt()
    assert await data_files(store) == []
    assert (await opened(store).snapshot()).version == 0


async def test_a_conflict_leaves_no_file_behind() -> None:
    store = await new_table()
    table = opened(store)

    async def attempt() -> None:
        async with table.transaction() as tx:
            await tx.overwrite(rows(1))
            async with opened(store).transaction() as other:
                await other.append(rows(2))

    with pytest.raises(ConcurrentAppendError):
        await attempt()
    assert await ids(store) == [2]
    assert len(await data_files(store)) == 1


async def test_files_that_were_handed_over_stay_when_the_transaction_is_given_up() -> None:
    builder = await TableBuilder.create(SCHEMA)
    store = builder.store
    await store.put("theirs.parquet", b"x")

    async def attempt() -> None:
        async with opened(store).transaction() as tx:
            tx.add_files([builder.add("theirs.parquet")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await attempt()
    assert await data_files(store) == ["theirs.parquet"]


# ------------------------------------------------------------------------------------------- races


async def test_two_interleaved_appends_both_succeed() -> None:
    store = await new_table()
    first, second = opened(store), opened(store)
    async with first.transaction() as outer:
        await outer.append(rows(1))
        async with second.transaction() as inner:
            await inner.append(rows(2))
    assert (inner.version, outer.version) == (1, 2)
    assert await ids(store) == [1, 2]
    assert (await commit_info(store, 2)).read_version == 1


async def test_an_append_succeeds_after_an_overwrite_that_it_has_not_seen() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        await tx.append(rows(1))
        async with opened(store).transaction() as other:
            await other.overwrite(rows(2))
    assert await ids(store) == [1, 2]


async def test_of_two_overwrites_at_once_the_second_fails() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        await tx.append(rows(0))

    async def attempt() -> None:
        async with opened(store).transaction() as slow:
            await slow.overwrite(rows(1))
            async with opened(store).transaction() as fast:
                await fast.overwrite(rows(2))

    with pytest.raises((ConcurrentAppendError, ConcurrentDeleteReadError)):
        await attempt()
    assert await ids(store) == [2]


async def test_write_serializable_lets_an_overwrite_pass_blind_appends() -> None:
    store = await new_table()
    async with opened(store).transaction(isolation="WriteSerializable") as tx:
        await tx.overwrite(rows(1))
        async with opened(store).transaction() as other:
            await other.append(rows(2))
    assert await ids(store) == [1, 2]
    assert (await commit_info(store, 2)).isolation_level == "WriteSerializable"


async def test_a_changed_schema_fails_an_append_that_was_written_for_the_old_one() -> None:
    builder = await TableBuilder.create(SCHEMA)

    async def attempt() -> None:
        async with opened(builder.store).transaction() as tx:
            await tx.append(rows(1))
            current = (await opened(builder.store).snapshot()).metadata
            await builder.commit(
                replace(current, partition_columns=("p",)), operation="REPLACE TABLE"
            )

    with pytest.raises(MetadataChangedError) as caught:
        await attempt()
    assert caught.value.winning_operation == "REPLACE TABLE"


# ------------------------------------------------------------------------------------ exactly once


async def test_a_batch_that_is_written_twice_is_there_once() -> None:
    store = await new_table()
    for attempt in range(2):
        async with opened(store).transaction() as tx:
            tx.set_transaction("stream", 7)
            await tx.append(rows(1))
        assert tx.skipped is (attempt == 1)
    assert tx.version is None
    assert await ids(store) == [1]
    assert len(await data_files(store)) == 1


async def test_a_batch_that_is_known_to_be_there_is_not_even_written_to_files() -> None:
    inner = await new_table()
    async with opened(inner).transaction() as tx:
        tx.set_transaction("stream", 7)
        await tx.append(rows(1))
    store = CountingStore(inner)
    table = Table(inner.uri, store=store)
    async with table.transaction() as tx:
        tx.set_transaction("stream", 6)
        await tx.append(rows(2))
    assert tx.skipped
    assert store.kinds["put"] == 0


async def test_of_two_racing_writers_of_one_batch_one_is_skipped_and_cleans_up() -> None:
    store = await new_table()
    async with opened(store).transaction() as slow:
        slow.set_transaction("stream", 7)
        await slow.append(rows(1))
        async with opened(store).transaction() as fast:
            fast.set_transaction("stream", 7)
            await fast.append(rows(1))
    assert (fast.version, slow.version, slow.skipped) == (1, None, True)
    assert fast.metrics["numFiles"] == 1
    assert not slow.metrics
    assert await ids(store) == [1]
    assert len(await data_files(store)) == 1


async def test_a_racing_overwrite_of_one_batch_is_skipped_rather_than_a_conflict() -> None:
    store = await new_table()
    async with opened(store).transaction() as slow:
        slow.set_transaction("stream", 7)
        await slow.overwrite(rows(1))
        async with opened(store).transaction() as fast:
            fast.set_transaction("stream", 7)
            await fast.overwrite(rows(1))
    assert slow.skipped
    assert await ids(store) == [1]


async def test_batches_of_one_application_that_race_out_of_order_are_a_conflict() -> None:
    store = await new_table()

    async def attempt() -> None:
        async with opened(store).transaction() as late:
            late.set_transaction("stream", 8)
            await late.append(rows(8))
            async with opened(store).transaction() as early:
                early.set_transaction("stream", 7)
                await early.append(rows(7))

    with pytest.raises(ConcurrentTransactionError):
        await attempt()


async def test_a_batch_without_rows_still_moves_its_application() -> None:
    store = await new_table()
    async with opened(store).transaction() as tx:
        tx.set_transaction("stream", 7)
    assert tx.version == 1
    async with opened(store).transaction() as tx:
        tx.set_transaction("stream", 7)
    assert tx.skipped


# ----------------------------------------------------------------------------------- illegal moves


async def test_every_illegal_move_says_why() -> None:
    store = await new_table()
    table = opened(store)
    tx = table.transaction()
    with pytest.raises(InvalidUseError, match="has not begun"):
        await tx.append(rows(1))
    with pytest.raises(InvalidUseError, match="has not begun"):
        _ = tx.read_version
    async with tx:
        tx.set_transaction("app", 1)
        with pytest.raises(InvalidUseError, match="'app' is set by this transaction already"):
            tx.set_transaction("app", 2)
        await tx.append(rows(1))
        with pytest.raises(InvalidUseError, match=r"overwrite\(\) comes first"):
            await tx.overwrite(rows(2))
        with pytest.raises(InvalidUseError, match=r"update_metadata\(\) comes before"):
            tx.update_metadata((await table.snapshot()).metadata)
        with pytest.raises(InvalidUseError, match="is open"):
            await tx.__aenter__()
    with pytest.raises(InvalidUseError, match="has been committed"):
        tx.set_transaction("other", 1)
    with pytest.raises(InvalidUseError, match="has been committed"):
        await tx.append(rows(2))
    failed = table.transaction()

    async def attempt() -> None:
        async with failed:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await attempt()
    with pytest.raises(InvalidUseError, match="was given up"):
        failed.add_files([])
    async with table.transaction() as skipped:
        skipped.set_transaction("app", 1)
    with pytest.raises(InvalidUseError, match="was skipped"):
        skipped.remove_files([])


async def test_an_unknown_isolation_level_is_refused_at_once() -> None:
    with pytest.raises(InvalidOptionError, match="'Serializable' or 'WriteSerializable'"):
        opened(await new_table()).transaction(isolation="ReadCommitted")


async def test_there_is_no_transaction_on_a_table_that_is_not_there() -> None:

    async def attempt() -> None:
        async with opened(MemoryStore()).transaction():
            pass

    with pytest.raises(TableNotFoundError):
        await attempt()


async def test_a_table_that_only_takes_appends_refuses_to_be_overwritten() -> None:
    store = await new_table(delta_appendOnly="true")
    async with opened(store).transaction() as tx:
        await tx.append(rows(1))

    async def attempt() -> None:
        async with opened(store).transaction() as tx:
            await tx.overwrite(rows(2))

    with pytest.raises(InvariantViolationError):
        await attempt()
    assert await ids(store) == [1]


async def test_removing_a_file_takes_its_rows_away() -> None:
    builder = await TableBuilder.create(SCHEMA)
    await builder.append(rows(1))
    kept = await builder.append(rows(2))
    gone = await builder.append(rows(3))
    async with opened(builder.store).transaction("DELETE") as tx:
        tx.remove_files([gone])
    assert await ids(builder.store) == [1, 2]

    async def attempt() -> None:
        async with opened(builder.store).transaction("DELETE") as slow:
            slow.remove_files([kept])
            async with opened(builder.store).transaction("DELETE") as fast:
                fast.remove_files([kept])

    with pytest.raises(ConcurrentDeleteReadError, match="which was read"):
        await attempt()


# ------------------------------------------------------------------------------------- old handles


async def test_an_old_handle_does_not_commit_into_a_past_that_was_cleaned_up() -> None:
    store = await new_table()
    clock = ManualClock()
    old = Table(store.uri, store=store, clock=clock)
    await old.snapshot()
    for number in range(3):
        async with opened(store).transaction() as tx:
            await tx.append(rows(number))
    await checkpoint(opened(store))
    await store.delete([commit_path(version) for version in range(3)])  # as a clean-up does
    clock.advance(seconds=601)
    async with old.transaction() as tx:
        await tx.append(rows(9))
    assert tx.version == 4
    assert await ids(store) == [0, 1, 2, 9]
