"""The port by which an operation has its tasks carried out: in this process, or on a cluster.

A task is a plain value that can be pickled. It needs the table's stores and nothing of the log,
reads and writes data files, and knows nothing of other tasks: what all of them have written is
committed together, or deleted together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from adelta._concurrency import map_concurrent
from adelta.write.discarding import discard_data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adelta.storage.roots import StoreRoots

__all__ = ["IN_PROCESS", "InProcess", "Task", "TaskExecutor", "TaskResult", "grouped"]

_TASKS_AT_ONCE = 2


class TaskResult(Protocol):
    """What a task has done."""

    @property
    def paths(self) -> Iterable[str]:
        """The objects that were written, by their paths in the table's store."""
        ...


T = TypeVar("T")
R = TypeVar("R", bound=TaskResult)
R_co = TypeVar("R_co", bound=TaskResult, covariant=True)


class Task(Protocol[R_co]):
    """Work on some data files, which nothing else works on; a plain value that can be pickled."""

    async def run(self, roots: StoreRoots) -> R_co:
        """Carry it out, in bounded memory; where it fails, nothing of it is left."""
        ...


class TaskExecutor(Protocol):
    """Carries out tasks."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks run at the same time, which a plan may share its files among."""
        ...

    @property
    def bytes_a_task(self) -> int | None:
        """How large the files are that one task should only read; None if one reads all."""
        ...

    async def run(
        self,
        roots: StoreRoots,
        tasks: Sequence[Task[R]],
        *,
        on_done: Callable[[R], object] | None = None,
    ) -> list[R]:
        """What the tasks have done, in their order; where one fails, nothing of any is left.

        `on_done` is told of each as it ends. What a task raises is raised here.
        """
        ...


def grouped(items: Iterable[T], sizes: Iterable[int], most: int | None) -> list[list[T]]:
    """`items` in their order, in groups of at most `most` bytes, or of one item; None is no limit.

    Example: with a limit of 128, items of 60 each become groups of two.
    """
    groups: list[list[T]] = []
    size = 0
    for item, length in zip(items, sizes, strict=True):
        if not groups or (most is not None and size + length > most):
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += length
    return groups


class InProcess:
    """Runs tasks on this event loop and its threads, `tasks_at_once` of them at a time."""

    bytes_a_task = None

    def __init__(self, tasks_at_once: int = _TASKS_AT_ONCE) -> None:
        self.tasks_at_once = tasks_at_once

    async def run(
        self,
        roots: StoreRoots,
        tasks: Sequence[Task[R]],
        *,
        on_done: Callable[[R], object] | None = None,
    ) -> list[R]:
        """What the tasks have done, in their order; where one fails, nothing of any is left."""
        done: dict[int, R] = {}

        async def run(index: int) -> None:
            done[index] = await tasks[index].run(roots)
            if on_done is not None:
                on_done(done[index])

        try:
            await map_concurrent(run, range(len(tasks)), limit=self.tasks_at_once)
        except BaseException:
            written = [path for result in done.values() for path in result.paths]
            await discard_data_files(roots.store, written)
            raise
        return [done[index] for index in range(len(tasks))]


IN_PROCESS = InProcess()
