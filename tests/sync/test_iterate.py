from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from adelta.sync._iterate import iterate
from adelta.sync._portal import call
from tests.support.waiting import rounds, until_true

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Source:
    """An async generator that writes down what happens to it."""

    def __init__(self, count: int = 3, *, stall: bool = False) -> None:
        self.seen: list[Any] = []
        self.tasks: set[Any] = set()
        self.stalled = threading.Event()
        self._count = count
        self._stall = stall

    async def items(self) -> AsyncIterator[int]:
        try:
            async with asyncio.timeout(60):
                for item in range(self._count):
                    self.tasks.add(asyncio.current_task())
                    await asyncio.sleep(0)
                    yield item
                if self._stall:
                    self.stalled.set()
                    await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            self.seen.append("closed")


async def settle() -> None:
    await rounds()


def test_an_async_generator_becomes_a_plain_iterator() -> None:
    source = Source()
    steps = iterate((), source.items)
    assert list(steps) == [0, 1, 2]
    assert source.seen == ["closed"]
    assert list(steps) == []


def test_all_steps_of_an_iteration_run_in_one_task() -> None:
    source = Source()
    assert list(iterate((), source.items)) == [0, 1, 2]
    assert len(source.tasks) == 1


def test_nothing_runs_before_the_first_item_is_asked_for() -> None:
    source = Source()
    steps = iterate((), source.items)
    call(settle)
    assert source.tasks == set()
    steps.close()
    assert source.seen == []
    assert list(steps) == []


def test_an_error_is_raised_once_and_then_the_iteration_is_over() -> None:
    async def fails() -> AsyncIterator[int]:
        yield 1
        raise OSError("gone")

    steps = iterate((), fails)
    assert next(steps) == 1
    with pytest.raises(OSError, match="gone"):
        next(steps)
    assert list(steps) == []


def test_wrong_arguments_are_refused_before_the_first_item() -> None:
    def refuses(number: int) -> AsyncIterator[int]:
        raise ValueError(number)

    with pytest.raises(ValueError, match="5"):
        iterate((), refuses, 5)


def test_leaving_the_block_closes_the_generator() -> None:
    source = Source()
    with iterate((), source.items) as steps:
        assert next(steps) == 0
    assert source.seen == ["closed"]
    assert list(steps) == []


def test_an_error_while_closing_is_raised_by_close() -> None:
    async def fails() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise OSError("cannot close")

    steps = iterate((), fails)
    next(steps)
    with pytest.raises(OSError, match="cannot close"):
        steps.close()


def test_a_generator_left_alone_is_closed_when_it_is_collected() -> None:
    source = Source()
    steps = iterate((), source.items)
    next(steps)
    del steps
    gc.collect()
    until_true(lambda: source.seen == ["closed"])


def test_a_finaliser_on_the_loops_own_thread_does_not_block() -> None:
    source = Source()
    kept = [iterate((), source.items)]
    next(kept[0])

    async def collect() -> None:
        kept.clear()

    call(collect)
    until_true(lambda: source.seen == ["closed"])


def test_closing_from_another_thread_ends_a_wait() -> None:
    source = Source(1, stall=True)
    steps = iterate((), source.items)
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.extend(steps))
    thread.start()
    assert source.stalled.wait(60)
    steps.close()
    thread.join(60)
    assert not thread.is_alive()
    assert got == [0]
    assert source.seen == ["closed"]


def test_threads_that_share_an_iterator_get_each_item_once() -> None:
    source = Source(200)
    steps = iterate((), source.items)
    with ThreadPoolExecutor(8) as threads:
        parts = list(threads.map(lambda _: list(steps), range(8)))
    assert sorted(item for part in parts for item in part) == list(range(200))


def test_an_item_is_not_kept_once_it_is_handed_over() -> None:
    class Batch:
        pass

    async def batches() -> AsyncIterator[Batch]:
        for _ in range(2):
            yield Batch()

    steps = iterate((), batches)
    first = weakref.ref(next(steps))
    call(settle)
    second = next(steps)
    call(settle)
    assert first() is None
    assert isinstance(second, Batch)
