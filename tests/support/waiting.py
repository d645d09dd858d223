"""Waiting for what a test needs, and for no time: so that it passes however slow the machine is."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HANGS", "rounds", "until", "until_true"]

HANGS = 60.0
"""Seconds that only a hang takes, even where the machine is slow, or stops for a while."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until that holds.

    Raises:
        TimeoutError: it never does.
    """
    with anyio.fail_after(HANGS):
        while not holds():  # noqa: ASYNC110 - for what no event tells of
            await anyio.sleep(0.001)


def until_true(holds: Callable[[], object]) -> None:
    """Wait in this thread until that holds.

    Raises:
        TimeoutError: it never does.
    """
    end = time.monotonic() + HANGS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.001)


async def rounds(count: int = 20) -> None:
    """Let tasks go on, as far as they come in so many turns of the loop: no thread answers so."""
    for _ in range(count):
        await asyncio.sleep(0)
