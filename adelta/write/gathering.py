"""GatheringWriter: the rows of many partitions into few large files, in bounded memory.

Rows that come in any order are gathered by partition: in memory, and in a spill file on local disk
whenever they pass half of the memory budget. A partition that has gathered enough for a file of the
target size is written, one after another, so that only the file under way holds a row group. What
is left in the end becomes one file for each partition.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta._read_ahead import ReadAhead
from adelta.errors import StorageError
from adelta.write.data_file_writer import CLOSING, DataFileWriter, OpenFile
from adelta.write.spill import Pile, spill_piles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adelta._clock import Clock
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.storage.object_store import ObjectStore
    from adelta.write.spec import WriteSpec
    from adelta.write.spill import SpilledBatch, SpillFile

__all__ = ["GatheringWriter"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_FIRST_RATIO: Final = 0.5  # bytes of a file for a byte of rows, until files tell
_RUN_BYTES: Final = 8 * 1024 * 1024


class GatheringWriter(DataFileWriter):
    """A `DataFileWriter` that begins a partition's file when there are rows enough to fill it."""

    def __init__(self, store: ObjectStore, spec: WriteSpec, *, clock: Clock) -> None:
        half = max(1, spec.memory_budget // 2)  # for the piles, and as much for the open files
        super().__init__(store, replace(spec, memory_budget=half), clock=clock)
        self._piles: dict[tuple[str | None, ...], Pile] = {}
        self._held_bytes = 0
        self._spill: SpillFile | None = None
        self._rows_bytes = self._file_bytes = 0  # of the files that are closed

    async def write(self, batch: pa.RecordBatch) -> None:
        """Take in rows.

        Raises:
            SchemaMismatchError: the columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed, or the local disk did.
        """
        for part in await in_thread(self._prepare, batch):
            pile = self._piles.setdefault(part.values, Pile())
            size = part.rows.nbytes
            pile.batches.append(part.rows)
            pile.num_bytes += size
            self._held_bytes += size
            if pile.num_bytes * self._ratio() >= self._spec.target_file_size:
                await self._write_pile(part.values)
        if self._held_bytes > self._spec.memory_budget:
            await _on_disk(self._spill_all)

    async def finish(self) -> list[AddFile]:
        """Write every row that waits, and close every file; the actions that would add them.

        Raises:
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed, or the local disk did.
        """
        ending = ReadAhead(
            self._end,
            tuple({**self._piles, **self._open}),
            limit=CLOSING,
            cost=self._room,
            budget=self._spec.memory_budget,
        )
        async with ending:
            async for _ in ending:
                pass
        await self._forget()
        return await super().finish()

    async def abort(self) -> None:
        """Delete everything that was written, and forget the rows that wait."""
        await self._forget()
        await super().abort()

    async def _end(self, values: tuple[str | None, ...]) -> None:
        """Write what waits of a partition, and close its file: no more rows come."""
        await self._write_pile(values)
        file = self._open.get(values)
        if file is not None:
            await self._close(file)

    def _room(self, values: tuple[str | None, ...]) -> int:
        """Bytes that writing a partition's rows takes."""
        pile = self._piles.get(values, Pile())
        return min(pile.num_bytes, 2 * self._layout.options.row_group_bytes)

    async def _write_pile(self, values: tuple[str | None, ...]) -> None:
        pile = self._piles.pop(values, None)
        if pile is None:
            return
        self._held_bytes -= sum(batch.nbytes for batch in pile.batches)
        most = min(_RUN_BYTES, self._spec.target_file_size // 8)  # so that files end near it
        for spilled in _runs(pile.spilled, lambda one: one.message_bytes, most):
            await self._take(values, await _on_disk(self._read_back, spilled))
        for batches in _runs(pile.batches, lambda one: one.nbytes, most):
            await self._take(values, pa.Table.from_batches(batches))

    async def _close(self, file: OpenFile) -> None:
        await super()._close(file)
        self._rows_bytes += file.writer.bytes_taken
        self._file_bytes += file.writer.bytes_written

    def _ratio(self) -> float:
        """Bytes of a file for a byte of rows."""
        return self._file_bytes / self._rows_bytes if self._rows_bytes else _FIRST_RATIO

    def _spill_all(self) -> None:
        """Put every row that waits on disk."""
        self._spill = spill_piles(self._spill, self._piles.values())
        self._held_bytes = 0

    def _read_back(self, spilled: list[SpilledBatch]) -> pa.Table:
        assert self._spill is not None
        return pa.Table.from_batches([self._spill.read(one) for one in spilled])

    async def _forget(self) -> None:
        self._piles.clear()
        if self._spill is not None:
            await in_thread(self._spill.close)


def _runs(waiting: list[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Batches that are handed on together, so that small ones cost little each."""
    run: list[T] = []
    taken = 0
    for one in waiting:
        run.append(one)
        taken += size(one)
        if taken >= most:
            yield run
            run, taken = [], 0
    if run:
        yield run


async def _on_disk(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return await in_thread(work, *args, **kwargs)
    except OSError as error:
        raise StorageError(
            f"rows could not wait in {tempfile.gettempdir()}: {error}; make room there, name "
            "another place by the environment variable TMPDIR, or write without optimize_write"
        ) from error
