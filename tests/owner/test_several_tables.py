"""Transactions over several tables of one owner, and snapshots of one moment, over a real owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import orjson
import pytest

import adelta
from adelta.commit import owner_commit
from adelta.commit.choose import owned_of
from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentTransactionError,
    InvalidOptionError,
    InvalidUseError,
)
from adelta.owner.limits import ServiceLimits
from tests.support.owned_lake import SCHEMA, lake_of, rows

if TYPE_CHECKING:
    from pathlib import Path


async def ids(table: adelta.Table) -> list[int]:
    found = await (await table.snapshot()).scan().to_arrow()
    return sorted(found["id"].to_pylist())


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("*.parquet")}


async def test_all_tables_get_their_versions_together(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        async with adelta.transaction_over(orders, stock, operation="ORDER") as (left, right):
            await left.append(rows(1))
            await right.append(rows(10, 11))
        assert (left.version, right.version) == (1, 1)
        other = lake.table("orders"), lake.table("stock")
        assert [await ids(table) for table in other] == [[1], [10, 11]]
        last = [(await adelta.history(table, limit=1))[0] for table in other]
        assert {entry.operation for entry in last} == {"ORDER"}
        for table in other:
            owned = owned_of(table.store)
            assert owned is not None
            await owned.client.backfill_to_version()
        commits = [lake.owner.log(name)[1] for name in ("orders", "stock")]
        told = {orjson.loads(commit.splitlines()[0])["commitInfo"]["txnId"] for commit in commits}
        assert len(commits) == 2
        assert len(told) == 1  # by which they are known to belong together


@pytest.mark.parametrize("how", ["error", "cancelled"])
async def test_a_block_that_fails_commits_nothing_and_leaves_no_file(
    tmp_path: Path, how: str
) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        with anyio.CancelScope() as scope:
            try:
                async with adelta.transaction_over(orders, stock) as (left, right):
                    await left.append(rows(1))
                    await right.append(rows(2))
                    if how == "error":
                        raise ZeroDivisionError
                    scope.cancel()
                    await anyio.sleep(10)
            except ZeroDivisionError:
                pass
        assert [await ids(table) for table in (orders, stock)] == [[], []]
        assert [files(tmp_path / name) for name in ("orders", "stock")] == [set(), set()]


async def test_a_lost_race_rebases_that_table_and_both_are_committed(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        other = lake.table("stock")
        other._queue = adelta.open_table(tmp_path / "elsewhere")._queue  # of another process
        async with adelta.transaction_over(orders, stock) as (left, right):
            await left.append(rows(1))
            await right.append(rows(2))
            for id in (3, 4):
                await adelta.write_table(other, rows(id))
        assert (left.version, right.version) == (1, 3)
        assert [await ids(table) for table in (orders, stock)] == [[1], [2, 3, 4]]


async def test_a_conflict_on_one_table_names_it_and_commits_neither(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        other = lake.table("stock")
        begun = adelta.transaction_over(orders, stock)
        left, right = await begun.__aenter__()
        await left.append(rows(1))
        await right.read()
        await right.append(rows(2))
        await adelta.write_table(other, rows(3))
        with pytest.raises(ConcurrentAppendError, match=r"/stock: .*WRITE") as caught:
            await begun.__aexit__(None, None, None)
        assert caught.value.table == stock.uri
        assert left.version is None
        assert [await ids(table) for table in (orders, stock)] == [[], [3]]
        assert files(tmp_path / "orders") == set()


async def test_what_was_read_of_a_table_holds_when_another_one_is_committed(tmp_path: Path) -> None:
    """Each reads what the other one writes: only one of them may be committed."""
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        others = lake.table("orders"), lake.table("stock")
        begun = adelta.transaction_over(orders, stock)
        left, right = await begun.__aenter__()
        await left.read()
        await right.append(rows(1))
        async with adelta.transaction_over(*others) as (theirs, read):
            await read.read()
            await theirs.append(rows(2))
        with pytest.raises(CommitConflictError):
            await begun.__aexit__(None, None, None)
        assert read.version == 1  # a version that changes nothing, and holds what was read
        assert [await ids(table) for table in (orders, stock)] == [[2], []]


async def test_a_table_that_is_left_alone_gets_no_version(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        async with adelta.transaction_over(orders, stock) as (left, right):
            await left.append(rows(1))
        assert (left.version, right.version) == (1, None)
        async with adelta.transaction_over(orders, stock) as (left, right):
            await left.read()
        assert (left.version, right.version) == (None, None)
        assert (await stock.snapshot()).version == 0


async def test_work_that_was_done_before_is_skipped_in_all_tables(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        for _ in range(2):
            async with adelta.transaction_over(orders, stock) as (left, right):
                left.set_transaction("load", 7)
                await left.append(rows(1))
                await right.append(rows(2))
        assert left.skipped
        assert right.skipped
        assert [await ids(table) for table in (orders, stock)] == [[1], [2]]
        assert len(files(tmp_path / "stock")) == 1
        begun = adelta.transaction_over(orders, stock)
        for tx in await begun.__aenter__():
            tx.set_transaction("load", 7)
        with pytest.raises(ConcurrentTransactionError, match=r"orders.*stock"):
            await begun.__aexit__(None, None, None)


async def test_work_that_another_does_meanwhile_is_skipped_in_all_tables(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        async with adelta.transaction_over(orders, stock) as (left, right):
            left.set_transaction("load", 7)
            await left.append(rows(1))
            await right.append(rows(2))
            async with adelta.transaction_over(lake.table("orders"), lake.table("stock")) as (
                theirs,
                more,
            ):
                theirs.set_transaction("load", 7)
                await theirs.append(rows(3))
                await more.append(rows(4))
        assert left.skipped
        assert right.skipped
        assert [await ids(table) for table in (orders, stock)] == [[3], [4]]


async def test_tables_without_an_owner_in_common_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with lake_of(one) as here, lake_of(two) as there:
        (orders,) = await here.make("orders")
        (stock,) = await there.make("stock")
        plain = await adelta.create_table(tmp_path / "plain", SCHEMA)
        for tables, why in (
            ((orders, plain), r"plain has no commit owner.*adopt_table"),
            ((orders, stock), r"stock has another commit owner than \S*orders"),
            ((orders, here.table("orders")), r"orders is passed twice"),
            ((), r"no table was passed"),
        ):
            with pytest.raises(InvalidOptionError, match=why):
                async with adelta.transaction_over(*tables) as begun:
                    await begun[0].append(rows(1))
        with pytest.raises(InvalidOptionError, match=r"plain has no commit owner"):
            await adelta.snapshots(orders, plain)
        with pytest.raises(InvalidOptionError, match=r"is no handle"):
            adelta.transaction_over("orders")  # type: ignore[arg-type]
        assert await ids(orders) == []
        assert files(one / "orders") == set()
        await plain.aclose()


async def test_a_transaction_ends_once(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        both = adelta.transaction_over(orders, stock)
        async with both as (left, _):
            await left.append(rows(1))
            with pytest.raises(InvalidUseError):
                await left._core.__aenter__()
        with pytest.raises(InvalidUseError):
            await both.__aenter__()
        with pytest.raises(InvalidUseError):
            await left.append(rows(2))


async def test_tasks_of_one_process_take_turns_in_both_tables(tmp_path: Path) -> None:
    """Some over both, in either order, some over one: none waits for ever, and none is lost."""
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")

        async def over(id: int, *tables: adelta.Table) -> None:
            async with adelta.transaction_over(*tables) as begun:
                for tx in begun:
                    await tx.append(rows(id))

        async with anyio.create_task_group() as group:
            for id in range(0, 12, 3):
                group.start_soon(over, id, orders, stock)
                group.start_soon(over, id + 1, stock, orders)
                group.start_soon(adelta.write_table, orders, rows(id + 2))
        both = [id for id in range(12) if id % 3 < 2]
        assert await ids(stock) == both
        assert await ids(orders) == list(range(12))


async def test_snapshots_are_of_one_moment(tmp_path: Path) -> None:
    """While transactions over both come in, and each reader sees all of one or nothing."""
    async with lake_of(tmp_path) as lake:
        orders, stock = await lake.make("orders", "stock")
        mine = lake.table("orders"), lake.table("stock")
        done = anyio.Event()
        seen = set()

        async def write() -> None:
            for id in range(8):
                async with adelta.transaction_over(orders, stock) as (left, right):
                    await left.append(rows(id))
                    await right.append(rows(id))
            done.set()

        async def read() -> None:
            while not done.is_set():
                left, right = await adelta.snapshots(*mine)
                assert left.version == right.version
                seen.add(left.version)

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            group.start_soon(read)
        assert len(seen) > 1
        left, right = await adelta.snapshots(*mine)
        assert (left.version, right.version) == (8, 8)


async def test_the_blocking_face_has_both(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        await lake.make("orders", "stock")
        options = lake.options

        def work() -> tuple[int | None, ...]:
            sync = adelta.sync
            with (
                sync.open_table(tmp_path / "orders", options) as orders,
                sync.open_table(tmp_path / "stock", options) as stock,
            ):
                with sync.transaction_over(orders, stock) as (left, right):
                    left.append(rows(1))
                    right.append(rows(2))
                one, two = sync.snapshots(orders, stock)
                assert one.scan().to_arrow()["id"].to_pylist() == [1]
                return left.version, right.version, one.version, two.version

        assert await anyio.to_thread.run_sync(work) == (1, 1, 1, 1)


@pytest.mark.parametrize("body_bytes", [3 << 19, 400_000])
async def test_commits_that_are_longer_than_a_request_are_staged_by_their_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body_bytes: int
) -> None:
    """Be that by what clients know, or since this owner, or a proxy, takes less than others do."""
    monkeypatch.setattr(owner_commit, "_IN_A_REQUEST", 1)
    async with lake_of(tmp_path, service=ServiceLimits(body_bytes=body_bytes)) as lake:
        tables = await lake.make("orders", "stock")
        note = "x" * (3 << 20 if body_bytes > 1 << 20 else 500_000)
        for long in (note, "x" * 1_000_000):  # which two of are too much
            async with adelta.transaction_over(*tables, user_metadata=long) as parts:
                for part in parts:
                    await part.append(rows(1))
        (table, _) = tables
        assert (await adelta.write_table(table, rows(2), user_metadata=note)).version == 3
        await adelta.checkpoint(table)
        assert [*lake.owner.log("orders")] == [0, 1, 2, 3]
        await adelta.release_table(table, user_metadata=note)
        async with adelta.open_table(tmp_path / "orders") as plain:
            assert await ids(plain) == [1, 1, 2]


async def test_tables_that_another_has_had_adopted_are_taken_together(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        tables = await lake.make("orders", "stock")
        await adelta.release_table(tables[1])
        for table in tables:
            await table.snapshot()
        await adelta.adopt_table(
            tmp_path / "stock",
            "adelta",
            {"endpoint": lake.owner.endpoint},
            storage_options={**lake.options, "max_concurrency": "2"},
        )
        assert [each.version for each in await adelta.snapshots(*tables)] == [0, 2]
