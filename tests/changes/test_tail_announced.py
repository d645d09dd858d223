"""Tailing a table whose owner announces commits: no pause, and no look at the store."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio

import adelta
from adelta.changes.announced import next_commits
from adelta.errors import StorageError
from adelta.storage.resolve import open_store
from tests.support.owned_lake import lake_of, rows
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from tests.support.owned_lake import Lake


def counted(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    for option, value in lake.options.items():
        monkeypatch.setenv(option.upper(), value)
    return CountingStore(open_store(str(lake.folder / name)))


async def test_commits_come_by_announcements_and_not_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a pause in which the test would time out, and while nothing is backfilled."""
    async with lake_of(tmp_path) as lake:
        (orders,) = await lake.make("orders")
        store = counted(lake, "orders", monkeypatch)
        follower = adelta.Table(store.uri, store=store)
        lake.open.append(follower)
        waiting = lake.owner.service.parts.announcements._awaited
        async with aclosing(adelta.tail(follower, poll=1000.0)) as commits:
            assert (await anext(commits)).version == 0
            for version in range(1, 5):
                async with anyio.create_task_group() as group:
                    group.start_soon(follow, commits, version)
                    with anyio.fail_after(60):
                        while not waiting:  # noqa: ASYNC110  # nobody tells
                            await anyio.sleep(0.01)
                    if version == 2:  # from then on it has come to the end
                        store.clear()
                    await adelta.write_table(orders, rows(version))
        assert store.requests == []


async def follow(commits: AsyncIterator[adelta.Commit], version: int) -> None:
    with anyio.fail_after(60):
        assert (await anext(commits)).version == version


async def test_where_the_owner_fails_the_log_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lake_of(tmp_path) as lake:
        (orders,) = await lake.make("orders")
        follower = lake.table("orders")

        async def fail(*_: object) -> None:
            raise StorageError("no announcements today")

        async with aclosing(adelta.tail(follower, poll=0.2)) as commits:
            with anyio.fail_after(60):
                assert (await anext(commits)).version == 0
                monkeypatch.setattr(
                    "adelta.commit.owner_client.AdeltaOwnerClient.wait_for_commit", fail
                )
                await adelta.write_table(orders, rows(1))
                assert (await anext(commits)).version == 1


async def test_the_tail_goes_on_when_the_owner_gives_the_table_up(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        (orders,) = await lake.make("orders")
        async with aclosing(adelta.tail(lake.table("orders"), poll=0.2)) as commits:
            with anyio.fail_after(60):
                assert (await anext(commits)).version == 0
                await adelta.release_table(orders)
                assert (await anext(commits)).version == 1
                await adelta.write_table(orders, rows(1))
                assert (await anext(commits)).version == 2


async def test_what_is_announced_far_ahead_is_taken_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def far(*_: object) -> int:
        return 1 << 40

    monkeypatch.setattr("adelta.commit.owner_client.AdeltaOwnerClient.wait_for_commit", far)
    async with lake_of(tmp_path) as lake:
        (orders,) = await lake.make("orders")
        await orders.snapshot()
        with anyio.fail_after(60):
            pieces = await next_commits(orders.store, 1, 0.2)
        assert [piece.version for piece in pieces] == [*range(1, len(pieces) + 1)]
        assert len(pieces) <= 10_000
