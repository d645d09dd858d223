"""The threads that do what would hold an event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

import pytest

from adelta._concurrency import (
    CPU_THREADS,
    MOST_THREADS,
    ahead_of_others,
    in_engine_thread,
    in_io_thread,
    in_thread,
    map_concurrent,
    together,
)
from adelta.errors import InvalidUseError
from tests.support.waiting import rounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_asked: ContextVar[str] = ContextVar("asked")


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name in MOST_THREADS}


def test_one_call_after_the_other_is_done_by_one_thread_and_many_at_once_by_few() -> None:
    async def one_by_one() -> set[int]:
        return {await in_thread(threading.get_ident) for _ in range(50)}

    async def at_once() -> set[int]:
        async def one(_: int) -> int:
            return await in_thread(lambda: time.sleep(0.001) or threading.get_ident())

        return set(await map_concurrent(one, range(64), limit=64))

    assert len(asyncio.run(one_by_one())) == 1
    assert len(asyncio.run(at_once())) <= 16


def test_whatever_is_asked_at_once_a_loop_has_no_more_threads_than_that() -> None:
    async def bursts(at_once: int) -> dict[str, int]:
        all_have_asked = threading.Event()

        async def one(work: Callable[[Callable[[], object]], Awaitable[object]]) -> None:
            await work(all_have_asked.wait)

        async def let_go() -> None:
            await rounds()
            all_have_asked.set()

        engine = partial(in_engine_thread, interrupt=lambda: None)
        for _ in range(4):
            all_have_asked.clear()
            await together(
                *(partial(one, work) for work in (in_thread, in_io_thread, engine) * at_once),
                let_go,
            )
        return dict(Counter(thread.name for thread in _threads() - before))

    before = _threads()
    assert asyncio.run(bursts(3))["adelta-io"] <= 9
    for thread in _threads() - before:
        thread.join(60)
    assert asyncio.run(bursts(64)) == MOST_THREADS


def test_threads_end_with_their_loop() -> None:
    before = _threads()

    async def work() -> None:
        await in_thread(int)
        await in_io_thread(int)
        assert len(_threads() - before) == 2

    asyncio.run(work())
    gc.collect()
    for thread in _threads() - before:
        thread.join(60)
    assert _threads() <= before


async def test_a_call_has_the_context_of_its_caller() -> None:
    _asked.set("here")
    assert await in_thread(_asked.get) == "here"


async def test_what_others_wait_for_goes_before_the_rest() -> None:
    """One thread does all of it, while the others are busy: so the order is that of the jobs."""
    busy, done = [threading.Event() for _ in range(CPU_THREADS)], list[str]()

    async def run(name: str) -> None:
        if name.startswith("ahead"):
            with ahead_of_others():
                await together(lambda: in_thread(done.append, name))
        else:
            await in_thread(done.append, name)

    first = [asyncio.ensure_future(in_thread(event.wait)) for event in busy]
    await rounds()  # in which the loop does nothing but ask
    others, ahead = [f"other {n}" for n in range(20)], [f"ahead {n}" for n in range(5)]
    rest = [asyncio.ensure_future(run(name)) for name in (*others, *ahead)]
    await rounds()  # in which the loop does nothing but ask
    busy[0].set()
    await asyncio.gather(*rest)
    for event in busy:
        event.set()
    await asyncio.gather(*first)
    assert done == [*ahead, *others]


async def test_errors_arrive_as_they_are() -> None:
    def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await in_thread(fail)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(next, iter(()))


def test_a_program_ends_after_what_its_threads_are_doing() -> None:
    """A loop that was stopped in the middle leaves a thread at work."""
    program = """
import asyncio, threading, time
from adelta._concurrency import in_io_thread, in_thread

def work():
    begun.set()
    time.sleep(0.5)
    print("done", flush=True)

begun = threading.Event()
loop = asyncio.new_event_loop()
task = loop.create_task(in_thread(work))
loop.run_until_complete(in_io_thread(begun.wait))
task._log_destroy_pending = False
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_program_ends_after_the_threads_of_a_loop_that_is_gone() -> None:
    """A thread lets go of what it worked on after its answer, and that may be the loop's last."""
    program = """
import asyncio, gc, time
from adelta._workers import Workers

def let_go():
    time.sleep(0.5)
    print("done", flush=True)

def leave():
    loop = asyncio.new_event_loop()
    Workers(loop, 1, "worker").submit(let_go)
    loop.close()

leave()
gc.collect()
"""
    assert run(program) == (0, "done\n", "")


def run(program: str) -> tuple[int, str, str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def test_an_exit_handler_that_runs_after_adeltas_gets_new_threads_or_an_error() -> None:
    program = """
import asyncio, atexit
from adelta.errors import InvalidUseError

loop = asyncio.new_event_loop()

def late():
    try:
        print(loop.run_until_complete(in_thread(int)), flush=True)
    except InvalidUseError as error:
        assert "no thread can be started" in str(error)
        print(0, flush=True)
    finally:
        loop.close()

atexit.register(late)
from adelta._concurrency import in_thread
print(loop.run_until_complete(in_thread(int)), flush=True)
"""
    assert run(program) == (0, "0\n0\n", "")


def test_where_no_thread_can_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work() -> None:
        with pytest.raises(InvalidUseError, match="can't start new thread"):
            await in_thread(int)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        asyncio.run(work())

    async def one_alone() -> None:
        await in_thread(int)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert await asyncio.gather(*(in_thread(int) for _ in range(8))) == [0] * 8

    asyncio.run(one_alone())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_child_that_goes_on_with_its_parents_loop_has_threads_of_its_own() -> None:
    program = """
import asyncio, os, signal
from adelta._concurrency import in_io_thread, in_thread

loop = asyncio.new_event_loop()
for _ in range(2):
    loop.run_until_complete(in_thread(int))
    loop.run_until_complete(in_io_thread(int))
child = os.fork()
if child == 0:
    signal.alarm(20)
    loop.run_until_complete(in_thread(int))
    loop.run_until_complete(in_io_thread(int))
    os._exit(0)
print(os.waitpid(child, 0)[1], loop.run_until_complete(in_thread(int)))
loop.close()
"""
    assert run(program) == (0, "0 0\n", "")
