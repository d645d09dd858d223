"""Work that many ask for at once, and its result that they share."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import traceback
import weakref
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from adelta._shared_work import SharedWork
from adelta.errors import CommitConflictError, InvalidUseError, StorageError
from tests.support.cancellation import FACTORIES

_asked: ContextVar[str] = ContextVar("asked")


@pytest.fixture(params=FACTORIES)
def factory(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class OddError(Exception):
    """An error of nobody's."""

    def __init__(self, needed: str, /) -> None:
        super().__init__(needed, "and more")


class Gate:
    """Work whose runs are counted, and each wait at a gate."""

    def __init__(self) -> None:
        self.begun = self.ended = self.cancelled = 0
        self.open = asyncio.Event()
        self.error: BaseException | None = None
        self.shared: SharedWork[int] = SharedWork(anyio.Lock())

    async def work(self) -> int:
        self.begun += 1
        number = self.begun
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return number

    async def ask(self) -> int:
        return await self.shared.result(self.work)

    def asked(self, count: int) -> list[asyncio.Task[int]]:
        return [asyncio.ensure_future(self.ask()) for _ in range(count)]


@pytest.fixture
async def gate(factory: str) -> Any:
    loop = asyncio.get_running_loop()
    if factory == "eager":
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    gate = Gate()
    yield gate
    loop.set_task_factory(None)
    await settle()
    assert not [task for task in asyncio.all_tasks() if "SharedWork" in repr(task)]
    assert gate.begun == gate.ended
    assert not gate.shared._runs


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_all_who_ask_at_one_moment_share_two_runs_at_most(gate: Gate) -> None:
    asked = gate.asked(200)
    gate.open.set()
    assert set(await asyncio.gather(*asked)) <= {1, 2}
    assert gate.begun <= 2


async def test_those_who_have_waited_go_on_a_few_in_each_turn_of_the_loop(gate: Gate) -> None:
    asked = gate.asked(200)
    gate.open.set()
    turns = []
    while not all(task.done() for task in asked):
        before = sum(task.done() for task in asked)
        await asyncio.sleep(0)
        turns.append(sum(task.done() for task in asked) - before)
    assert max(turns) <= 16
    assert len(turns) < 100


async def test_who_asks_while_a_run_is_under_way_shares_the_next_one(gate: Gate) -> None:
    first = gate.asked(3)
    await settle()
    begun = gate.begun
    assert begun == 1
    later = gate.asked(200)
    await settle()
    assert gate.begun == 1, "one at a time"
    gate.open.set()
    await asyncio.gather(*first)
    answers = await asyncio.gather(*later)
    assert min(answers) > begun, "no answer is older than the question"
    assert gate.begun == 2


