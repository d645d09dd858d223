"""Consumer: batches from a position that is kept, without a gap or an overlap."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta import Consumer, Position
from adelta.consumers.positions import PositionStore, StoredPosition
from adelta.errors import (
    ChangesNotAvailableError,
    ConsumerTakenOverError,
    InvalidOptionError,
    InvalidUseError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table

if TYPE_CHECKING:
    from pathlib import Path

FED = {"delta.enableChangeDataFeed": "true"}


class Kept(PositionStore):
    """A place of the user's choice."""

    def __init__(self) -> None:
        self.saved: list[StoredPosition] = []

    async def load(self, name: str) -> StoredPosition | None:
        return self.saved[-1] if self.saved else None

    async def save(self, name: str, stored: StoredPosition) -> None:
        self.saved.append(stored)

    async def aclose(self) -> None:
        pass


def memory() -> Table:
    store = MemoryStore()
    return Table(store.uri, store=store)


@pytest.fixture
def table() -> Table:
    return memory()


@pytest.fixture
def kept() -> Kept:
    return Kept()


async def put(table: Table, *ids: int, **more: Any) -> None:
    await adelta.write_table(table, pa.table({"id": pa.array(ids, pa.int64())}), **more)


async def ids(table: Table) -> list[int]:
    rows = await (await table.snapshot()).scan(columns=["id"]).to_arrow()
    return rows.column("id").to_pylist()


async def consume(
    table: Table, positions: Any, *, acknowledge: bool = True, **more: Any
) -> list[adelta.Batch]:
    found = []
    async with Consumer(table, "c", positions, follow=False, **more) as consumer:
        async for batch in consumer:
            found.append(batch)
            if acknowledge:
                await consumer.acknowledge(batch)
    return found


def of(batches: list[adelta.Batch]) -> list[list[int]]:
    return [batch.data.column("id").to_pylist() for batch in batches]


async def test_a_consumer_begins_with_the_rows_that_are_there_and_goes_on_with_those_that_come(
    table: Table, kept: Kept
) -> None:
    await put(table, 1, 2)
    await put(table, 3)
    async with Consumer(table, "c", kept, poll=0.01) as consumer:
        first = await anext(consumer)
        await put(table, 4)
        second = await anext(consumer)
        assert (of([first, second]), first.in_snapshot) == ([[1, 2, 3], [4]], True)
        await consumer.acknowledge()
        assert consumer.position == second.position == Position(3)
        with anyio.move_on_after(0.1):
            await anext(consumer)
        await put(table, 5)
        assert of([await anext(consumer)]) == [[5]], "a step that was cancelled loses nothing"
    assert of(await consume(table, kept)) == [[5]], "it was not acknowledged"
    assert await consume(table, kept) == []


@pytest.mark.parametrize("start", ["snapshot", 0])
async def test_batches_are_bounded_and_every_bound_gives_the_same_rows(
    table: Table, start: Any
) -> None:
    for number in range(4):
        await put(table, *range(10 * number, 10 * number + 5))
    whole = [10 * number + each for number in range(4) for each in range(5)]
    for limits, sizes in (
        ({"max_rows": 3}, [3, 3, 3, 3, 3, 3, 2]),
        ({"max_files": 1}, [5, 5, 5, 5]),
        ({"max_files": 3}, [15, 5]),
        ({"max_bytes": 1}, [5, 5, 5, 5]),
        ({}, [20]),
    ):
        # each batch by a consumer that was just made, and all by one
        for one_by_one in (True, False):
            kept, found = Kept(), []
            while True:
                async with Consumer(
                    table, "c", kept, start=start, follow=False, **limits
                ) as consumer:
                    async for batch in consumer:
                        found += of([batch])
                        await consumer.acknowledge(batch)
                        if one_by_one:
                            break
                    else:
                        break
            assert [each for batch in found for each in batch] == whole
            assert [len(batch) for batch in found] == sizes, limits


async def test_a_batch_is_filled_up_for_as_long_as_it_may_take(table: Table, kept: Kept) -> None:
    await put(table, 1)
    async with Consumer(table, "c", kept, max_rows=3, max_delay=600, poll=0.01) as consumer:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                found: list[adelta.Batch] = []

                async def take() -> None:
                    found.append(await anext(consumer))

                group.start_soon(take)
                await anyio.sleep(0.1)
                await put(table, 2)
                await put(table, 3, 4)
        assert of(found) == [[1, 2, 3]]
    async with Consumer(table, "d", Kept(), max_delay=0.05, poll=0.01) as consumer:
        given: list[int] = []
        while len(given) < 4:  # it waits for no more than there are
            given += of([await anext(consumer)])[0]
    assert given == [1, 2, 3, 4]


