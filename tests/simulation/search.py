"""Every interleaving of the requests of some processes, by running them again and again.

A run is replayed up to where it is to differ, and goes on from there. What has been seen before is
not gone into again: a state is what the store holds, and where each process is, which follows from
the answers that it has had. Requests for the data files of a transaction, which no other process
asks for, are carried out at once. Of two requests that do not meet, both orders come to one state;
one is tried (sleep sets, kept with the states). A request by which others' answers become fixed, so
that they are carried out at once from then on, meets those of the processes that wait for them, and
those after which a process asks for such an answer and for something else at once: which of the two
it is told first is another state.
"""

from __future__ import annotations

import gc
import hashlib
import time
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from adelta.errors import AdeltaError, StorageError
from tests.simulation.store import Request
from tests.simulation.world import World, here

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from tests.simulation.store import Bucket
    from tests.simulation.world import Process

__all__ = ["Figures", "Scene", "Search", "Step"]

R = TypeVar("R")

Waiting = dict[str, set[str]]
"""The processes that have no answer yet to a request, by what the request is about."""

Asked = dict["Step", set[str]]
"""What some process has asked after a step, before the next one, while it waited for more."""

_NOBODY: set[str] = set()
_COLLECTED = 100  # runs


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a process: the how-manieth of its kind, for its path.

    One that `settles` something may let other processes' requests be carried out at once, of those
    that are about the same.
    """

    process: str
    request: Request
    number: int
    about: str = ""
    settles: bool = False

    def meets(self, other: Step, waiting: Waiting, asked: Asked) -> bool:
        """Whether it matters which of the two comes first, while others are `waiting`."""
        if self.process == other.process or self.request.meets(other.request):
            return True
        if any(
            one.settles and one.about in asked.get(before, ())
            for one, before in ((self, other), (other, self))
        ):
            return True
        mine, its = (
            waiting.get(each.about, _NOBODY) if each.settles else _NOBODY for each in (self, other)
        )
        return other.process in mine or self.process in its or not mine.isdisjoint(its)

    def __str__(self) -> str:
        return f"{self.process}: {self.request.kind} {self.request.path}"


@dataclass(slots=True)
class _Pending:
    step: Step
    effect: Callable[[], Any]
    answered: asyncio.Future[Any]


class _Past:
    """What a process has been told, which says where it is.

    Of answers that it has sent nothing after, the order does not count: it waits for others yet.
    """

    def __init__(self) -> None:
        self._closed = b""
        self._open: list[bytes] = []

    def add(self, said: bytes) -> None:
        """The process is told something."""
        self._open.append(said)

    def close(self) -> None:
        """The process goes on by what it has been told so far."""
        if self._open:
            self._closed, self._open = self.digest(), []

    def digest(self) -> bytes:
        """What stands for all of it."""
        past = hashlib.blake2b(self._closed, digest_size=16)
        for said in sorted(self._open):
            past.update(said + b"\n")
        return past.digest()


class _CutError(Exception):
    """The rest of a run is known."""


@dataclass
class Figures:
    """What a search has gone through; `depth` is in requests."""

    states: int = 0
    runs: int = 0
    depth: int = 0
    ends: int = 0
    seconds: float = 0.0

    def add(self, other: Figures) -> None:
        """Count those of another search as well; the depth is that of the deepest one."""
        self.states += other.states
        self.runs += other.runs
        self.ends += other.ends
        self.depth = max(self.depth, other.depth)
        self.seconds += other.seconds

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.runs} runs, {self.ends} ends, depth {self.depth}, "
            f"{self.seconds:.1f} s"
        )


class Held:
    """A network that keeps requests until it is told which one comes next.

    One that `is_local` is carried out at once; one that `settles` something may make others so, of
    those that are `about` the same.
    """

    def __init__(
        self,
        world: World,
        bucket: Bucket,
        is_local: Callable[[Step, Held], bool],
        settles: Callable[[Request], bool],
        about: Callable[[Request], str] = attrgetter("path"),
    ) -> None:
        self.world = world
        self.bucket = bucket
        self.is_local = is_local
        self.settles = settles
        self.about = about
        self.pending: list[_Pending] = []
        self.taken: list[Step] = []
        self.past: dict[str, _Past] = {}
        self.told: list[tuple[str, bytes]] = []
        self.asked: Asked = {}
        self.chosen: Step | None = None
        self._after: dict[str, list[Step]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}

    async def carry(self, request: Request, effect: Callable[[], R]) -> R:
        """The answer, when the request has had its turn."""
        process = here()
        if self.world.ended:
            raise StorageError("the world has ended")
        assert process is not None
        self._past(process.name).close()
        key = (process.name, request.kind, request.path)
        self._counts[key] = number = self._counts.get(key, 0) + 1
        step = Step(process.name, request, number, self.about(request), self.settles(request))
        pending = _Pending(step, effect, self.world.loop.create_future())
        self._note_beside(step)
        self.pending.append(pending)
        return await pending.answered  # type: ignore[no-any-return]

    def _note_beside(self, step: Step) -> None:
        """Note what a process waits for, where it is more than one answer.

        It counts for the step after which it asks, and for the last one after which it did before:
        where the two come in the other order, it asks after that one.
        """
        if self.chosen is None:
            return
        after = self._after.setdefault(step.process, [])
        if self.chosen not in after:
            after[:] = [*after[-1:], self.chosen]
        own = (each.step for each in self.pending if each.step.process == step.process)
        if beside := {each.about for each in own if each.request.kind != "crash"}:
            for each in after:
                self.asked.setdefault(each, set()).update(beside, {step.about})

    def take(self, pending: _Pending) -> None:
        """Carry a request out, and answer."""
        self.pending.remove(pending)
        step = pending.step
        self.taken.append(step)
        answer: Any
        try:
            answer = pending.effect()
        except AdeltaError as error:
            answer = error
        if not pending.answered.done():
            if isinstance(answer, AdeltaError):
                pending.answered.set_exception(answer)
            else:
                pending.answered.set_result(answer)
        said = f"{step} {step.number} {answer!r}".encode()
        self._past(step.process).add(said)
        self.told.append((step.process, said))

    def _past(self, process: str) -> _Past:
        return self.past.setdefault(process, _Past())

    def may_crash(self, process: Process) -> None:
        """Let the process fail at any moment, until it is `over`."""

        def crash() -> None:
            process.crash()
            self.over(process)

        step = Step(process.name, Request("crash", ""), 1)
        self.pending.append(_Pending(step, crash, self.world.loop.create_future()))

    def over(self, process: Process) -> None:
        """Nothing is to come of a process any more: what it had under way never arrives."""
        self.pending = [each for each in self.pending if each.step.process != process.name]

    def take_local(self) -> bool:
        """Carry out what nobody else can see; whether there was any."""
        local = [each for each in self.pending if self.is_local(each.step, self)]
        for each in local:
            self.take(each)
        return bool(local)

    def release(self) -> None:
        """Answer nobody any more."""
        for each in self.pending:
            if not each.answered.done():
                each.answered.set_exception(StorageError("the world has ended"))
                each.answered.exception()  # whoever waited for it may have crashed
        self.pending.clear()

    def waiting(self) -> Waiting:
        """Who waits for what."""
        found: Waiting = {}
        for each in self.pending:
            found.setdefault(each.step.about, set()).add(each.step.process)
        return found

    def state(self) -> bytes:
        """What stands for the state that the world is in."""
        told = hashlib.blake2b(digest_size=16)
        for path in sorted(self.bucket.objects):
            told.update(f"{path} {self.bucket.objects[path].meta.etag}\n".encode())
        for name in sorted(self.past):
            told.update(name.encode() + self.past[name].digest())
        return told.digest()


class Scene(Protocol):
    """What is searched: made anew for each run."""

    world: World
    network: Held

    def main(self) -> Coroutine[Any, Any, None]:
        """Everything that the processes do."""
        ...

    def seen(self) -> None:
        """A state has been reached."""
        ...

    def ended(self) -> None:
        """All processes have ended."""
        ...


@dataclass
class _Node:
    todo: list[Step]
    sleep: frozenset[Step]
    waiting: Waiting
    asked: Asked
    chosen: Step | None = None
    done: list[Step] = field(default_factory=list)

    def below(self) -> frozenset[Step]:
        """What need not be tried after the step that was chosen."""
        assert self.chosen is not None
        return frozenset(
            each
            for each in self.sleep.union(self.done)
            if not each.meets(self.chosen, self.waiting, self.asked)
        )

    def advance(self) -> bool:
        if self.chosen is not None:
            self.done.append(self.chosen)
        self.chosen = self.todo.pop(0) if self.todo else None
        return self.chosen is not None


class Search:
    """Goes through all interleavings of a scene.

    Without `reduced` it tries both orders of requests that do not meet, too. With `switches` it
    goes through those in which the process that goes on changes no oftener, where the one before
    could have gone on. `in_order` takes the requests that one process has sent at once in the order
    in which it sent them.
    """

    def __init__(
        self,
        scene: Callable[[], Scene],
        *,
        switches: int | None = None,
        in_order: bool = False,
        reduced: bool = True,
    ) -> None:
        self._scene = scene
        self._reduced = reduced and switches is None
        self._switches = switches
        self._in_order = in_order
        self._path: list[_Node] = []
        self._asleep: dict[bytes, frozenset[Step]] = {}
        self._asked: Asked = {}  # of all runs
        self.figures = Figures()

    def run(self) -> Figures:
        """Search."""
        began = time.process_time()
        while True:
            self._once()
            self.figures.runs += 1
            if self.figures.runs % _COLLECTED == 0:
                gc.collect()  # worlds that were still in use when the next one began
            while self._path and not self._path[-1].advance():
                self._path.pop()
            if not self._path:
                break
        self.figures.states = len(self._asleep)
        self.figures.seconds = time.process_time() - began
        return self.figures

    def _once(self) -> None:
        scene = self._scene()
        steps: list[Step] = []
        network = scene.network
        network.asked = self._asked

        def at_rest() -> bool:
            if network.take_local():
                return True
            if all(each.step.request.kind == "crash" for each in network.pending):
                return False
            depth = len(steps)
            if depth == len(self._path):
                scene.seen()
                self._path.append(self._node(network, steps))
            chosen = self._path[depth].chosen
            steps.append(next(p.step for p in network.pending if p.step == chosen))
            network.chosen = chosen
            self.figures.depth = max(self.figures.depth, len(steps))
            network.take(next(each for each in network.pending if each.step == chosen))
            return True

        scene.world.loop.at_rest = at_rest
        scene.world.on_end = network.release
        try:
            scene.world.run(scene.main)
        except _CutError:
            return
        scene.seen()
        scene.ended()
        self.figures.ends += 1

    def _node(self, network: Held, steps: list[Step]) -> _Node:
        """What is to be tried from the state that the world is in."""
        enabled = [each.step for each in network.pending]
        if self._in_order:
            enabled = [each for each in enabled if each in _first_ones(enabled)]
        state, sleep = network.state(), frozenset[Step]()
        if self._switches is not None:
            enabled, left = self._within_bound(enabled, steps, self._switches)
            state += f"{left} {steps[-1].process if steps else None}".encode()
        elif steps and self._reduced:
            sleep = self._path[-1].below()
        if state in self._asleep:
            before = self._asleep[state]
            todo = [each for each in enabled if each in before and each not in sleep]
            sleep &= before
        else:
            todo = [each for each in enabled if each not in sleep]
        self._asleep[state] = sleep
        node = _Node(todo, sleep, network.waiting(), self._asked)
        if not node.advance():
            raise _CutError
        return node

    @staticmethod
    def _within_bound(
        enabled: list[Step], steps: list[Step], switches: int
    ) -> tuple[list[Step], int]:
        """What may come next, and how many switches are left."""
        made = sum(one.process != other.process for one, other in pairwise(steps))
        own = [each for each in enabled if steps and each.process == steps[-1].process]
        return (own if own and made >= switches else enabled), switches - made


def _first_ones(enabled: list[Step]) -> set[Step]:
    """The first request of each process, and that it crashes."""
    first: dict[tuple[str, bool], Step] = {}
    for each in enabled:
        first.setdefault((each.process, each.request.kind == "crash"), each)
    return {*first.values()}