async def test_one_who_asks_when_the_run_has_just_ended_gets_another(gate: Gate) -> None:
    gate.open.set()
    assert [await gate.ask() for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("by", ["task", "scope"])
@pytest.mark.parametrize("who", [0, 1, 4])
async def test_that_one_is_cancelled_does_not_concern_the_others(
    gate: Gate, who: int, by: str
) -> None:
    scopes = [anyio.CancelScope() for _ in range(5)]
    answers: dict[int, int] = {}

    async def ask(number: int) -> None:
        with scopes[number]:
            answers[number] = await gate.ask()

    tasks = [asyncio.ensure_future(ask(number)) for number in range(5)]
    await settle()
    if by == "task":
        tasks[who].cancel()
    else:
        scopes[who].cancel()
    await asyncio.wait({tasks[who]})
    gate.open.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(answers) == [number for number in range(5) if number != who]
    assert gate.cancelled == (gate.begun == 2 and who == 0), "a run of nobody else's"


async def test_where_all_are_cancelled_the_run_is_over_when_that_is_raised(gate: Gate) -> None:
    asked = gate.asked(3)
    await settle()
    for task in asked:
        task.cancel()
    await asyncio.wait(asked)
    assert all(task.cancelled() for task in asked)
    assert gate.begun == gate.ended == gate.cancelled
    gate.open.set()
    assert await gate.ask() == gate.begun


async def test_one_who_asks_while_a_run_is_being_given_up_gets_an_answer(gate: Gate) -> None:
    asked = gate.asked(2)
    await settle()
    for task in asked:
        task.cancel()
    again = gate.asked(2)
    gate.open.set()
    await asyncio.wait(asked)
    assert len(set(await asyncio.gather(*again))) <= 2


async def test_an_error_reaches_all_who_shared_the_run_each_its_own(gate: Gate) -> None:
    gate.error = StorageError("out of order")
    gate.error.__cause__ = ValueError("why")
    gate.error.add_note("a note")
    asked = gate.asked(50)
    gate.open.set()
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert len({id(error) for error in errors}) == 50
    lengths = set()
    for error in errors:
        assert isinstance(error, StorageError)
        assert str(error) == "out of order"
        assert isinstance(error.__cause__, ValueError)
        error.add_note("another")
        assert error.__notes__ == ["a note", "another"]
        lengths.add(len(traceback.extract_tb(error.__traceback__)))
    assert len(lengths) == 1, "a traceback does not grow by those of others"
    assert "in work" in "".join(traceback.format_exception(errors[-1]))  # type: ignore[arg-type]


async def test_what_an_error_carries_is_there_for_all(gate: Gate) -> None:
    gate.error = CommitConflictError("lost", winning_version=7)
    asked = gate.asked(5)
    gate.open.set()
    for error in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(error, CommitConflictError)
        assert error.winning_version == 7


async def test_an_error_that_is_none_of_adeltas_arrives_as_it_is(gate: Gate) -> None:
    gate.error = OddError("needed")
    asked = gate.asked(50)
    gate.open.set()
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert set(errors) == {gate.error}
    assert len(traceback.extract_tb(gate.error.__traceback__)) < 10


@pytest.mark.parametrize("kind", [StorageError, OddError])
async def test_an_error_is_freed_with_the_last_reference_to_it(
    gate: Gate, kind: type[Exception]
) -> None:
    errors: list[weakref.ref[Exception]] = []

    async def work() -> int:
        error = kind("out of order")
        errors.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            with contextlib.suppress(kind):
                await gate.shared.result(work)
        await settle()
        assert [error() for error in errors] == [None, None]
    finally:
        gc.enable()


async def test_what_a_run_raises_that_nobody_waits_for_is_not_reported(gate: Gate) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def work() -> int:
        try:
            await gate.open.wait()
        except asyncio.CancelledError:
            raise StorageError("cut off") from None
        return 0

    asked = [asyncio.ensure_future(gate.shared.result(work)) for _ in range(2)]
    await settle()
    for task in asked:
        task.cancel()
    await asyncio.wait(asked)
    assert all(task.cancelled() for task in asked)
    del asked, task
    gc.collect()
    assert not reported


async def test_who_waits_when_it_is_stopped_is_told_why(gate: Gate) -> None:
    first = gate.asked(2)
    await settle()
    asked = [*first, *gate.asked(3)]
    await settle()
    await gate.shared.stop(InvalidUseError("closed"))
    assert gate.begun == gate.ended == 1
    for error in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(error, InvalidUseError)
    gate.open.set()
    await gate.shared.stop(InvalidUseError("closed again"))


async def test_a_run_has_the_context_of_the_one_who_asked_for_it_first(gate: Gate) -> None:
    seen: list[str | None] = []

    async def work() -> int:
        seen.append(_asked.get(None))
        _asked.set("changed")
        await gate.open.wait()
        return 0

    async def ask(name: str | None) -> str | None:
        if name is not None:
            _asked.set(name)
        await gate.shared.result(work)
        return _asked.get(None)

    tasks = [asyncio.ensure_future(ask(name)) for name in ("a", "b")]
    await settle()
    tasks += [asyncio.ensure_future(ask(name)) for name in (None, "c")]
    gate.open.set()
    assert await asyncio.gather(*tasks) == ["a", "b", None, "c"]
    assert seen[0] == "a"
    assert seen[1] in (None, "b")


def test_it_goes_on_in_the_next_event_loop() -> None:
    shared: SharedWork[int] = SharedWork(anyio.Lock())

    async def work() -> int:
        await asyncio.sleep(0)
        return 1

    async def ask() -> int:
        left = asyncio.ensure_future(shared.result(work))  # cancelled when the loop ends
        await asyncio.sleep(0)
        assert not left.done()
        return await shared.result(work)

    assert [asyncio.run(ask()) for _ in range(3)] == [1, 1, 1]