async def test_changes_come_as_the_feed_has_them_and_commits_whole(kept: Kept) -> None:
    table = memory()
    await put(table, 1, 2, properties=FED)
    await adelta.update(table, {"id": "id + 10"}, "id = 2")
    await adelta.delete(table, "id = 1")
    wanted = [row async for batch in adelta.changes(table) for row in batch.to_pylist()]
    for limits in ({}, {"max_rows": 1}, {"max_files": 1}):
        found = await consume(table, Kept(), of="changes", start=0, **limits)
        assert [row for batch in found for row in batch.data.to_pylist()] == wanted
    (snapshot,) = await consume(table, kept, of="changes")
    assert [(r["id"], r["_change_type"]) for r in snapshot.data.to_pylist()] == [(12, "insert")]
    await adelta.delete(table)
    (gone,) = await consume(table, kept, of="changes")
    assert [r["_change_type"] for r in gone.data.to_pylist()] == ["delete"]

    found = await consume(table, Kept(), of="commits", max_files=2)
    commits = [commit for batch in found for commit in batch.commits]
    assert [commit.version for commit in commits] == [0, 1, 2, 3]
    assert len(found) > 1
    assert commits[1].position.table_id == (await table.snapshot()).metadata.id
    with pytest.raises(InvalidOptionError, match="no snapshot of them"):
        Consumer(table, "c", kept, of="commits", start="snapshot")


@pytest.mark.parametrize(
    ("policy", "found"), [("fail", None), ("skip", [[1, 2], [3]]), ("read", [[1, 2], [2, 3]])]
)
async def test_commits_that_change_rows_are_met_as_was_asked_for(
    table: Table, policy: Any, found: object
) -> None:
    await put(table, 1, 2)
    await adelta.delete(table, "id = 1")
    await put(table, 3)
    if found is None:
        with pytest.raises(InvalidUseError, match=r"on_rewrite='skip'.*of='changes'"):
            await consume(table, Kept(), start=0)
        return
    batches = await consume(table, Kept(), start=0, on_rewrite=policy)
    assert [row for batch in of(batches) for row in batch] == [row for b in found for row in b]  # type: ignore[attr-defined]


async def test_a_change_of_the_columns_is_told_with_the_batch_that_comes_after_it(
    table: Table, kept: Kept
) -> None:
    await put(table, 1)
    assert of(await consume(table, kept)) == [[1]]
    await put(table, 2)
    await adelta.add_columns(table, pa.schema({"x": pa.string()}))
    await adelta.set_properties(table, {"a": "b"})
    await adelta.write_table(table, pa.table({"id": [3], "x": ["a"]}))
    async with Consumer(table, "c", kept, follow=False) as consumer:
        found = [batch async for batch in consumer]
    for batches in (found, await consume(table, kept)):  # the second ones by another process
        assert of(batches) == [[2], [3]]
        before, after = batches
        assert (before.data.column_names, before.schema_change) == (["id"], None)
        assert after.data.column_names == ["id", "x"]
        assert after.schema_change is not None
        assert after.schema_change.version == 2
        assert after.schema_change.before.names == ["id"]
        assert after.schema_change.after.names == ["id", "x"]
    await adelta.add_columns(table, pa.schema({"y": pa.string()}))
    (alone,) = await consume(table, kept)
    assert (alone.num_rows, alone.data.column_names) == (0, ["id", "x", "y"])
    assert alone.schema_change is not None
    assert await consume(table, kept) == []


async def test_columns_can_be_chosen_and_are_missed_where_they_are_gone(
    table: Table, kept: Kept
) -> None:
    properties = {"delta.columnMapping.mode": "name"}
    await adelta.write_table(table, pa.table({"id": [1], "x": ["a"]}), properties=properties)
    (batch,) = await consume(table, kept, columns=["x"])
    assert batch.data.to_pylist() == [{"x": "a"}]
    await adelta.drop_columns(table, ["x"])
    with pytest.raises(SchemaMismatchError, match="x"):
        await consume(table, kept, columns=["x"])


