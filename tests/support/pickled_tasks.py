"""An executor for tests: tasks, and what they answer, go through bytes, as on a cluster."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from adelta.errors import AdeltaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.storage.roots import StoreRoots

__all__ = ["PickledTasks"]


def _copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class PickledTasks:
    """Runs tasks one after the other, in any order, every `again`-th of them twice."""

    bytes_a_task = None

    def __init__(self, roots: StoreRoots, *, again: int = 0, seed: int = 0) -> None:
        self.tasks_at_once = 2
        self._roots = roots
        self._again = again
        self._random = random.Random(seed)
        self.ran: list[str] = []

    async def run(
        self,
        roots: StoreRoots,
        tasks: Sequence[Any],
        *,
        on_done: Callable[[Any], object] | None = None,
    ) -> list[Any]:
        order = list(range(len(tasks)))
        self._random.shuffle(order)
        done = {}
        for number in order:
            done[number] = await self._tried(_copied(tasks[number]).run)
            if on_done is not None:
                on_done(done[number])
        return [done[number] for number in range(len(tasks))]

    async def run_clustered(self, readers: Sequence[Any], writer: Any) -> list[Any]:
        parts: defaultdict[int, list[Any]] = defaultdict(list)
        for reader in readers:
            for blob in await self._tried(_copied(reader).run):
                parts[blob.part].append(blob)
        order = list(parts)
        self._random.shuffle(order)
        return [await self._tried(_copied(writer).run, part, parts[part]) for part in order]

    async def _tried(self, run: Any, *arguments: Any) -> Any:
        self.ran.append(type(run.__self__).__name__)
        if self._again and len(self.ran) % self._again == 0:  # as a task that Spark runs anew
            await run(self._roots, *arguments)
        try:
            return _copied(await run(self._roots, *arguments))
        except AdeltaError as error:
            raise _copied(error) from error
