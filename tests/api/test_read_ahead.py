"""Work over items in order, with later items under way meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import TYPE_CHECKING

import anyio
import pytest

from adelta._read_ahead import ReadAhead

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator


class Work:
    """Work on numbers, which ends when it is let, and is counted."""

    def __init__(self, *held: int) -> None:
        self.gates = {number: asyncio.Event() for number in held}
        self.begun: list[int] = []
        self.cancelled: list[int] = []

    async def __call__(self, number: int) -> int:
        self.begun.append(number)
        try:
            if number in self.gates:
                await self.gates[number].wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        if number < 0:
            raise ValueError(number)
        return number * 10


class Source:
    """Numbers, one when it is asked for; before `stops_at` it waits, and its end is noted."""

    def __init__(self, count: int, stops_at: int | None = None) -> None:
        self.count = count
        self.stops_at = stops_at
        self.open = asyncio.Event()
        self.given = 0
        self.closed = False

    async def __call__(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self.count):
                if number == self.stops_at:
                    await self.open.wait()
                self.given += 1
                yield number
        finally:
            self.closed = True


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def soon(ahead: ReadAhead[int, int]) -> int:
    with anyio.fail_after(60):
        return await anext(ahead)


@pytest.mark.parametrize("kind", ["iterable", "async"])
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_results_come_in_the_order_of_the_items(kind: str, limit: int) -> None:
    items = range(20) if kind == "iterable" else Source(20)()
    async with ReadAhead(Work(), items, limit=limit) as ahead:
        assert [each async for each in ahead] == [number * 10 for number in range(20)]
        assert [each async for each in ahead] == []


@pytest.mark.parametrize("kind", ["iterable", "async"])
async def test_no_more_is_under_way_than_the_limit(kind: str) -> None:
    work, source = Work(*range(9)), Source(9)
    async with ReadAhead(work, range(9) if kind == "iterable" else source(), limit=3) as ahead:
        taking = asyncio.ensure_future(anext(ahead))
        await settled()
        assert work.begun == [0, 1, 2]
        assert kind == "iterable" or source.given == 3, "asked for when there is room"
        work.gates[1].set()
        await settled()
        assert work.begun == [0, 1, 2], "what is done and not taken counts"
        work.gates[0].set()
        assert await taking == 0
        await settled()
        assert work.begun == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["iterable", "async"])
async def test_the_budget_holds_but_for_one_item_that_is_always_let_in(kind: str) -> None:
    costs, work = [9, 1, 1, 1, 9], Work(*range(5))
    items = range(5) if kind == "iterable" else Source(5)()
    async with ReadAhead(work, items, limit=9, cost=costs.__getitem__, budget=3) as ahead:
        seen = []
        for number in range(5):
            taking = asyncio.ensure_future(anext(ahead))
            await settled()
            seen.append(list(work.begun))
            work.gates[number].set()
            assert await taking == number * 10
    assert seen == [[0], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


async def test_a_result_that_is_there_does_not_wait_for_the_next_item() -> None:
    source = Source(4, stops_at=2)
    async with ReadAhead(Work(), source(), limit=3) as ahead:
        assert [await soon(ahead), await soon(ahead)] == [0, 10]
        source.open.set()
        assert [await soon(ahead), await soon(ahead)] == [20, 30]


async def test_nor_for_work_on_later_items_through_a_chain() -> None:
    work = Work(2)
    first = ReadAhead(work, Source(4)(), limit=4)
    second = ReadAhead(Work(), first, limit=4)
    async with ReadAhead(Work(), second, limit=4) as ahead:
        assert [await soon(ahead), await soon(ahead)] == [0, 1000]
        work.gates[2].set()
        assert [await soon(ahead), await soon(ahead)] == [2000, 3000]


async def test_an_error_of_work_comes_after_the_results_before_it_and_ends_the_rest() -> None:
    work, source = Work(2), Source(9)

    async def numbers() -> AsyncIterator[int]:
        async for number in source():
            yield -7 if number == 1 else number

    async with ReadAhead(work, numbers(), limit=3) as ahead:
        assert await soon(ahead) == 0
        with pytest.raises(ValueError, match="-7"):
            await soon(ahead)
        assert work.cancelled == [2]
        with pytest.raises(StopAsyncIteration):
            await soon(ahead)


@pytest.mark.parametrize("error", [OSError("gone"), asyncio.CancelledError("not ours")])
async def test_so_does_an_error_of_the_items(error: BaseException) -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise error

    async with ReadAhead(Work(), numbers(), limit=5) as ahead:
        assert [await soon(ahead), await soon(ahead)] == [10, 20]
        with pytest.raises(type(error)):
            await soon(ahead)


def broken() -> list[int]:
    raise OSError("gone")


async def test_and_one_of_items_that_are_made_at_once() -> None:
    items = (number for many in ([1, 2], None) for number in (many or broken()))
    async with ReadAhead(Work(), items, limit=5) as ahead:
        assert [await soon(ahead), await soon(ahead)] == [10, 20]
        with pytest.raises(OSError, match="gone"):
            await soon(ahead)


async def test_closing_cancels_what_is_under_way_and_closes_the_items() -> None:
    work, source = Work(0, 1, 2), Source(9)
    ahead = ReadAhead(work, source(), limit=3)
    taking = asyncio.ensure_future(anext(ahead))
    await settled()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert work.cancelled == [0, 1, 2]
    assert source.closed
    await ahead.aclose()


async def test_closing_while_an_item_is_waited_for_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    source = Source(9, stops_at=0)
    async with ReadAhead(Work(), source(), limit=3) as ahead:
        with anyio.move_on_after(0.05):
            await anext(ahead)
    assert source.closed
    assert asyncio.all_tasks() == before


async def test_items_that_take_no_cancellation_begin_no_work_after_the_end() -> None:
    work = Work()

    class Stubborn:
        def __aiter__(self) -> Stubborn:
            return self

        async def __anext__(self) -> int:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(9)
            return 1

    before = asyncio.all_tasks()
    async with ReadAhead(work, Stubborn(), limit=3) as ahead:
        await ahead.begin()
        await settled()
    assert work.begun == []
    assert asyncio.all_tasks() == before


async def test_nothing_begins_before_it_is_asked_for() -> None:
    work, source = Work(), Source(9)
    async with ReadAhead(work, source(), limit=3) as ahead:
        await settled()
        assert (work.begun, source.given) == ([], 0)
        await ahead.begin()
        await settled()
        assert work.begun == [0, 1, 2]


async def test_what_was_given_is_not_kept() -> None:
    class Rows:
        pass

    async def made(_: int) -> Rows:
        return Rows()

    async with ReadAhead(made, Source(3)(), limit=1) as ahead:
        found = weakref.ref(await anext(ahead))
        await settled()
        gc.collect()
        assert found() is None


@pytest.mark.parametrize("turns", range(1, 12))
async def test_a_second_cancellation_while_it_closes_leaves_nothing_either(turns: int) -> None:
    before = asyncio.all_tasks()
    source = Source(9, stops_at=4)
    inner = ReadAhead(Work(1, 3), source(), limit=2)

    async def consume() -> None:
        async with ReadAhead(Work(), inner, limit=2) as ahead:
            async for _ in ahead:
                await asyncio.sleep(9)

    consuming = asyncio.ensure_future(consume())
    await settled()
    for _ in range(3):
        consuming.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
    await asyncio.wait([consuming])
    assert source.closed
    assert asyncio.all_tasks() == before


async def test_it_closes_in_order_though_the_end_of_the_loop_cancels_all_of_its_tasks() -> None:
    """As `asyncio.run` does; the closing, in a task of its own, is cancelled with the rest."""
    before = asyncio.all_tasks()
    ended: list[str] = []

    async def work(number: int) -> int:
        try:
            await asyncio.sleep(9)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            ended.append(f"work {number}")
        return number

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 0
            await asyncio.sleep(9)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            ended.append("items")

    ahead = ReadAhead(work, items(), limit=3)
    await ahead.begin()
    await settled()

    async def close() -> None:
        try:
            await ahead.aclose()
        finally:
            ended.append("closed")

    closing = asyncio.ensure_future(close())
    await settled()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert ended == ["items", "work 0", "closed"]


async def test_what_is_known_at_once_takes_its_turn_without_work() -> None:
    work = Work(1)
    ahead = ReadAhead(work, range(4), limit=4, at_once=lambda n: n + 0.5 if n % 2 == 0 else None)
    async with ahead:
        assert await anext(ahead) == 0.5
        second = asyncio.ensure_future(anext(ahead))
        await asyncio.sleep(0)
        assert not second.done()
        work.gates[1].set()
        assert [await second, *[found async for found in ahead]] == [10, 2.5, 30]
    assert work.begun == [1, 3]
