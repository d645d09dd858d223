"""The same seed makes the same run, byte for byte; and a world is what it says it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from adelta._clock import monotonic
from adelta._concurrency import in_thread, together
from adelta.errors import ObjectExistsError, ObjectNotFoundError
from tests.simulation.exclusion import EXCLUDES
from tests.simulation.loop import StuckError
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.store import Bucket, Direct, SimulatedStore
from tests.simulation.world import World, here

ROOT = Path(__file__).parents[2]
PLAN = Plan(seed=5, writers=2, commits=4, faults=30, vectors=True, checkpoint_every=3)


def printed(program: list[str], hash_seed: str) -> str:
    """What a program prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, *program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_the_same_seed_gives_the_same_trace_in_other_processes_and_after_other_runs() -> None:
    program = PLAN.command().split()[1:]
    first = printed(program, "1")
    assert len(first.splitlines()) > 100
    assert printed(program, "2") == first
    run(Plan(seed=6, writers=1, commits=1))
    assert run(PLAN, traced=True).digest in first


def test_so_it_does_whatever_excludes_writers_and_whoever_dies_or_follows() -> None:
    plans = [
        replace(PLAN, commits=2, crashes=3, tailers=1, excludes=each)
        for each in sorted({*EXCLUDES} - {PLAN.excludes})
    ]
    plans.append(replace(PLAN, commits=2, tasks=3))
    program = (
        "from tests.simulation.plan import Plan; from tests.simulation.run import run;"
        f"print(*(run(each, traced=True).digest for each in {plans!r}))"
    )
    first, second = (printed(["-c", program], seed).split() for seed in "12")
    assert first == second
    assert first == [run(each, traced=True).digest for each in plans]
    assert len({*first}) == len(plans)


def test_another_seed_gives_another_trace() -> None:
    one, other = (run(Plan(seed, writers=1, commits=1), traced=True) for seed in (1, 2))
    assert one.trace != other.trace


def test_time_passes_only_where_somebody_waits_for_it() -> None:
    world, began = World(1), time.monotonic()

    async def main() -> float:
        await anyio.sleep(86_400)
        with anyio.move_on_after(3600):
            await anyio.Event().wait()
        return monotonic()

    assert world.run(main) == pytest.approx(90_000)
    assert time.monotonic() - began < 60


def test_tasks_and_jobs_for_threads_take_turns_as_the_seed_says() -> None:
    async def main() -> tuple[int, ...]:
        order: list[int] = []

        async def one(number: int) -> None:
            await in_thread(order.append, number)

        await together(*((lambda n=n: one(n)) for n in range(4)))
        return tuple(order)

    orders = [World(seed).run(main) for seed in range(12)]
    assert len(set(orders)) > 3
    assert orders == [World(seed).run(main) for seed in range(12)]


def test_a_process_that_crashes_does_nothing_any_more_not_even_to_clean_up() -> None:
    world, did = World(1), list[str]()

    async def work() -> None:
        try:
            await anyio.sleep(1)
            did.append("woke up")
        finally:
            if not world.ended:
                did.append("cleaned up")

    async def main() -> None:
        process = world.process("p")
        process.start(work())
        await anyio.sleep(0.5)
        process.crash()
        await anyio.sleep(5)
        assert here() is None

    world.run(main)
    assert did == []


def test_waiting_for_what_never_comes_is_an_error() -> None:
    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(StuckError):
        World(1).run(main)


def test_the_store_keeps_the_contract_of_the_port() -> None:
    world = World(1)
    store = SimulatedStore(Bucket(world), Direct())

    async def main() -> None:
        await store.put("a/2", b"two")
        await store.put_if_absent("a/1", b"one")
        with pytest.raises(ObjectExistsError):
            await store.put_if_absent("a/1", b"other")
        await store.put("b", b"")
        assert [m.path async for page in store.list("a/") for m in page] == ["a/1", "a/2"]
        assert [m.path async for page in store.list("", recursive=False) for m in page] == ["b"]
        assert [m.path async for page in store.list(start_after="a/1") for m in page] == [
            "a/2",
            "b",
        ]
        assert await store.get_ranges("a/1", [(0, 1), (1, 3)]) == [b"o", b"ne"]
        await store.delete(["a/1", "none"])
        assert (await store.get_suffix("a/2", 2)).data == b"wo"

    world.run(main)


def test_a_listing_that_lags_leaves_out_new_objects_for_a_while_and_has_pages_of_any_size() -> None:
    world = World(1)
    lags = iter([0.0, 5.0, 0.0])
    bucket = Bucket(world, page_size=2, lag=lambda: next(lags))
    store = SimulatedStore(bucket, Direct())

    async def main() -> None:
        for name in "abc":
            await store.put(name, b"")
        assert [m.path async for page in store.list("") for m in page] == ["a", "c"]
        assert await store.get("b") == b""
        await anyio.sleep(6)
        assert [[m.path for m in page] async for page in store.list("")] == [["a", "b"], ["c"]]

    world.run(main)


def test_a_listing_that_lags_shows_what_was_deleted_for_a_while_unless_it_is_put_again() -> None:
    world = World(1)
    bucket = Bucket(world, lag=lambda: 5.0 if world.loop.time() else 0.0)

    def listed() -> list[str]:
        return [meta.path for meta in bucket.page("", "", recursive=True)]

    async def main() -> None:
        for name in "abc":
            bucket.put(name, b"1")
        await anyio.sleep(1.0)
        bucket.delete("a")
        bucket.delete("c")
        assert listed() == ["a", "b", "c"]
        with pytest.raises(ObjectNotFoundError):
            bucket.find("a")
        bucket.put("c", b"2")
        await anyio.sleep(5.0)
        assert listed() == ["b", "c"]
        bucket.delete("c")
        await anyio.sleep(5.0)
        assert listed() == ["b"]

    world.run(main)
