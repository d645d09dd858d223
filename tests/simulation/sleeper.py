"""One who begins a transaction, and goes on with it when the table has long been cleaned up since.

What it has read and removed is of the version that it began with. The commits after that may be
gone by then, and the next version look free.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from adelta._clock import monotonic
from adelta.errors import AdeltaError, CommitConflictError, CommitOutcomeUnknownError
from tests.support.workload import Operation, Worker, rows_of, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.table import Table

__all__ = ["Sleeper"]

_KINDS = ("append", "clear", "count", "mark", "overwrite")


class Sleeper:
    """A transaction over `table` that is ended once `awake` is set; then another operation."""

    def __init__(
        self, table: Table, name: str, seed: int, partitions: Sequence[str], worker: Worker
    ) -> None:
        drawn = random.Random(seed)
        self.table = table
        self.operation = Operation.drawn(drawn, f"{name}-0", seed * 1_000_000, _KINDS, partitions)
        self.worker = worker
        self.awake = asyncio.Event()

    async def work(self, say: Callable[[dict[str, object]], None]) -> None:
        """All of it."""
        operation, begun, version = self.operation, monotonic(), None
        say({"begins": operation.name})
        try:
            version = await self._perform()
            outcome = "nothing" if version is None else "committed"
        except CommitConflictError:
            outcome = "refused"
        except CommitOutcomeUnknownError:
            outcome = "unknown"
        except AdeltaError:
            outcome = "failed"
        told = {"operation": operation.name, "outcome": outcome, "version": version}
        meant = {"meant": operation.text()} if outcome == "nothing" else {}
        say({**told, **meant, "begun": begun, "ended": monotonic()})
        await self.awake.wait()
        await self.worker.work(tell=lambda _: None)

    async def _perform(self) -> int | None:
        operation, where = self.operation, f"p = '{self.operation.p}'"
        rows = [(operation.p, i, 0) for i in operation.ids]
        async with self.table.transaction(operation.kind, user_metadata=operation.text()) as tx:
            if operation.kind in ("clear", "overwrite"):
                tx.remove_files(await tx.read(where))
            elif operation.kind == "count":
                await tx.read(where)
                there = await self.table.snapshot(version=tx.read_version)
                found = rows_of(await there.scan(where=where).to_arrow())
                rows = [("n", operation.ids[0], len(found))]
            await self.awake.wait()  # files that it had written by then might be deleted as unknown
            if operation.kind == "mark":
                tx.set_transaction(operation.name, operation.ids[0])
            elif operation.kind != "clear":
                await tx.append(table_of(rows))
        return tx.version
