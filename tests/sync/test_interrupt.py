from __future__ import annotations

import asyncio
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

    from tests.sync.conftest import Interrupt


class Work:
    """Something that takes for ever, has its caller interrupted, and says how it ended."""

    def __init__(self, interrupt: Interrupt, *, cleanup: float = 0.0, again: bool = False) -> None:
        self.ended: list[str] = []
        self._interrupt = interrupt
        self._cleanup = cleanup
        self._again = again

    async def run(self) -> None:
        self._interrupt()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if self._again:
                self._interrupt()
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
    interrupt: Interrupt, error: type[BaseException]
) -> None:
    interrupt.error = error
    work = Work(interrupt, cleanup=0.05)
    with pytest.raises(error):
        call(work.run)
    assert work.ended == ["cancelled"]


def test_a_second_interrupt_does_not_wait_for_the_clean_up(interrupt: Interrupt) -> None:
    work = Work(interrupt, cleanup=3600, again=True)
    with pytest.raises(KeyboardInterrupt) as caught:
        call(work.run)
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
    assert work.ended == []


def test_work_that_does_not_clean_up_is_left_behind_after_a_moment(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_portal, "_CLEANUP_SECONDS", 0.1)
    with pytest.raises(KeyboardInterrupt):
        call(Work(interrupt, cleanup=3600).run)


def test_an_interrupted_iteration_is_over_and_says_so(interrupt: Interrupt) -> None:
    work = Work(interrupt)
    steps = iterate((), work.items)
    assert next(steps) == 1
    with pytest.raises(KeyboardInterrupt):
        next(steps)
    assert work.ended == ["cancelled"]
    with pytest.raises(InvalidUseError, match="interrupted"):
        next(steps)


def test_an_interrupt_while_leaving_a_block_cancels_the_leaving(interrupt: Interrupt) -> None:
    work = Work(interrupt)
    hold = enter(work)
    hold.__enter__()
    with pytest.raises(KeyboardInterrupt):
        hold.__exit__(None, None, None)
    assert work.ended == ["cancelled"]


def test_an_interrupt_in_a_fed_generator_cancels_the_task(interrupt: Interrupt) -> None:
    ended: list[str] = []

    def slow() -> Iterator[int]:
        yield 1
        interrupt()
        time.sleep(3600)

    async def total(numbers: AsyncIterator[int]) -> int:
        try:
            return sum([number async for number in numbers])
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

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

                interrupted = False

                def get(self, timeout: float) -> object:
                    if self.interrupted:
                        return mailbox.get(timeout=0.1)
                    self.interrupted = True
                    mailbox.get()  # the item has arrived when Ctrl-C is pressed
                    raise KeyboardInterrupt

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