async def test_several_consumers_share_the_rows_by_the_hash_of_a_key(
    table: Table, tmp_path: Path
) -> None:
    await put(table, *range(100))
    await put(table, *range(100, 200))
    shares = []
    for number in range(3):
        found = await consume(table, Kept(), share=("id", number, 3), max_rows=20)
        assert max(map(len, of(found))) <= 20
        shares.append({row for batch in of(found) for row in batch})
    assert set.union(*shares) == set(range(200))
    assert sum(map(len, shares)) == 200
    assert min(map(len, shares)) > 40
    await put(target := memory())
    for kept in (target, tmp_path, Kept()):
        await consume(table, kept, share=("id", 0, 3), max_rows=20)
        for other in (("id", 0, 2), ("id", 1, 3), ("at", 0, 3), None):
            with pytest.raises(InvalidOptionError, match="share id:0/3, and is opened for"):
                await consume(table, kept, share=other)
        assert of(await consume(table, kept, share=("id", 0, 3))) == []
    with pytest.raises(SchemaMismatchError, match="shared by the column 'nope'"):
        await consume(table, Kept(), share=("nope", 0, 2))
    for wrong in (("id", 2, 2), ("id", 0), "id"):
        with pytest.raises(InvalidOptionError, match="share"):
            Consumer(table, "c", Kept(), share=wrong)  # type: ignore[arg-type]


async def test_latest_is_what_comes_after_the_first_start_though_nothing_was_read(
    table: Table, kept: Kept
) -> None:
    await put(table, 1)
    async with Consumer(table, "c", kept, start="latest", follow=False):
        pass
    await put(table, 2)
    assert of(await consume(table, kept, start="latest")) == [[2]]


async def test_a_consumer_is_sent_back_to_a_version_or_a_time(table: Table, kept: Kept) -> None:
    for number in range(3):
        await put(table, number)
    when = (await table.snapshot(version=1)).timestamp
    assert of(await consume(table, kept)) == [[0, 1, 2]]
    for start, rows in (
        (1, [1, 2]),
        (when + timedelta(days=1), []),
        (Position(2), [2]),
        ("snapshot", [0, 1, 2]),
        ("latest", []),
        ("2001-01-01T00:00:00Z", [0, 1, 2]),
    ):
        async with Consumer(table, "c", kept, follow=False) as consumer:
            await consumer.seek(start)
        assert [row for batch in of(await consume(table, kept)) for row in batch] == rows
    async with Consumer(table, "c", kept) as consumer:
        with pytest.raises(VersionNotFoundError, match="the latest is 2"):
            await consumer.seek(9)


async def test_the_lag_is_told_in_versions_and_seconds(table: Table, kept: Kept) -> None:
    await put(table, 1)
    async with Consumer(table, "c", kept, start=0, follow=False) as consumer:
        await put(table, 2)
        lag = await consumer.lag()
        assert (lag.versions, lag.latest_version, lag.position) == (2, 1, Position(0))
        assert 0 <= lag.seconds < 60
        async for batch in consumer:
            await consumer.acknowledge(batch)
        lag = await consumer.lag()
        assert (lag.versions, lag.seconds) == (0, 0.0)


async def test_commits_without_rows_are_left_behind_so_that_the_log_can_be_cleaned_up(
    table: Table, kept: Kept
) -> None:
    await put(table, 1)
    await consume(table, kept)
    await adelta.set_properties(table, {"a": "b"})
    assert await consume(table, kept) == []
    assert kept.saved[-1].position == Position(2)


async def clean_up(table: Table, gone: int) -> None:
    await write_checkpoint(await load_state(table.store, version=gone))
    await table.store.delete([commit_path(version) for version in range(gone)])


async def test_what_was_cleaned_up_before_it_was_read_is_met_as_was_asked_for() -> None:
    table = memory()
    for number in range(5):
        await put(table, number)
    table = Table(table.uri, store=table.store)
    kept = Kept()
    kept.saved = [StoredPosition(Position(1), 1)]
    await clean_up(table, 3)
    for of_what in ("rows", "commits"):
        with pytest.raises(ChangesNotAvailableError, match=r"1 to 2 were cleaned.*on_lost='skip'"):
            await consume(table, kept, of=of_what)
    for of_what in ("rows", "commits"):
        batches = await consume(
            table, kept, acknowledge=False, on_lost="skip", of=of_what, max_files=1
        )
        assert [batch.lost for batch in batches] == [(1, 2), None]
        if of_what == "rows":
            assert of(batches) == [[3], [4]]
    batches = await consume(table, kept, on_lost="resnapshot", max_files=2)
    assert [batch.restarted for batch in batches] == [True, False, False]
    assert [row for batch in of(batches) for row in batch] == list(range(5))


