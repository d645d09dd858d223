"""Kept: what was counted of a version, which stays as it is, for whoever asks next."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from adelta.snapshot import Snapshot

__all__ = ["Kept"]

R = TypeVar("R")

_MOST = 256


class Kept:
    """The last results, by what they are of. What is asked for twice at once is made once."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, object] = OrderedDict()
        self._making: dict[Hashable, anyio.Lock] = {}

    async def of(
        self,
        snapshot: Snapshot,
        make: Callable[[], Awaitable[R]],
        *what: Hashable,
    ) -> R:
        """What `make` gives for a snapshot; `what` tells it from all else that is made of it."""
        key = (snapshot.metadata.id, snapshot.timestamp, snapshot.version, *what)
        lock = self._making.setdefault(key, anyio.Lock())
        try:
            async with lock:
                if key not in self._known:
                    self._known[key] = await make()
                    if len(self._known) > _MOST:
                        self._known.popitem(last=False)
                self._known.move_to_end(key)
                return self._known[key]  # type: ignore[return-value]  # what `make` gave
        finally:
            if not lock.statistics().tasks_waiting:
                self._making.pop(key, None)
