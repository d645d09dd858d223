"""Turns: whoever has lost a race for a table's next version is told so when it is its turn.

Of many writers that lose to each other, all would come back at once, and all but one would lose
again. Told one after the other, the next when the one before has committed, each comes back alone.
That is a courtesy, and no promise: the line goes on where somebody does not come, whoever comes
with the right version is served at once, and other instances of the service know nothing of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from adelta.owner.table_key import TableKey

__all__ = ["Turns"]

_LONGEST = 5.0  # seconds that a loser waits; who takes longer comes back with the others
_FIRST_PATIENCE = 0.05  # seconds until somebody whose turn it is has to have committed
_PATIENCE = (0.01, 1.0)
_TIMES = 4.0  # as long as it took the ones before, on average
_WEIGHT = 0.2


@dataclass
class _Line:
    """Those who wait to commit to one table, and since when it is the turn of the one before."""

    timer: asyncio.TimerHandle
    since: float
    usual: float | None = None
    waiting: deque[anyio.Event] = field(default_factory=deque)


class Turns:
    """The lines of all tables for which there are races."""

    def __init__(self) -> None:
        self._lines: dict[TableKey, _Line] = {}
        self._stopped = False

    async def take(self, table: TableKey) -> bool:
        """Wait until it is the caller's turn, who has lost; whether it had to wait at all."""
        if self._stopped:
            return False
        line = self._lines.get(table)
        if line is None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(_FIRST_PATIENCE, self._pass_on, table)
            self._lines[table] = _Line(timer, loop.time())
            return False
        turn = anyio.Event()
        line.waiting.append(turn)
        with anyio.move_on_after(_LONGEST):
            try:
                await turn.wait()
            finally:
                if not turn.is_set():
                    line.waiting.remove(turn)
        return True

    def ratified(self, table: TableKey) -> None:
        """Somebody has committed: it is the turn of the next."""
        line = self._lines.get(table)
        if line is None:
            return
        took = asyncio.get_running_loop().time() - line.since
        usual = took if line.usual is None else line.usual
        line.usual = usual + _WEIGHT * (took - usual)
        self._pass_on(table)

    def _pass_on(self, table: TableKey) -> None:
        line = self._lines[table]
        line.timer.cancel()
        if not line.waiting:
            del self._lines[table]
            return
        line.waiting.popleft().set()
        patience = _FIRST_PATIENCE
        if line.usual is not None:
            patience = min(max(_TIMES * line.usual, _PATIENCE[0]), _PATIENCE[1])
        loop = asyncio.get_running_loop()
        line.since = loop.time()
        line.timer = loop.call_later(patience, self._pass_on, table)

    def stop(self) -> None:
        """Let all who wait go."""
        self._stopped = True
        for line in self._lines.values():
            for turn in line.waiting:
                turn.set()
            line.waiting.clear()
