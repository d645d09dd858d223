"""Piles: rows that wait in groups, in memory as long as they are few and then on the local disk.

All methods block, and are called in worker threads, one at a time.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from adelta._dataclasses import dataclass
from adelta.errors import StorageError
from adelta.operations.merge.rows import concat, take
from adelta.write.spill import SpillFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from adelta.write.spill import SpilledBatch

__all__ = ["Piles", "runs"]

_MIB: Final = 1024 * 1024
_PART_BYTES: Final = 32 * _MIB


@dataclass(slots=True)
class _Pile:
    """Those on disk came before those in memory."""

    spilled: list[SpilledBatch] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    num_rows: int = 0


class Piles:
    """Rows of one schema in groups, which are known by numbers.

    Args:
        schema: the rows' schema.
        memory: bytes from which on rows are put on disk.
    """

    def __init__(self, schema: pa.Schema, memory: int) -> None:
        self.schema = schema
        self._memory = memory
        self._held = 0
        self._piles: dict[int, _Pile] = {}
        self._spill = SpillFile(schema)

    def put(self, number: int, rows: pa.RecordBatch) -> None:
        """Lay rows on a pile.

        Raises:
            StorageError: the local disk is full, or fails.
        """
        if not rows.num_rows:
            return
        pile = self._piles.setdefault(number, _Pile())
        pile.batches.append(rows)
        pile.num_rows += rows.num_rows
        self._held += rows.nbytes
        if self._held > self._memory:
            self._put_on_disk()

    def sort(self, rows: pa.RecordBatch, numbers: NDArray[np.int64]) -> None:
        """Lay each row on the pile of its number, in their order.

        Raises:
            StorageError: the local disk is full, or fails.
        """
        order = np.argsort(numbers, kind="stable")
        sorted_rows, numbers = take(rows, order), numbers[order]
        for number, part in runs(numbers):
            self.put(number, sorted_rows.slice(part.start, part.stop - part.start))

    def num_rows(self, number: int) -> int:
        """How many rows a pile has."""
        pile = self._piles.get(number)
        return 0 if pile is None else pile.num_rows

    def read(self, number: int, part_bytes: int = _PART_BYTES) -> Iterator[pa.RecordBatch]:
        """The rows of a pile, which keeps them, in parts of about so many bytes.

        Raises:
            StorageError: the local disk fails.
        """
        waiting: list[pa.RecordBatch] = []
        held = 0
        for batch in self._batches(number):
            if waiting and held + batch.nbytes > part_bytes:
                yield concat(waiting, self.schema)
                waiting, held = [], 0
            waiting.append(batch)
            held += batch.nbytes
        if waiting:
            yield concat(waiting, self.schema)

    def whole(self, number: int) -> pa.RecordBatch:
        """All rows of a pile at once.

        Raises:
            StorageError: the local disk fails.
        """
        return concat(list(self._batches(number)), self.schema)

    def close(self) -> None:
        """Forget all rows."""
        self._piles.clear()
        self._spill.close()

    def _batches(self, number: int) -> Iterator[pa.RecordBatch]:
        pile = self._piles.get(number, _Pile())
        for where in pile.spilled:
            with _disk():
                batch = self._spill.read(where, keep=True)
            yield batch
        yield from pile.batches

    def _put_on_disk(self) -> None:
        """All that is in memory: a few would not do, for slices share what they lie in."""
        for pile in self._piles.values():
            if pile.batches:
                with _disk():
                    pile.spilled += self._spill.write([concat(pile.batches, self.schema)])
                pile.batches.clear()
        self._held = 0


def runs(numbers: NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
    """Runs of one number among some that ascend."""
    if not len(numbers):
        return
    places = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(places):
        yield int(numbers[start]), slice(start, end)


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows of the source could not wait in {tempfile.gettempdir()}: {error}; make room "
            "there, or name another place by the environment variable TMPDIR"
        ) from error
