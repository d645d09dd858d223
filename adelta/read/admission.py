"""Admission: how many scans of one event loop are on the way to their first rows.

A service may begin hundreds of scans at one moment. All of them at once would be no sooner done
than one after the other, as they share the processor; but each turn of the loop would grow with
their number, and with it the time until anything else has its turn, such as a commit. So a few are
let in at a time, first come, first served. A scan gives its turn up with its first rows, and in any
case after half a second: what is streamed, or waits for a store, holds up no other.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from adelta.storage.slots import Slots

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

__all__ = ["admitted"]

_AT_ONCE = 32
_LONGEST_TURN = 0.5  # seconds

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, Slots] = WeakKeyDictionary()


@asynccontextmanager
async def admitted() -> AsyncGenerator[Callable[[], None]]:
    """A turn of this event loop, held to the end of the block, or until what it gives is called."""
    loop = asyncio.get_running_loop()
    slots = _slots.get(loop)
    if slots is None:
        slots = _slots[loop] = Slots(_AT_ONCE)
    await slots.take()
    held = True

    def leave() -> None:
        nonlocal held
        if held:
            held = False
            slots.give()

    timer = loop.call_later(_LONGEST_TURN, leave)
    try:
        yield leave
    finally:
        timer.cancel()
        leave()
