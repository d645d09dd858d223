"""Writers of tables with an owner that lose races: they come back one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import adelta
from adelta.owner import turns as turns_module
from adelta.owner.table_key import TableKey
from adelta.owner.turns import Turns
from adelta.write.queue_of_table import QueueOfTable
from tests.owner.test_several_tables import ids
from tests.support.owned_lake import lake_of, rows
from tests.support.owners import proposal, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from adelta.commit.owner import CommitResponse, ProposedCommit
    from adelta.commit.owner_client import AdeltaOwnerClient
    from tests.support.owned_lake import Lake
    from tests.support.owners import Owner


NAMES = [(1, "one"), (2, "two"), (3, "three"), (4, "four")]


@pytest.fixture
def endless_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for its turn gets it by a commit, and by no clock."""
    monkeypatch.setattr(turns_module, "_LONGEST", 600.0)
    monkeypatch.setattr(turns_module, "_FIRST_PATIENCE", 600.0)
    monkeypatch.setattr(turns_module, "_PATIENCE", (600.0, 600.0))


class Losers:
    """Proposals that lose, and wait for their turns."""

    def __init__(self, owner: Owner, client: AdeltaOwnerClient) -> None:
        self._owner = owner
        self._client = client
        self._tasks: list[asyncio.Task[CommitResponse]] = []

    @property
    def num_waiting(self) -> int:
        """How many wait in the service."""
        lines = self._owner.service.parts.turns._lines.values()
        return sum(len(line.waiting) for line in lines)

    async def join(self, proposed: ProposedCommit) -> asyncio.Task[CommitResponse]:
        """Propose, and wait until the service has it wait."""
        before = self.num_waiting
        task = asyncio.create_task(self._client.commit(proposed))
        self._tasks.append(task)
        with anyio.fail_after(60):
            while self.num_waiting == before:  # noqa: ASYNC110  # the service has no event for it
                await anyio.sleep(0.001)
        return task

    async def leave(self) -> None:
        """Let all go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def races(folder: Path) -> AsyncIterator[tuple[Owner, AdeltaOwnerClient, Losers]]:
    """An owner of a table, of which version 1 is ratified and somebody has lost to it."""
    async with running(folder) as owner:
        client = await owner.adopted()
        losers = Losers(owner, client)
        assert (await client.commit(proposal(1, "one"))).ratified
        assert not (await client.commit(proposal(1, "first loser"))).ratified
        try:
            yield owner, client, losers
        finally:
            await losers.leave()


def counted(call: Callable[..., Any], calls: Counter[str], name: str) -> Callable[..., Any]:
    """The same call, which is counted."""

    def counting(*arguments: Any) -> Any:
        calls[name] += 1
        return call(*arguments)

    return counting


def told(response: CommitResponse) -> list[bytes | None]:
    """The contents of the winners in an answer."""
    assert not response.ratified
    assert response.latest is not None
    return [commit.content for commit in response.latest.commits]


@pytest.mark.usefixtures("endless_turns")
async def test_who_is_known_to_have_lost_is_told_without_a_look_into_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with races(tmp_path) as (owner, client, losers):
        early = await losers.join(proposal(1, "early"))
        another = await losers.join(proposal(1, "another"))
        assert (await client.commit(proposal(2, "two"))).ratified
        assert told(await early) == [proposal(1, "one").content, proposal(2, "two").content]
        asked = Counter[str]()
        ledger = owner.service.parts.ledger
        for name in ("commit", "get_commits"):
            monkeypatch.setattr(ledger, name, counted(getattr(ledger, name), asked, name))
        late = await losers.join(proposal(2, "late"))
        assert not asked
        assert (await client.commit(proposal(3, "three"))).ratified
        assert len(told(await another)) == 3
        assert (await client.commit(proposal(4, "four"))).ratified
        assert told(await late) == [proposal(v, n).content for v, n in NAMES[1:]]
        # Version 1 was ratified before there was a line: the one who waits for it asks for it.
        assert asked == {"commit": 2, "get_commits": 1}


@pytest.mark.usefixtures("endless_turns")
async def test_what_is_proposed_again_is_not_told_as_what_was_ratified(tmp_path: Path) -> None:
    async with races(tmp_path) as (_, client, losers):
        loser = await losers.join(proposal(1, "loser"))
        await losers.join(proposal(1, "behind it"))
        again = await client.commit(proposal(1, "one", padding=10))
        assert again.ratified
        assert told(await loser) == [proposal(1, "one").content]


@pytest.mark.usefixtures("endless_turns")
async def test_a_repeated_proposal_is_ratified_and_does_not_wait_among_losers(
    tmp_path: Path,
) -> None:
    async with races(tmp_path) as (_, client, losers):
        for number in range(9):
            await losers.join(proposal(1, f"loser {number}"))
        for version, name in NAMES[1:]:
            assert (await client.commit(proposal(version, name))).ratified
            assert losers.num_waiting > 0
            with anyio.fail_after(60):
                assert (await client.commit(proposal(version, name))).ratified


async def test_only_an_unbroken_run_of_few_commits_is_remembered() -> None:
    turns, table = Turns(), TableKey("file:///t", "id")
    await turns.take(table)
    others = [asyncio.create_task(turns.take(table)) for _ in range(2000)]
    await asyncio.sleep(0)

    def known(version: int) -> list[int]:
        found = turns.winners(table, version)
        return [] if found is None else [commit.version for commit in found.commits]

    turns.ratified(table, proposal(5, "five"))
    turns.ratified(table, proposal(7, "seven"))  # another instance has ratified the one between
    turns.ratified(table, proposal(6, "six"))  # late news
    assert known(5) == known(6) == known(8) == []
    assert known(7) == [7]
    assert turns.has_lost(table, proposal(7, "x"))
    assert not turns.has_lost(table, proposal(7, "seven"))
    assert not turns.has_lost(table, proposal(8, "x"))
    for version in range(8, 500):
        turns.ratified(table, proposal(version, "x"))
    assert len(known(499 - 255)) == 256
    assert not known(499 - 256)
    turns.ratified(table, proposal(500, "long", padding=2 << 20))
    assert not known(499)
    turns.ratified(table, replace(proposal(501, "x"), staged_file="501.x.json"))
    turns.forget(table)
    assert not known(501)
    turns.stop()
    await asyncio.gather(*others)


def of_its_own(lake: Lake, name: str) -> adelta.Table:
    """A handle as another process has it: its commits wait in no queue with others."""
    table = lake.table(name)
    table._queue = QueueOfTable(table.store, None)
    return table


async def test_who_has_lost_does_not_ask_for_what_it_has_been_told(tmp_path: Path) -> None:
    """The owner tells losers of the winners: neither it nor the store is asked for them."""
    async with lake_of(tmp_path) as lake:
        await lake.make("orders")
        writers = [of_its_own(lake, "orders") for _ in range(6)]
        for table in writers:
            await table.snapshot()
        before = lake.owner.asked()
        await asyncio.gather(*(adelta.write_table(table, rows(1)) for table in writers))
        for _ in range(2):  # each is several versions behind by now
            await adelta.write_table(writers[0], rows(2))
        await adelta.write_table(writers[1], rows(3))
        asked = lake.owner.asked() - before
        assert asked["/api/v1/commit"] > 9
        assert asked["/api/v1/commits"] == 0
        assert (await writers[0].snapshot()).version == 9


async def test_who_lost_by_a_handle_that_is_behind_the_queue_reads_all_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue knows commits of another handle, of which this one's owner log has not heard."""
    async with lake_of(tmp_path) as lake:
        first, behind = (*await lake.make("orders"), lake.table("orders"))
        monkeypatch.setattr(lake.owner.service.parts.backfiller, "wake", lambda _: None)
        await behind.snapshot()
        for number in (1, 2):
            await adelta.write_table(first, rows(number))
        await adelta.write_table(of_its_own(lake, "orders"), rows(3))
        assert (await adelta.write_table(behind, rows(4))).version == 4
        assert [(await behind.snapshot(version=n)).version for n in range(5)] == [*range(5)]
        assert await ids(behind) == [1, 2, 3, 4]


async def test_transactions_over_several_tables_take_turns(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        await lake.make("orders", "stock")
        writers = [[of_its_own(lake, name) for name in ("orders", "stock")] for _ in range(12)]

        async def write(orders: adelta.Table, stock: adelta.Table) -> None:
            async with adelta.transaction_over(orders, stock) as (left, right):
                await left.append(rows(1))
                await right.append(rows(1))

        before = lake.owner.asked()
        await asyncio.gather(*(write(*tables) for tables in writers))
        proposals = (lake.owner.asked() - before)["/api/v1/commit-together"]
        assert proposals <= 4 * len(writers)


async def test_nobody_waits_for_a_turn_when_the_service_ends() -> None:
    turns, table = Turns(), TableKey("file:///t", "id")
    assert not await turns.take(table)  # the first comes back at once
    waiting = [asyncio.create_task(turns.take(table)) for _ in range(20)]
    await asyncio.sleep(0)
    turns.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(task.done() for task in waiting)
    assert not await turns.take(table)
