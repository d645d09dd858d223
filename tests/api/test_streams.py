"""A `stream` and what is behind it, in a loop that ends: all is closed once, without a word."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import pytest
import uvloop

from adelta import _streams
from adelta._streams import stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

closed: list[str] = []
kept: list[object] = []

RUNS: dict[str, Callable[[Awaitable[None]], None]] = {
    "asyncio": asyncio.run,  # type: ignore[dict-item]
    "uvloop": uvloop.run,  # type: ignore[dict-item]
}


@stream
async def numbers() -> AsyncGenerator[int, None]:
    try:
        for number in range(100):
            await asyncio.sleep(0)
            yield number
    finally:
        closed.append("numbers")


async def leave_it_at_the_end() -> None:
    async for _ in numbers():
        break


async def leave_it_by_an_error() -> None:
    with suppress(KeyError):
        async for _ in numbers():
            raise KeyError


async def hold_it_beyond_the_end() -> None:
    held = numbers()
    kept.append(held)
    await anext(held)


async def hold_a_generator_over_it() -> None:
    async def own() -> AsyncGenerator[int, None]:
        async with aclosing(numbers()) as found:
            async for number in found:
                yield number

    held = own()
    kept.append(held)
    await anext(held)


async def close_it_twice_at_once() -> None:
    held = numbers()
    await anext(held)
    await asyncio.gather(held.aclose(), held.aclose())


async def ask_it_twice_at_once() -> None:
    held = numbers()
    await anext(held)
    first = asyncio.ensure_future(held.__anext__())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="already running"):
        await anext(held)
    assert await first == 1
    assert await anext(held) == 2


WAYS = [
    leave_it_at_the_end,
    leave_it_by_an_error,
    hold_it_beyond_the_end,
    hold_a_generator_over_it,
    close_it_twice_at_once,
    ask_it_twice_at_once,
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("way", WAYS)
def test_however_it_is_left_it_is_closed_once_and_in_silence(
    way: Callable[[], Awaitable[None]], run: str, caplog: pytest.LogCaptureFixture
) -> None:
    closed.clear()
    with caplog.at_level(logging.WARNING, "asyncio"):
        RUNS[run](way())
        kept.clear()
        gc.collect()
    assert closed == ["numbers"]
    assert not caplog.records
    assert not _streams._under_way


@pytest.mark.parametrize("run", RUNS)
def test_generators_of_the_users_own_that_are_begun_in_it_are_closed_as_ever(run: str) -> None:
    closed.clear()

    async def pages() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.append("pages")

    @stream
    async def over_pages() -> AsyncGenerator[int, None]:
        async for page in pages():  # which is left to the loop
            yield page
            break
        yield 0

    async def main() -> None:
        async with aclosing(over_pages()) as found:
            async for _ in found:
                pass

    RUNS[run](main())
    gc.collect()
    assert closed == ["pages"]
