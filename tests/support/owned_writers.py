"""Writers of two tables of one commit owner, in a process that can be killed.

    python -m tests.support.owned_writers '{"name": ..., "tasks": ..., "uris": [..., ...], ...}'

Each task has handles of its own, so that none commits for another. It adds files to one table, or
to both in one transaction, or reads one before it adds to both; a file is named after its change,
and in both tables the same. What becomes of each change is printed as a JSON object a line. All end
with what they are about when the standard input ends. With `apart` a change of both tables is two
commits, one after the other.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import adelta
from adelta.errors import AdeltaError, CommitConflictError, CommitOutcomeUnknownError
from adelta.write.queue_of_table import QueueOfTable
from tests.support.two_tables import OF_BOTH, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Writers", "work"]


@dataclass(frozen=True)
class Writers:
    """How many tasks write to the tables at `uris`, and how."""

    name: str
    tasks: int
    uris: Sequence[str]
    options: Mapping[str, str]
    apart: bool = False


@dataclass
class _Task:
    """One writer, with handles of its own."""

    name: str
    tables: Sequence[adelta.Table]
    apart: bool
    say: Callable[[dict[str, Any]], None]
    _number: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.name)

    async def change(self) -> None:
        """Make one change of one table or both, and say what became of it."""
        self._number += 1
        of_both, reads = self._random.random() < 0.6, self._random.random() < 0.15
        at = [0, 1] if of_both else [self._random.randrange(2)]
        self._random.shuffle(at)
        change = f"{self.name}.{self._number}{OF_BOTH if of_both else ''}"
        versions: dict[int, int | None] = {}
        try:
            await self._commit(change, at, versions, reads=reads)
            outcome, why = "committed", ""
        except CommitConflictError as error:
            outcome, why = "refused", repr(error)
        except CommitOutcomeUnknownError as error:
            outcome, why = "unknown", repr(error)
        except AdeltaError as error:
            outcome, why = "failed", repr(error)
        self.say({"change": change, "outcome": outcome, "versions": versions, "why": why})

    async def _commit(
        self, change: str, at: Sequence[int], versions: dict[int, int | None], *, reads: bool
    ) -> None:
        """Make the change in some tables, in that order, and note which versions it becomes."""
        if self.apart:
            for each in at:
                async with self.tables[each].transaction() as alone:
                    alone.add_files([_file(change)])
                versions[each] = alone.version
            return
        async with adelta.transaction_over(*(self.tables[each] for each in at)) as begun:
            if reads:
                await begun[-1].read()
            for tx in begun:
                tx.add_files([_file(change)])
        versions |= {each: tx.version for each, tx in zip(at, begun, strict=True)}


def _file(change: str) -> adelta.AddFile:
    return adelta.AddFile(
        path=path_of(change),
        partition_values={},
        size=1000,
        modification_time=1_700_000_000_000,
        data_change=True,
        stats='{"numRecords":1}',
    )


def _own_handle(uri: str, options: Mapping[str, str]) -> adelta.Table:
    """A handle whose commits wait for nobody else's of this process."""
    table = adelta.open_table(uri, dict(options))
    table._queue = QueueOfTable(table.store, None)
    return table


async def work(
    writers: Writers, say: Callable[[dict[str, Any]], None], goes_on: Callable[[], bool]
) -> None:
    """Let the tasks make changes as long as it `goes_on`."""

    async def run(number: int) -> None:
        async with AsyncExitStack() as stack:
            tables = [
                await stack.enter_async_context(_own_handle(uri, writers.options))
                for uri in writers.uris
            ]
            task = _Task(f"{writers.name}.{number}", tables, writers.apart, say)
            while goes_on():
                await task.change()

    await asyncio.gather(*map(run, range(writers.tasks)))


def _main(given: str) -> None:
    writers = Writers(**json.loads(given))
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()

    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), flush=True)

    asyncio.run(work(writers, say, lambda: not ended.is_set()))


if __name__ == "__main__":
    _main(sys.argv[1])
