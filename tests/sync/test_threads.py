from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from adelta.sync import _portal
from adelta.sync._portal import Portal, call, current

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

THREADS = 32


def test_threads_that_race_for_the_first_call_get_one_portal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_portal, "_portal", None)
    barrier = threading.Barrier(THREADS)
    made: list[Portal] = []

    def first_call() -> Portal:
        barrier.wait()
        return current()

    with ThreadPoolExecutor(THREADS) as threads:
        made = [f.result() for f in [threads.submit(first_call) for _ in range(THREADS)]]
    assert len(set(made)) == 1
    made[0].stop()


def test_calls_of_many_threads_are_under_way_at_once() -> None:
    arrived = 0
    everyone = asyncio.Event()

    async def meet() -> int:
        nonlocal arrived
        arrived += 1
        if arrived == THREADS:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), 60)
        return arrived

    with ThreadPoolExecutor(THREADS) as threads:
        found = [f.result() for f in [threads.submit(call, meet) for _ in range(THREADS)]]
    assert found == [THREADS] * THREADS


def test_32_threads_share_one_table(lake: ModuleType, name: str) -> None:
    barrier = threading.Barrier(THREADS)
    with lake.open_table(name) as table:

        def work(row: int) -> list[int]:
            barrier.wait()
            with table.transaction() as tx:
                tx.append(iter([row]))
            snapshot = table.snapshot()
            return list(snapshot.scan().each()) + snapshot.scan().rows()

        with ThreadPoolExecutor(THREADS) as threads:
            seen = list(threads.map(work, range(100, 100 + THREADS)))
        assert all(row in rows for row, rows in zip(range(100, 132), seen, strict=True))
        assert table.snapshot().version == 2 + THREADS
        assert sorted(table.snapshot().scan().rows()) == [1, 2, 3, *range(100, 100 + THREADS)]
