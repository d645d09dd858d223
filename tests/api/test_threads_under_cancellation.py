"""Worker threads whose task is cancelled: nothing that they use is taken from under them."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import anyio
import pytest

from adelta._concurrency import in_io_thread, in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.mark.parametrize("run", [in_thread, in_io_thread])
@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_call_that_runs_is_over_before_its_task_is(
    run: Callable[..., Awaitable[object]], by: str
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    over: list[str] = []
    scope = anyio.CancelScope()

    def work() -> None:
        begun.set()
        go_on.wait(60)
        over.append("thread")

    async def wait() -> None:
        with scope:
            try:
                await run(work)
            finally:
                over.append("task")

    task = asyncio.ensure_future(wait())
    await anyio.to_thread.run_sync(begun.wait)
    task.cancel() if by == "task" else scope.cancel()
    await asyncio.sleep(0.02)
    task.cancel()  # once more, while it waits
    await asyncio.sleep(0.02)
    assert over == []
    go_on.set()
    await asyncio.wait((task,))
    assert over == ["thread", "task"]
    # Whether a scope that is cancelled, too, passes that on is up to the version of anyio.
    assert task.cancelled() or by == "scope"


async def test_a_call_that_waits_for_a_thread_never_begins() -> None:
    all_threads = threading.Barrier(max(2, os.cpu_count() or 2) + 1)
    go_on = threading.Event()
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        if not go_on.is_set():
            all_threads.wait(60)
            go_on.wait(60)

    tasks = [asyncio.ensure_future(in_thread(work, number)) for number in range(64)]
    await anyio.to_thread.run_sync(all_threads.wait, 10)
    running = set(begun)
    for number, task in enumerate(tasks):
        if number not in running:
            task.cancel()
    go_on.set()
    await asyncio.wait(tasks)
    assert set(begun) == running
    assert len(running) < 64
