from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
import weakref
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import InvalidUseError
from adelta.sync._enter import enter
from adelta.sync._portal import call, current, feed, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


async def echo(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def test_a_call_gives_the_result_of_the_coroutine() -> None:
    assert call(echo, 7) == 7
    assert call(echo, value="x") == "x"


def test_a_call_raises_the_error_of_the_coroutine_itself() -> None:
    error = KeyError("mine")

    async def fail() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        call(fail)
    assert caught.value is error


def test_a_call_with_wrong_arguments_raises_as_the_function_does() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'valeu'"):
        call(echo, valeu=1)  # type: ignore[call-arg]


def test_an_error_that_would_end_a_loop_reaches_the_caller_and_the_loop_lives_on() -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    loop = current().loop
    with pytest.raises(KeyboardInterrupt):
        call(interrupt)
    assert call(echo, 1) == 1
    assert current().loop is loop


def test_errors_and_results_are_not_kept_alive_by_the_portal() -> None:
    seen: list[weakref.ref[BaseException]] = []

    class Precious(Exception):
        def __init__(self) -> None:
            seen.append(weakref.ref(self))

    async def fail() -> None:
        raise Precious

    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            with contextlib.suppress(Precious):
                call(fail)
        call(echo, None)
        assert [ref() for ref in seen] == [None] * 3
    finally:
        gc.enable()


def test_the_coroutine_sees_the_context_variables_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def read() -> str:
        await asyncio.sleep(0)
        found = variable.get()
        variable.set("changed there")
        return found

    def ask(value: str) -> str:
        variable.set(value)
        return call(read)

    assert contextvars.copy_context().run(ask, "first") == "first"
    assert contextvars.copy_context().run(ask, "second") == "second"
    assert call(read) == "none"
    assert variable.get() == "none"


def test_all_calls_run_on_one_loop_in_one_thread_that_is_not_the_callers() -> None:
    async def where() -> tuple[int, int]:
        return id(asyncio.get_running_loop()), threading.get_ident()

    assert call(where) == call(where)
    assert call(where)[1] != threading.get_ident()
    assert run(threading.get_ident) == call(where)[1]


def test_the_loop_is_uvloops_and_the_policy_of_the_process_is_untouched() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def kind() -> type:
        return type(asyncio.get_running_loop())

    assert issubclass(call(kind), uvloop.Loop)
    fresh = asyncio.new_event_loop()
    fresh.close()
    assert not isinstance(fresh, uvloop.Loop)


def test_a_call_on_the_loops_own_thread_is_refused_at_once() -> None:
    async def blocks() -> None:
        call(echo, 1)

    with pytest.raises(InvalidUseError, match="its own event loop's thread"):
        call(blocks)
    assert call(echo, 2) == 2


def test_a_call_from_a_worker_thread_of_the_loop_works() -> None:
    async def through_a_thread() -> int:
        return await asyncio.to_thread(call, echo, 3)

    assert call(through_a_thread) == 3


def test_a_fed_iterable_is_consumed_in_the_thread_that_waits() -> None:
    threads = set()

    def items() -> Iterator[int]:
        for item in range(5):
            threads.add(threading.get_ident())
            yield call(echo, item)  # and may use the blocking face itself

    async def total(numbers: AsyncIterator[int]) -> int:
        return sum([number async for number in numbers])

    assert call(total, feed(items())) == 10
    assert threads == {threading.get_ident()}


def test_an_error_of_a_fed_iterable_is_raised_where_it_is_awaited_and_by_the_call() -> None:
    seen: list[BaseException] = []

    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    async def total(numbers: AsyncIterator[int]) -> int:
        try:
            return sum([number async for number in numbers])
        except OSError as error:
            seen.append(error)
            raise

    with pytest.raises(OSError, match="no more") as caught:
        call(total, feed(items()))
    assert seen == [caught.value]


def test_a_fed_iterable_that_is_read_when_its_call_has_ended_is_refused() -> None:
    tasks: list[asyncio.Task[int]] = []

    async def read_later(numbers: AsyncIterator[int]) -> None:
        async def read() -> int:
            await asyncio.sleep(0.01)
            return await anext(numbers)

        tasks.append(asyncio.create_task(read()))

    async def outcome() -> int:
        return await tasks[0]

    call(read_later, feed([1]))
    with pytest.raises(InvalidUseError, match="that call has ended"):
        call(outcome)


def test_a_context_manager_is_entered_and_left_in_one_task() -> None:
    tasks: list[Any] = []

    @asynccontextmanager
    async def manager() -> AsyncIterator[int]:
        async with asyncio.timeout(60):
            tasks.append(asyncio.current_task())
            yield 5
            tasks.append(asyncio.current_task())

    with enter(manager()) as value:
        assert value == 5
    assert tasks[0] is tasks[1]


def test_an_error_in_the_block_reaches_the_context_manager_and_comes_back() -> None:
    seen: list[BaseException] = []

    @asynccontextmanager
    async def manager(swallow: bool) -> AsyncIterator[None]:
        try:
            yield
        except ValueError as error:
            seen.append(error)
            if not swallow:
                raise

    with pytest.raises(ValueError, match="mine") as caught, enter(manager(swallow=False)):
        raise ValueError("mine")
    assert seen == [caught.value]
    with enter(manager(swallow=True)):
        raise ValueError("swallowed")


def test_an_interrupt_in_the_block_leaves_it_and_the_loop_lives_on() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    with pytest.raises(KeyboardInterrupt), enter(manager()):
        raise KeyboardInterrupt
    assert seen == ["KeyboardInterrupt"]
    assert call(echo, 1) == 1


def test_an_error_on_entry_is_raised_and_the_block_cannot_be_left() -> None:
    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        raise OSError("closed")
        yield

    hold = enter(manager())
    with pytest.raises(OSError, match="closed"):
        hold.__enter__()
    with pytest.raises(InvalidUseError, match="left already"):
        hold.__exit__(None, None, None)


def test_a_block_that_is_dropped_is_left_as_if_it_were_cancelled() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async def settle() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    hold = enter(manager())
    hold.__enter__()
    hold.drop()
    call(settle)
    assert seen == ["CancelledError"]
