"""The worker threads of one event loop.

What waits for a thread lies in a queue of the threads' own, so that a thread that has done its work
goes on with the next at once, not when the loop gets round to it. Work that others wait for goes
before the rest. There are as many threads as work has needed at once, and they do most of it in
turn: a library that keeps memory for every thread keeps little.

The threads end with their loop. Where it outlives the program they end when the program does, after
what they are doing: none of them is in the middle of native code when the interpreter goes.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet, finalize

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["Workers"]

_Job: TypeAlias = "Callable[[], Callable[[], object] | None]"

_EXIT_SECONDS = 30.0  # to wait for threads at exit

_all: WeakSet[Workers] = WeakSet()


class _Jobs:
    """Jobs in the order in which they are to be done; None ends a thread."""

    __slots__ = ("_ahead", "_others", "_tickets")

    def __init__(self) -> None:
        self._ahead: deque[_Job] = deque()
        self._others: deque[_Job | None] = deque()
        self._tickets: queue.SimpleQueue[None] = queue.SimpleQueue()  # one for each job

    def put(self, job: _Job | None, *, ahead: bool = False) -> None:
        if ahead and job is not None:
            self._ahead.append(job)
        else:
            self._others.append(job)
        self._tickets.put(None)

    def get(self) -> _Job | None:
        self._tickets.get()
        try:
            return self._ahead.popleft()
        except IndexError:
            return self._others.popleft()


class Workers:
    """At most `most` threads that run what is submitted, first come, first served.

    Started one by one, when all the others are busy. They hold no reference to `loop`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._most = most
        self._jobs = _Jobs()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        _all.add(self)
        finalize(loop, _end, self._jobs, self._threads).atexit = False

    def submit(self, job: _Job, *, ahead: bool = False) -> None:
        """Run `job`, and what it returns as soon as its thread is free for another job.

        With `ahead` it goes before those that were submitted without.

        Neither raises anything. To be called by one thread alone.
        """
        self._jobs.put(job, ahead=ahead)
        if len(self._threads) < self._most and not self._idle.acquire(blocking=False):
            thread = threading.Thread(
                target=_work, args=(self._jobs, self._idle), name="adelta-worker", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def end(self) -> list[threading.Thread]:
        """Let the threads end when the queue is empty; the threads."""
        threads = self._threads[:]
        _end(self._jobs, self._threads)
        return threads


def _work(jobs: _Jobs, idle: threading.Semaphore) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        then = job()
        del job  # and what it refers to
        idle.release()
        if then is not None:
            then()
        del then


def _end(jobs: _Jobs, threads: list[threading.Thread]) -> None:
    for _ in threads:
        jobs.put(None)
    threads.clear()


def _end_all() -> None:
    threads = [thread for workers in list(_all) for thread in workers.end()]
    deadline = time.monotonic() + _EXIT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all.clear)  # a child has none of the threads
