"""Turns: whoever has lost a race for a table's next version is told so when it is its turn.

Of many writers that lose to each other, all would come back at once, and all but one would lose
again. Told one after the other, the next when the one before has committed, each comes back alone.
That is a courtesy, and no promise: the line goes on where somebody does not come, whoever comes
with the right version is served at once, and other instances of the service know nothing of it.

As long as there is a line, the commits that this instance has ratified meanwhile are remembered:
what has been ratified stays so. By them it is known without the ledger that a commit has lost, and
to which ones. There may be later ones, of other instances, to which it then loses next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

import anyio

from adelta._dataclasses import dataclass
from adelta.commit.owner import RatifiedCommit, RatifiedCommits

if TYPE_CHECKING:
    from adelta.commit.owner import ProposedCommit
    from adelta.owner.table_key import TableKey

__all__ = ["Turns"]

_LONGEST = 5.0  # seconds that a loser waits; who takes longer comes back with the others
_FIRST_PATIENCE = 0.05  # seconds until somebody whose turn it is has to have committed
_PATIENCE = (0.01, 1.0)
_TIMES = 4.0  # as long as it took the ones before, on average
_WEIGHT = 0.2
_COMMITS, _BYTES = 256, 1 << 20  # that are remembered of a table


class _Memory:
    """An unbroken run of commits that have been ratified, the last ones of a table."""

    def __init__(self) -> None:
        self._commits: deque[RatifiedCommit] = deque()
        self._ids: deque[str] = deque()
        self._bytes = 0

    def note(self, proposed: ProposedCommit) -> None:
        """Take in a commit that has been ratified; one before the last is known, or was missed."""
        if self._commits and proposed.version <= self._commits[-1].version:
            return
        if self._commits and proposed.version > self._commits[-1].version + 1:
            self.forget()  # others have come between, by another instance
        self._commits.append(proposed.ratified())
        self._ids.append(proposed.transaction_id)
        self._bytes += len(self._commits[-1].content or b"")
        while len(self._commits) > _COMMITS or self._bytes > _BYTES:
            self._bytes -= len(self._commits.popleft().content or b"")
            self._ids.popleft()

    def forget(self) -> None:
        """Remember nothing."""
        self._commits.clear()
        self._ids.clear()
        self._bytes = 0

    def has_other(self, proposed: ProposedCommit) -> bool:
        """Whether the version is certain to be another commit's."""
        at = self._place(proposed.version)
        return at is not None and self._ids[at] != proposed.transaction_id

    def since(self, version: int) -> RatifiedCommits | None:
        """The commits from a version on; None where that one is not known."""
        at = self._place(version)
        if at is None:
            return None
        commits = tuple(islice(self._commits, at, None))
        return RatifiedCommits(commits[-1].version, commits)

    def _place(self, version: int) -> int | None:
        if not self._commits or not 0 <= version - self._commits[0].version < len(self._commits):
            return None
        return version - self._commits[0].version


@dataclass
class _Line:
    """Those who wait to commit to one table, and since when it is the turn of the one before."""

    timer: asyncio.TimerHandle
    since: float
    usual: float | None = None
    waiting: deque[anyio.Event] = field(default_factory=deque)
    memory: _Memory = field(default_factory=_Memory)


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

    def has_lost(self, table: TableKey, proposed: ProposedCommit) -> bool:
        """Whether it is certain, by what is remembered, that a commit has lost."""
        line = self._lines.get(table)
        return line is not None and line.memory.has_other(proposed)

    def winners(self, table: TableKey, version: int) -> RatifiedCommits | None:
        """The commits from a version on, by what is remembered; None where that does not tell."""
        line = self._lines.get(table)
        return None if line is None else line.memory.since(version)

    def forget(self, table: TableKey) -> None:
        """Remember no commits of a table any more: who owns it is no longer certain."""
        line = self._lines.get(table)
        if line is not None:
            line.memory.forget()

    def ratified(self, table: TableKey, proposed: ProposedCommit | None) -> None:
        """Somebody has committed: it is the turn of the next.

        None where it is a commit that had been ratified before: what is proposed again need not be
        what was ratified.
        """
        line = self._lines.get(table)
        if line is None:
            return
        if proposed is not None:
            line.memory.note(proposed)
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
