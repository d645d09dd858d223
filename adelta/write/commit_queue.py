"""CommitQueue: the transactions of one process on one table commit one after the other.

Tasks of one service would otherwise race each other for every version, and lose in turn. In the
queue each goes behind the one before it by what that one has just committed, without a request:
a commit is one put, as if there were nobody else. It is fair: who comes first goes first. Writers
in other processes are met as ever, by losing a race.

Blind appends that wait together may become one commit, where all of them ask for that. One of them
makes it for all; each is judged for itself, and what is wrong with one does not fail the others.

Who has the turn is decided in one place, `_assign`, which never waits. Each transaction holds a
place, and waits until its phase has changed. A cancelled transaction leaves the queue at once,
unless an attempt for it is under way: then it waits until it is certain what becomes of that.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import ahead_of_others, to_the_end
from adelta.errors import AdeltaError, CommitConflictError
from adelta.write.base_age import BaseAge
from adelta.write.commit_loop import commit_step, commit_step_over
from adelta.write.group_commit import can_join, is_groupable
from adelta.write.recent_commits import RecentCommits
from adelta.write.submission import settle_rest
from adelta.write.winners import list_winners, read_winners

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from adelta.log.state import LogState
    from adelta.write.submission import CommitResult, Submission

__all__ = ["CommitQueue", "commit_over"]


class _Phase(Enum):
    WAITING = "waits for its turn"
    LEADING = "has the turn, for itself and for those who go with it"
    JOINED = "is in the attempt of the one that has the turn"
    LEAVING = "is in that attempt, and leaves when it has ended"
    LEFT = "is not in the queue any more"


class _Place:
    """A transaction's place in the queue."""

    __slots__ = ("_changed", "phase", "submission")

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.phase = _Phase.WAITING
        self._changed = anyio.Event()

    @property
    def settled(self) -> bool:
        return self.submission.outcome is not None

    def move(self, phase: _Phase) -> None:
        """Enter a phase, and wake who waits for that."""
        self.phase = phase
        self._changed.set()
        self._changed = anyio.Event()

    async def changes(self) -> None:
        """Wait until the phase has changed. Others may change it again before the caller runs."""
        await self._changed.wait()

    async def is_left(self) -> None:
        """Wait until the place is given up."""
        while self.phase is not _Phase.LEFT:
            await self._changed.wait()


