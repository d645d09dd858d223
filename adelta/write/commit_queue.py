"""CommitQueue: the transactions of one process on one table commit one after the other.

Tasks of one service would otherwise race each other for every version, and lose in turn. In the
queue each goes behind the one before it by what that one has just committed, without a request:
a commit is one put, as if there were nobody else. It is fair: who comes first goes first. Writers
in other processes are met as ever, by losing a race.

Blind appends that wait together may become one commit, where all of them ask for that. One of them
makes it for all; each is judged for itself, and what is wrong with one does not fail the others.

A cancelled transaction leaves the queue at once, unless an attempt for it is under way: then it
waits until it is certain what becomes of that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio

from adelta._concurrency import to_the_end
from adelta.errors import AdeltaError, CommitConflictError
from adelta.write.commit_loop import commit_step
from adelta.write.group_commit import can_join, is_groupable
from adelta.write.recent_commits import RecentCommits
from adelta.write.winners import read_winners

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from adelta.storage.object_store import ObjectStore
    from adelta.write.commit_loop import CommitResult, Submission

__all__ = ["CommitQueue", "QueueOfTable"]


class _Place:
    """A place in the queue."""

    __slots__ = ("awake", "free", "submission", "taken")

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.awake = anyio.Event()  # set when it is this one's turn, or when it is settled
        self.taken = False  # in the attempt of another one
        self.free = anyio.Event()  # set when that attempt has ended

    @property
    def settled(self) -> bool:
        return self.submission.outcome is not None


class CommitQueue:
    """The queue of one table, for the tasks of one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[_Place] = deque()
        self._turn: _Place | None = None
        self._recent = RecentCommits()

    async def commit(self, submission: Submission) -> CommitResult:
        """Commit, when the turn has come.

        Raises:
            CommitConflictError: another commit came first and the work has to be done again, or
                there was no more time.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; certainly nothing was committed.
        """
        place = _Place(submission)
        self._waiting.append(place)
        self._next()
        try:
            await self._wait(place)
            while not place.settled:
                await to_the_end(self._step(place))
        except Exception as error:
            submission.settle_doubt(error)
            if not place.settled:
                raise
        finally:
            self._leave(place)
        return submission.result()

    async def _wait(self, place: _Place) -> None:
        if place.awake.is_set():
            return
        try:
            with anyio.CancelScope(deadline=place.submission.deadline):
                await place.awake.wait()
        finally:
            if place.taken:  # an attempt is not torn, whoever makes it
                await to_the_end(place.free.wait())
        if not place.awake.is_set() and not place.settled:
            submission = place.submission
            submission.settle(
                CommitConflictError(
                    f"{submission.state.root}: the commit waited for {submission.timeout:g} s "
                    "behind other commits of this process; nothing was committed, try again when "
                    "there are fewer of them"
                )
            )

    def _next(self) -> None:
        if self._turn is None and self._waiting:
            self._turn = self._waiting.popleft()
            self._turn.awake.set()

    def _leave(self, place: _Place) -> None:
        if place is self._turn:
            self._turn = None
            self._next()
        elif place in self._waiting:
            self._waiting.remove(place)

    async def _step(self, place: _Place) -> None:
        """One attempt for the one whose turn it is, and for all who may go with it."""
        await self._catch_up(place.submission)
        if place.settled:
            return
        others: list[_Place] = []
        attempts = place.submission.attempts
        try:
            await self._take_companions(place.submission, others)
            group = [place.submission, *(other.submission for other in others)]
            try:
                await commit_step(group, self._recent)
            except AdeltaError:
                if not others or place.submission.attempts > attempts:
                    raise
                await commit_step(group[:1], self._recent)  # what is wrong concerns one alone
        finally:
            for other in others:
                self._release(other)

    def _release(self, place: _Place) -> None:
        place.taken = False
        place.submission.settle_doubt()
        place.free.set()
        place.free = anyio.Event()
        if place.settled:
            self._waiting.remove(place)
            place.awake.set()

    async def _catch_up(self, submission: Submission) -> None:
        """Go behind the commits that are known here; those before them are read."""
        known = self._recent.after(submission.state)
        if known is None:
            winners = await read_winners(submission.state, lost=2)
            known = self._recent.note(submission.state, winners)
        await submission.follow(known)

    async def _take_companions(self, leader: Submission, taken: list[_Place]) -> None:
        """Take all who wait and may be one commit with `leader`."""
        if not leader.group or not is_groupable(leader.staged, leader.read):
            return
        members = [leader.staged]
        for place in tuple(self._waiting):
            each = place.submission
            if place.settled or not each.group or each.level is not leader.level:
                continue
            if not is_groupable(each.staged, each.read) or not can_join(members, each.staged):
                continue
            place.taken = True
            taken.append(place)
            await each.follow(self._recent.after(each.state) or ())
            if each.outcome is None and each.state.version == leader.state.version:
                members.append(each.staged)
            else:
                taken.remove(place)
                self._release(place)


_Queues = WeakValueDictionary["Hashable", CommitQueue]
_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queues] = WeakKeyDictionary()


class QueueOfTable:
    """Finds the queue of a table in the event loop that is running, and keeps it.

    Handles with the same address, the same options and the same catalog's client have one queue.
    The queue of a store that was opened elsewhere is that store's alone.
    """

    def __init__(
        self, store: ObjectStore, options: Mapping[str, str] | None, catalog: object | None = None
    ) -> None:
        self._store = store
        self._key: Hashable = id(store)
        if options is not None:
            self._key = (store.uri, tuple(sorted(options.items())), id(catalog))
        self._queue: CommitQueue | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> CommitQueue:
        """The queue."""
        loop = asyncio.get_running_loop()
        if self._queue is None or self._loop is not loop:
            queues = _queues.setdefault(loop, WeakValueDictionary())
            self._queue = queues.get(self._key) or CommitQueue()
            queues[self._key] = self._queue
            self._loop = loop
        return self._queue