async def test_a_position_of_another_table_is_refused(table: Table, kept: Kept) -> None:
    await put(table, 1)
    await consume(table, kept)
    other = memory()
    await put(other, 1)
    with pytest.raises(ChangesNotAvailableError, match="made anew, or another one"):
        await consume(other, kept)
    kept.saved.append(StoredPosition(Position(1), 9))  # as an earlier version of adelta kept it
    await put(other, 2)
    assert of(await consume(other, kept)) == [[2]]


async def test_a_consumer_that_is_open_does_not_go_on_in_a_table_that_was_made_anew(
    table: Table, kept: Kept
) -> None:
    await put(table, 1)
    await consume(table, kept)
    async with Consumer(table, "c", kept, follow=False) as consumer:
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        await table.store.delete([m.path async for page in table.store.list("") for m in page])
        async with Table(table.uri, store=table.store) as again:
            for number in range(4):
                await put(again, number)
        for _ in range(2):
            with pytest.raises(ChangesNotAvailableError, match=r"was dropped"):
                await anext(consumer)


# ------------------------------------------------------------------------- into a table


async def into(table: Table, target: Table, **more: Any) -> None:
    async with Consumer(table, "c", target, follow=False, **more) as consumer:
        async for batch in consumer:
            await consumer.append(batch)


async def test_rows_and_position_are_one_commit_of_the_table_that_is_written_to(
    table: Table,
) -> None:
    target = memory()
    await put(table, 1, 2)
    await put(target)
    await into(table, target, max_rows=1)
    assert await ids(target) == [1, 2]
    await into(table, target)
    versions = (await target.snapshot()).version
    await put(table, 3)
    await adelta.add_columns(table, pa.schema({"x": pa.string()}))
    await adelta.write_table(table, pa.table({"id": [4], "x": ["a"]}))
    await into(table, target)
    assert await ids(target) == [1, 2, 3, 4]
    assert (await target.snapshot()).schema.names == ["id", "x"]
    assert (await target.snapshot()).version == versions + 2, "a commit a batch"
    async with Consumer(table, "c", target, follow=False) as consumer:
        await consumer.seek(1)
    await into(table, target)
    assert await ids(target) == [1, 2, 3, 4, 3, 4], "sent back, as it was told to"


async def test_a_transaction_of_a_consumer_acknowledges_the_batch_or_leaves_it(
    table: Table,
) -> None:
    target = memory()
    await put(table, 1)
    await put(target)
    async with Consumer(table, "c", target, follow=False) as consumer:
        batch = await anext(consumer)
        with suppress(ZeroDivisionError):
            async with consumer.transaction(batch) as tx:
                await tx.append(batch)
                _ = 1 / 0
        assert await ids(target) == []
        async with consumer.transaction(batch, operation="ETL") as tx:
            await tx.append(batch)
        assert consumer.position == batch.position
        with pytest.raises(InvalidUseError, match="is acknowledged"):
            consumer.transaction(batch)
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
    assert await ids(target) == [1]
    history = await adelta.history(target)
    assert history[0].operation == "ETL"
    async with Consumer(table, "d", Kept()) as other:
        with pytest.raises(InvalidUseError, match="not kept in the table"):
            await other.append(batch)


@pytest.mark.parametrize("kind", ["table", "file"])
async def test_of_two_processes_under_one_name_one_is_told_and_nothing_comes_twice(
    table: Table, tmp_path: Path, kind: str
) -> None:
    target = memory()
    await put(table, 1, 2, 3)
    await put(target)
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(
                Consumer(
                    table,
                    "c",
                    Table(target.uri, store=target.store) if kind == "table" else tmp_path,
                    max_rows=most,  # the second one's batch goes further than the first one's
                )
            )
            for most in (1, 2)
        ]
        first, same = await anext(one), await anext(two)
        work = (one.append, two.append) if kind == "table" else (one.acknowledge, two.acknowledge)
        await work[0](first)  # type: ignore[operator]
        with pytest.raises(ConsumerTakenOverError, match=r"'c'.*another process"):
            await work[1](same)  # type: ignore[operator]
        await work[0](await anext(one))  # type: ignore[operator]
    if kind == "table":
        assert await ids(Table(target.uri, store=target.store)) == [1, 2]


