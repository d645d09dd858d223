from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidUseError
from adelta.sync import _portal
from adelta.sync._enter import enter
from adelta.sync._iterate import iterate
from adelta.sync._portal import call, feed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    Alarm = Callable[[float, type[BaseException]], None]


class Work:
    """Something that takes for ever, and says how it ended."""

    def __init__(self, *, cleanup: float = 0.0) -> None:
        self.ended: list[str] = []
        self._cleanup = cleanup

    async def run(self) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(self._cleanup)
            self.ended.append("cancelled")
            raise

    async def items(self) -> AsyncIterator[int]:
        yield 1
        await self.run()

    async def __aenter__(self) -> Work:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.run()


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, SystemExit])
def test_an_interrupt_cancels_the_task_and_is_raised(
    alarm: Alarm, error: type[BaseException]
) -> None:
    work = Work(cleanup=0.05)
    alarm(0.1, error)
    with pytest.raises(error):
        call(work.run)
    assert work.ended == ["cancelled"]


def test_a_second_interrupt_does_not_wait_for_the_clean_up(alarm: Alarm) -> None:
    work = Work(cleanup=3600)
    alarm(0.1, KeyboardInterrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.2)  # and again, and again
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call(work.run)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert time.monotonic() - started < _portal._CLEANUP_SECONDS
    assert work.ended == []


def test_work_that_does_not_clean_up_is_left_behind_after_a_moment(
    alarm: Alarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_portal, "_CLEANUP_SECONDS", 0.1)
    alarm(0.1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        call(Work(cleanup=3600).run)


def test_an_interrupted_iteration_is_over_and_says_so(alarm: Alarm) -> None:
    work = Work()
    steps = iterate((), work.items)
    assert next(steps) == 1
    alarm(0.1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        next(steps)
    assert work.ended == ["cancelled"]
    with pytest.raises(InvalidUseError, match="interrupted"):
        next(steps)


def test_an_interrupt_while_leaving_a_block_cancels_the_leaving(alarm: Alarm) -> None:
    work = Work()
    hold = enter(work)
    hold.__enter__()
    alarm(0.1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        hold.__exit__(None, None, None)
    assert work.ended == ["cancelled"]


def test_an_interrupt_in_a_fed_generator_cancels_the_task(alarm: Alarm) -> None:
    ended: list[str] = []

    def slow() -> Iterator[int]:
        yield 1
        time.sleep(3600)

    async def total(numbers: AsyncIterator[int]) -> int:
        try:
            return sum([number async for number in numbers])
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    alarm(0.1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        call(total, feed(slow()))
    assert ended == ["cancelled"]


def test_an_interrupt_that_finds_the_item_fetched_does_not_skip_it_silently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    class Interrupted(_portal.Caller):
        __slots__ = ()

        def wait(self, begin: Callable[[], None]) -> object:
            mailbox = self._mailbox

            class LateMailbox:
                put = mailbox.put

                def get(self, timeout: float | None = None) -> object:
                    if timeout is None:
                        mailbox.get()  # the item has arrived when Ctrl-C is pressed
                        raise KeyboardInterrupt
                    return mailbox.get(timeout=0.1)

            self._mailbox = LateMailbox()  # type: ignore[assignment]
            return super().wait(begin)

    steps = iterate((), numbers)
    assert next(steps) == 0
    with monkeypatch.context() as patch:
        patch.setattr("adelta.sync._iterate.Caller", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(steps)
    with pytest.raises(InvalidUseError, match="is lost"):
        next(steps)
