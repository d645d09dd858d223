"""The worker threads of one event loop.

What waits for a thread lies in a queue of the threads' own, so that a thread that has done its work
goes on with the next at once, not when the loop gets round to it. Work that others wait for goes
before the rest. There are as many threads as work has needed at once, and they do most of it in
turn: a library that keeps memory for every thread keeps little.

The threads end with their loop, after what they are doing, and the program ends after them: none of
them is in the middle of native code when the interpreter goes.
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

from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["Workers", "no_thread"]

_Job: TypeAlias = "Callable[[], Callable[[], object] | None]"

_EXIT_SECONDS = 30.0  # to wait for threads at exit

_all: WeakSet[Workers] = WeakSet()
_threads: WeakSet[threading.Thread] = WeakSet()  # also of loops that are gone


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


class _Crew:
    """Threads, the jobs that they do until they are told to end, and a count of the idle ones."""

    __slots__ = ("idle", "jobs", "name", "threads")

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs = _Jobs()
        self.idle = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def start_one(self) -> None:
        thread = threading.Thread(
            target=_work, args=(self.jobs, self.idle), name=self.name, daemon=True
        )
        thread.start()
        self.threads.append(thread)
        _threads.add(thread)


def no_thread(error: RuntimeError) -> InvalidUseError:
    """The error of work that is to be done in a new thread, where none can be started."""
    return InvalidUseError(
        f"no thread can be started for adelta's work: {error}. Where the program is ending, await "
        "adelta earlier: before its exit handlers are run"
    )


class Workers:
    """At most `most` threads of that name that run what is submitted, first come, first served.

    Started one by one, when all the others are busy. They hold no reference to `loop`. After `end`,
    as in a forked child, what is submitted gets new ones.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, name: str) -> None:
        self._most = most
        self._crew = _Crew(name)
        _all.add(self)
        finalize(loop, self.end).atexit = False

    def submit(self, job: _Job, *, ahead: bool = False) -> None:
        """Run `job`, and what it returns as soon as its thread is free for another job.

        With `ahead` it goes before those that were submitted without. Neither the job nor what it
        returns may raise anything. To be called by one thread alone.

        Raises:
            InvalidUseError: there is no thread, and none can be started.
        """
        crew = self._crew
        if len(crew.threads) < self._most and not crew.idle.acquire(blocking=False):
            try:
                crew.start_one()
            except RuntimeError as error:
                if not crew.threads:  # else one of them does it in its turn
                    raise no_thread(error) from error
        crew.jobs.put(job, ahead=ahead)

    def end(self) -> None:
        """Let the threads end when what was submitted is done."""
        crew, self._crew = self._crew, _Crew(self._crew.name)
        for _ in crew.threads:
            crew.jobs.put(None)

    def leave(self) -> None:
        """Begin anew in a forked child, which has none of the threads."""
        _left.append(self._crew)
        self._crew = _Crew(self._crew.name)


_left: list[_Crew] = []  # whose jobs must not be collected inside a fork's hook


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


def _end_all() -> None:
    for workers in list(_all):
        workers.end()
    deadline = time.monotonic() + _EXIT_SECONDS
    for thread in list(_threads):
        thread.join(max(0.0, deadline - time.monotonic()))


def _leave_all() -> None:
    for workers in list(_all):
        workers.leave()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