async def test_a_call_that_is_cancelled_is_made_again_and_nothing_comes_twice(
    table: Table, tmp_path: Path
) -> None:
    await put(table, *range(24))

    async def again(delay: float, call: Any, *args: Any) -> Any:
        """What the call gives, which is cancelled after a while, ever later."""
        while True:
            with anyio.move_on_after(delay):
                return await call(*args)
            delay *= 1.3

    for number in range(2):
        target = memory()
        await put(target)
        for positions in (target, tmp_path / str(number)):
            given: list[int] = []
            async with Consumer(table, "c", positions, max_rows=8, follow=False) as consumer:
                done = consumer.append if positions is target else consumer.acknowledge
                while len(given) < 24:
                    batch = await again(0.001, anext, consumer)
                    given += batch.data.column("id").to_pylist()
                    await again(0.001 + 0.0007 * number, done, batch)
            assert given == list(range(24))
        assert await ids(target) == list(range(24))


async def test_one_task_at_a_time_reads_a_consumer(table: Table, kept: Kept) -> None:
    await put(table, *range(10))
    async with (
        Consumer(table, "c", kept, start="latest") as consumer,
        anyio.create_task_group() as tg,
    ):
        tg.start_soon(anext, consumer)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(InvalidUseError, match="read by another task"):
            await anext(consumer)
        with pytest.raises(InvalidUseError, match="read by another task"):
            await consumer.seek(0)
        tg.cancel_scope.cancel()
    with pytest.raises(InvalidOptionError, match="read again, without an end"):
        Consumer(table, "c", table)


async def test_a_table_that_forgets_applications_keeps_no_positions(table: Table) -> None:
    target = memory()
    await put(table, 1)
    await put(target, properties={"delta.setTransactionRetentionDuration": "1 day"})
    with pytest.raises(InvalidOptionError, match="setTransactionRetentionDuration"):
        await into(table, target)


async def test_rows_that_come_anew_take_the_place_of_those_that_were_copied() -> None:
    table, target = memory(), memory()
    for number in range(5):
        await put(table, number)
    await put(target)
    async with Consumer(table, "c", target, start=0, follow=False, max_files=1) as consumer:
        await consumer.append(await anext(consumer))
    assert await ids(target) == [0]
    await clean_up(table, 3)
    await into(Table(table.uri, store=table.store), target, on_lost="resnapshot", max_files=2)
    assert sorted(await ids(target)) == list(range(5))


# ----------------------------------------------------------------------------- the arguments


@pytest.mark.parametrize(
    "wrong",
    [
        {"of": "row"},
        {"max_rows": 0},
        {"max_delay": -1},
        {"poll": 0},
        {"hold": 5},
        {"start": True},
        {"start": 1.5},
        {"start": -1},
        {"on_lost": "ignore"},
        {"of": "commits", "columns": ["id"]},
    ],
)
async def test_arguments_that_make_no_sense_are_refused(
    table: Table, kept: Kept, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOptionError):
        Consumer(table, "c", kept, **wrong)


async def test_names_and_states_that_make_no_sense_are_refused(table: Table, kept: Kept) -> None:
    for name in ("", "a/b", "a:b", ".a", 5):
        with pytest.raises(InvalidOptionError, match="no name of a consumer"):
            Consumer(table, name, kept)  # type: ignore[arg-type]
    consumer = Consumer(table, "c", kept)
    with pytest.raises(InvalidUseError, match="is not open"):
        await anext(consumer)
    with pytest.raises(FileNotFoundError):
        async with consumer:
            pass
    await put(table, 1)
    with pytest.raises(VersionNotFoundError, match="the latest is 0"):
        await consume(table, kept, start=5)


async def test_a_change_consumer_goes_on_with_the_changes_after_its_position(
    tmp_path: Path,
) -> None:
    table = await adelta.create_table(
        tmp_path / "t", pa.schema([("id", pa.int64())]), properties=FED
    )
    kept = tmp_path / "positions"
    await put(table, 1, 2)
    async with adelta.ChangeConsumer(table, name="billing", store=kept, follow=False) as consumer:
        async for batch in consumer:
            assert sorted(batch.data["id"].to_pylist()) == [1, 2]
            await consumer.acknowledge()
    await adelta.delete(table, "id = 1")

    def rest() -> list[tuple[int, str]]:
        address = tmp_path / "t"
        with adelta.sync.ChangeConsumer(address, "billing", kept, follow=False) as again:
            assert isinstance(again, adelta.sync.Consumer)
            rows = [row for batch in again for row in batch.data.to_pylist()]
        return [(row["id"], row["_change_type"]) for row in rows]

    assert await anyio.to_thread.run_sync(rest) == [(1, "delete")]