class CommitQueue:
    """The queue of one table, for the tasks of one event loop."""

    def __init__(self) -> None:
        self._places: list[_Place] = []  # in the order in which they came
        self._attempt: list[_Place] = []  # who has the turn, and then those who go with it
        self._recent = RecentCommits()
        self.is_compacting = False  # after a commit of one of those who share the queue

    @property
    def num_places(self) -> int:
        """How many transactions wait, or are being committed."""
        return len(self._places)

    def newest(self, state: LogState) -> LogState | None:
        """The newest version that follows from `state` by what is known here. No I/O.

        None where newer ones are known here, and not all that came in between.
        """
        known = self._recent.after(state)
        return None if known is None else state.advance(known)

    async def commit(self, submission: Submission) -> CommitResult:
        """Commit, when the turn has come.

        Raises:
            CommitConflictError: another commit came first and the work has to be done again, or
                there was no more time.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; certainly nothing was committed.
        """
        await _commit_in_turn([(self, _Place(submission))], self._make_attempt)
        return submission.result()

    # --------------------------------------------------------------------------- whose turn it is

    def _assign(self) -> None:
        """Give the turn to the first who waits, together with all who may go with it."""
        if self._attempt:
            return
        waiting = (p for p in self._places if p.phase is _Phase.WAITING and not p.settled)
        leader = next(waiting, None)
        if leader is None:
            return
        self._attempt = [leader, *self._companions(leader.submission, waiting)]
        for place in self._attempt:
            place.move(_Phase.LEADING if place is leader else _Phase.JOINED)

    def _companions(self, leader: Submission, waiting: Iterator[_Place]) -> Iterator[_Place]:
        """Those who wait and may be one commit with `leader`."""
        if not _is_groupable(leader):
            return
        members = [leader.staged]
        for place in waiting:
            each = place.submission
            if (
                _is_groupable(each)
                and each.level is leader.level
                and each.state is not None
                and leader.is_of_same_table(each)
                and self._recent.after(each.state) is not None
                and can_join(members, each.staged, leader.root)
            ):
                members.append(each.staged)
                yield place

    def _end_attempt(self) -> None:
        """Take the turn back, and give it to the next."""
        ended, self._attempt = self._attempt, []
        for place in ended:
            place.submission.settle_doubt()
            place.move(_Phase.LEFT if place.phase is _Phase.LEAVING else _Phase.WAITING)
        self._assign()

    async def _turn(self, place: _Place) -> None:
        """Wait until the turn has come, or the submission is settled, be it by the deadline."""
        submission = place.submission
        try:
            while place.phase is not _Phase.LEADING and not place.settled:
                if place.phase is _Phase.JOINED:
                    await place.changes()
                    continue
                with anyio.CancelScope(deadline=submission.deadline) as scope:
                    await place.changes()
                if scope.cancelled_caught and place.phase is _Phase.WAITING:
                    submission.settle(
                        CommitConflictError(
                            f"{submission.root}: the commit waited for {submission.timeout:g} s "
                            "behind other commits of this process; nothing was committed, try "
                            "again when there are fewer of them"
                        )
                    )
        finally:
            if place.phase is _Phase.JOINED and not place.settled:
                place.phase = _Phase.LEAVING  # an attempt is not torn, whoever makes it
                await to_the_end(place.is_left())

    def _leave(self, place: _Place) -> None:
        self._places.remove(place)
        if self._attempt and self._attempt[0] is place:  # it goes without having made its attempt
            self._end_attempt()
        self._assign()

    # ------------------------------------------------------------------------------- the attempts

    async def _make_attempt(self) -> None:
        """One attempt for the one whose turn it is, and for all who go with it."""
        with self._attempting():
            leader, *others = (place.submission for place in self._attempt)
            await self._catch_up(leader)
            if leader.outcome is None:
                await self._commit(leader, others)

    @contextmanager
    def _attempting(self) -> Iterator[None]:
        """The attempt of those whose turn it is: it leaves no doubt, and ends their turn."""
        try:
            yield
        except Exception as error:
            for place in self._attempt:
                place.submission.settle_doubt(error)
            raise
        finally:
            if any(place.submission.lost_base for place in self._attempt):
                self._recent.forget()
            self._end_attempt()

    async def _catch_up(self, leader: Submission) -> None:
        """Go behind the commits that are known here; those before them are read."""
        if leader.state is None:
            return
        known = self._recent.after(leader.state)
        if known is None and not leader.age.is_great:
            winners = await read_winners(leader.state, lost=2)
            if winners.damage is not None:
                raise winners.damage
            if not winners.follow_base:
                leader.settle_without_base()
                return
            known = winners.commits
            self._recent.note(leader.state.metadata.id, known)
        await leader.follow(known or ())
        if leader.outcome is None and leader.age.is_great:
            await self._look_again(leader)

    async def _look_again(self, leader: Submission) -> None:
        """Go behind all commits that the log has, for one whose base was the latest long ago."""
        assert leader.state is not None
        age, winners = BaseAge.new(leader.clock), await list_winners(leader.state)
        if not winners.follow_base:
            leader.settle_without_base()
            return
        self._recent.note(leader.state.metadata.id, winners.commits)
        await leader.follow(winners.commits)
        leader.age = age

    async def _commit(self, leader: Submission, others: Sequence[Submission]) -> None:
        attempts = leader.attempts
        group = [leader]
        for each in others:
            if each.state is not None:
                known = self._recent.after(each.state) or ()
                await each.follow(known)
            behind = each.next_version == leader.next_version and leader.is_of_same_table(each)
            if each.outcome is None and behind:
                group.append(each)
        try:
            await commit_step(group, self._recent)
        except AdeltaError:
            if len(group) == 1 or leader.attempts > attempts:
                raise
            await commit_step(group[:1], self._recent)  # what is wrong concerns one alone


async def commit_over(members: Sequence[tuple[CommitQueue, Submission]]) -> list[CommitResult]:
    """Commit changes of several tables, all or none, when the turn has come in all their queues.

    Each table is given with its queue. Where it raises, nothing of any is committed, unless it is
    unknown what became of all.

    Raises: as `CommitQueue.commit` does.
    """
    # All take their turns in one order, so that two do not wait for each other.
    inside = sorted(members, key=lambda member: (member[1].root, id(member[0])))
    places = [(queue, _Place(submission)) for queue, submission in inside]

    async def make_attempt() -> None:
        with ExitStack() as stack:
            for queue, _ in inside:
                stack.enter_context(queue._attempting())
            for queue, submission in inside:
                await queue._catch_up(submission)
            if all(submission.outcome is None for _, submission in inside):
                await commit_step_over([(each, queue._recent) for queue, each in inside])

    await _commit_in_turn(places, make_attempt)
    submissions = [submission for _, submission in members]
    settle_rest(submissions)
    for submission in submissions:
        failure = submission.outcome
        if isinstance(failure, CommitConflictError):
            failure.name_table()
        if isinstance(failure, Exception):
            raise failure
    return [submission.result() for submission in submissions]


async def _commit_in_turn(
    places: Sequence[tuple[CommitQueue, _Place]], make_attempt: Callable[[], Awaitable[None]]
) -> None:
    """Make attempts, each when the turn has come in all queues, until a place is settled."""
    for queue, place in places:
        queue._places.append(place)
    try:
        for queue, _ in places:
            queue._assign()
        while not _any_settled(places):
            for queue, place in places:
                await queue._turn(place)
                if place.settled:
                    break
            else:
                with ahead_of_others():  # the queue waits for it
                    await to_the_end(make_attempt())
    except Exception:
        if not _any_settled(places):
            raise
    finally:
        for queue, place in places:
            queue._leave(place)


def _any_settled(places: Sequence[tuple[CommitQueue, _Place]]) -> bool:
    return any(place.settled for _, place in places)


def _is_groupable(submission: Submission) -> bool:
    return submission.group and is_groupable(submission.staged, submission.read)
