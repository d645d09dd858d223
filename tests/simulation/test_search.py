"""The reduced search reaches every state that the whole one does, in small programs by chance."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from adelta.errors import StorageError
from tests.simulation.search import Held, Search, Step
from tests.simulation.store import Bucket, Request, SimulatedStore
from tests.simulation.world import World, here
from tests.support.depth import cases

KINDS = ("get", "list", "put", "create", "delete")
OWN = ("keep", "")  # which puts an object that no other process asks for
FIXED, OTHERS = "a", ("b", "c")  # who has created the first one, deletes it no more

Ask = tuple[Any, ...]
"""A request: its kind and path, and others that are sent at once when it has its answer."""

Together = list[Ask]
"""Requests that are sent at once."""

Chains = list[list[Together]]
"""What a process does side by side: each sends some at once, then others when it has answers."""


@dataclass
class Reached:
    """What a search has come to."""

    states: set[bytes] = field(default_factory=set)
    ends: set[bytes] = field(default_factory=set)


class Programs:
    """Processes, each of which has chains of requests."""

    def __init__(self, programs: list[Chains], reached: Reached) -> None:
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


async def send(store: SimulatedStore, program: Chains) -> None:
    """Send requests."""

    async def one(kind: str, path: str, *after: Ask) -> None:
        with suppress(StorageError):
            match kind:
                case "keep":
                    await store.put(_own_path(), b"kept")
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
        await asyncio.gather(*(one(*each) for each in after))

    async def chain(links: list[Together]) -> None:
        for together in links:
            await asyncio.gather(*(one(*each) for each in together))

    await asyncio.gather(*map(chain, program))


def _own_path() -> str:
    process = here()
    assert process is not None
    return process.name


def is_local(step: Step, network: Held) -> bool:
    """What is created first stays, and whoever asks for it then may as well be told at once."""
    request = step.request
    if request.path == step.process:
        return True
    return request.kind == "get" and request.path == FIXED and FIXED in network.bucket.objects


def settles(request: Request) -> bool:
    """Whether it may have others be told at once."""
    return request.path == FIXED and not request.reads


def drawn(seed: int) -> list[Chains]:
    """Two or three processes."""
    draw = random.Random(seed)

    def request() -> Ask:
        chance = draw.random()
        if chance < 0.4:
            return draw.choice(("get", "create")), FIXED
        after = [request(), (*OWN, request())] if chance > 0.9 else []
        return draw.choice(KINDS), draw.choice(OTHERS), *after

    def program(requests: int) -> list[Together]:
        made: list[Together] = []
        while requests > 0:
            made.append([request() for _ in range(min(requests, draw.randint(1, 2)))])
            requests -= len(made[-1])
        return made

    numbers = draw.choice([((3,), (3,)), ((2,), (2,), (2,)), ((4,), (2,)), ((2, 1), (2,))])
    return [[program(requests) for requests in chains] for chains in numbers]


def searched(programs: list[Chains], *, reduced: bool) -> tuple[Reached, int]:
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
    programs: list[Chains] = [[[[("get", name)], [("put", name)]]] for name in OTHERS]
    assert searched(programs, reduced=True)[1] < searched(programs, reduced=False)[1]


def test_a_process_that_has_asked_for_more_may_be_told_first_what_others_have_settled() -> None:
    """The order of a get and of a create of another counts by what is asked after the get."""
    after: list[Ask] = [("get", FIXED), (*OWN, ("get", "c"))]
    programs: list[Chains] = [[[[("get", "b", *after)]]], [[[("create", FIXED)]]]]
    (some, _), (all_, _) = (searched(programs, reduced=each) for each in (True, False))
    assert some == all_


def test_where_it_is_not_seen_what_a_request_settles_states_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a process sends at its first answer is on its way at its second, after another's put."""
    asks: Chains = [[[("get", FIXED)], [("get", "c")]], [[("get", "b")]]]
    programs: list[Chains] = [asks, [[[("create", FIXED)]]]]
    whole, _ = searched(programs, reduced=False)
    assert searched(programs, reduced=True)[0] == whole
    monkeypatch.setattr(Step, "meets", _meets)
    assert searched(programs, reduced=True)[0].states < whole.states


def _meets(one: Step, other: Step, *_: object) -> bool:
    return one.process == other.process or one.request.meets(other.request)
