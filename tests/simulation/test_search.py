"""The reduced search reaches every state that the whole one does, in small programs by chance."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from adelta.errors import StorageError
from tests.simulation.search import Held, Search, Step
from tests.simulation.store import Bucket, Request, SimulatedStore
from tests.simulation.world import World
from tests.support.depth import cases

KINDS = ("get", "list", "put", "create", "delete")
FIXED, OTHERS = "a", ("b", "c")  # who has created the first one, deletes it no more

Together = list[tuple[str, str]]
"""Requests that are sent at once: kinds and paths."""


@dataclass
class Reached:
    """What a search has come to."""

    states: set[bytes] = field(default_factory=set)
    ends: set[bytes] = field(default_factory=set)


class Programs:
    """Processes, each of which sends some requests at once, then others when all are answered."""

    def __init__(self, programs: list[list[Together]], reached: Reached) -> None:
        self.world = World(1, shuffled=False)
        self.bucket = Bucket(self.world)
        self.network = Held(self.world, self.bucket, is_local, settles)
        self.programs = programs
        self.reached = reached

    async def main(self) -> None:
        """Let them go."""
        store = SimulatedStore(self.bucket, self.network)
        works = [
            self.world.process(f"p{number}").start(send(store, program))
            for number, program in enumerate(self.programs)
        ]
        await asyncio.gather(*works)

    def seen(self) -> None:
        """Count the state."""
        self.reached.states.add(self.network.state())

    def ended(self) -> None:
        """Count the end, which is what each has been told."""
        self.reached.ends.add(self.network.state())


async def send(store: SimulatedStore, program: list[Together]) -> None:
    """Send requests."""

    async def one(kind: str, path: str) -> None:
        with suppress(StorageError):
            match kind:
                case "get":
                    await store.get(path)
                case "list":
                    _ = [page async for page in store.list(path)]
                case "put":
                    await store.put(path, b"put")
                case "create":
                    await store.put_if_absent(path, b"created")
                case _:
                    await store.delete([path])

    for together in program:
        await asyncio.gather(*(one(*each) for each in together))


def is_local(request: Request, bucket: Bucket) -> bool:
    """What is created first stays, and whoever asks for it then may as well be told at once."""
    return request.kind == "get" and request.path == FIXED and FIXED in bucket.objects


def settles(request: Request) -> bool:
    """Whether it may have others be told at once."""
    return request.path == FIXED and not request.reads


def drawn(seed: int) -> list[list[Together]]:
    """Two or three processes."""
    draw = random.Random(seed)

    def request() -> tuple[str, str]:
        if draw.random() < 0.4:
            return draw.choice(("get", "create")), FIXED
        return draw.choice(KINDS), draw.choice(OTHERS)

    def program(requests: int) -> list[Together]:
        made: list[Together] = []
        while requests > 0:
            made.append([request() for _ in range(min(requests, draw.randint(1, 2)))])
            requests -= len(made[-1])
        return made

    return [program(requests) for requests in draw.choice([(3, 3), (2, 2, 2), (4, 2)])]


def searched(programs: list[list[Together]], *, reduced: bool) -> tuple[Reached, int]:
    """What is reached, and in how many runs."""
    reached = Reached()
    figures = Search(lambda: Programs(programs, reached), reduced=reduced).run()
    return reached, figures.runs


@pytest.mark.parametrize("seed", range(cases(100, 8)))
def test_leaving_out_orders_that_come_to_the_same_leaves_out_no_state(seed: int) -> None:
    (some, runs), (all_, most) = (searched(drawn(seed), reduced=each) for each in (True, False))
    assert some == all_
    assert runs <= most
    assert len(all_.states) > 5


def test_requests_are_left_out_where_others_are_not_told_by_them() -> None:
    programs = [[[("get", name)], [("put", name)]] for name in OTHERS]
    assert searched(programs, reduced=True)[1] < searched(programs, reduced=False)[1]


def test_where_it_is_not_seen_what_a_request_settles_states_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two answers that a process waits for at once come in one order alone, after another's put."""
    programs = [[[("get", FIXED), ("get", "b")]], [[("create", FIXED)]]]
    whole, _ = searched(programs, reduced=False)
    assert searched(programs, reduced=True)[0] == whole
    monkeypatch.setattr(Step, "meets", _meets)
    assert searched(programs, reduced=True)[0].states < whole.states


def _meets(one: Step, other: Step) -> bool:
    return one.process == other.process or one.request.meets(other.request)
