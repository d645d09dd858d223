"""Whose turn it is to make a request."""

from __future__ import annotations

import asyncio
import random

from adelta._concurrency import ahead_of_others
from adelta.storage.slots import Slots


class Users:
    """Tasks that use slots, in the order in which they got one."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.order: list[str] = []
        self.now = self.most = 0
        self.go_on = asyncio.Event()

    async def use(self, name: str) -> None:
        async with self.slots:
            self.order.append(name)
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await self.go_on.wait()
                await asyncio.sleep(0)
            finally:
                self.now -= 1

    def begin(self, name: str) -> asyncio.Task[None]:
        if not name.startswith("ahead"):
            return asyncio.ensure_future(self.use(name))
        with ahead_of_others():
            return asyncio.ensure_future(self.use(name))


async def test_they_go_to_who_came_first_and_before_that_to_what_others_wait_for() -> None:
    users = Users(Slots(2))
    names = ["a", "b", "c", "ahead 1", "d", "ahead 2", "e"]
    tasks = [users.begin(name) for name in names]
    await asyncio.sleep(0.001)
    assert users.order == ["a", "b"]
    users.go_on.set()
    await asyncio.gather(*tasks)
    assert users.order == ["a", "b", "ahead 1", "ahead 2", "c", "d", "e"]
    assert users.most == 2


async def test_those_of_cancelled_tasks_go_to_others() -> None:
    rng = random.Random(7)
    for _ in range(200):
        users = Users(Slots(3))
        users.go_on.set()
        tasks = [users.begin(rng.choice(["ahead", "other"])) for _ in range(20)]
        for task in rng.sample(tasks, 10):
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert users.most <= 3
        users.go_on.clear()
        after = [users.begin("after") for _ in range(5)]
        await asyncio.sleep(0.0001)
        assert users.now == 3, "none is lost, and none is there twice"
        users.go_on.set()
        await asyncio.gather(*after)


async def test_those_of_coroutines_that_are_closed_where_they_wait_go_to_others() -> None:
    slots = Slots(1)
    await slots.take()
    waiting = slots.take()
    waiting.send(None)
    waiting.close()
    slots.give()
    await asyncio.wait_for(slots.take(), 60)
