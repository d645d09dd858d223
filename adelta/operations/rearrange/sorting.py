"""Rows sorted along a curve, in bounded memory: parted into runs, each sorted by itself.

Runs are ranges of places on the curve, of about as many rows each, as a sample has them. Rows wait
for the end of the input in the run that they belong to: in memory, and on the local disk when they
are too many. A run of which there is more than a sample can foresee is sorted part by part.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from adelta._arrow_values import array_of_numpy, numpy_of
from adelta._dataclasses import dataclass
from adelta.errors import StorageError
from adelta.operations.rearrange.curves import bits_for, place_on
from adelta.operations.rearrange.ranges import ColumnRanges, ColumnSample, column_at
from adelta.write.spill import Pile, spill_piles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.operations.rearrange.curves import Curve, Places
    from adelta.write.spill import SpilledBatch, SpillFile

__all__ = ["Ordering", "RowSample", "RunSorter", "Waiting"]

_PLACE: Final = "\0place"  # no column has such a name
_RUN_BYTES: Final = 32 * 1024 * 1024
_BATCH_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ordering:
    """Where rows are on a curve, and where runs of rows begin on it, but for the first."""

    columns: tuple[tuple[str, ...], ...]
    curve: Curve
    ranges: tuple[ColumnRanges, ...]
    sample: Places

    def places(self, rows: pa.RecordBatch) -> Places:
        """The places of rows. CPU-heavy."""
        coordinates = [
            ranges.place(column_at(rows, path))
            for path, ranges in zip(self.columns, self.ranges, strict=True)
        ]
        return place_on(self.curve, coordinates, bits_for(len(coordinates)))

    def starts(self, runs: int) -> Places:
        """Where so many runs begin, but for the first; fewer where many rows share a place."""
        if runs <= 1 or not len(self.sample):
            return np.zeros(0, np.uint64)
        steps = np.linspace(0, len(self.sample), runs + 1)[1:-1]
        return np.unique(self.sample[steps.astype(np.int64)])


class RowSample:
    """Learns an `Ordering` from the columns that it goes by."""

    def __init__(self, columns: Sequence[tuple[str, ...]], curve: Curve) -> None:
        self._columns = tuple(columns)
        self._curve = curve
        self._samples = [ColumnSample() for _ in columns]
        self.num_rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in rows, which need no other columns. CPU-heavy."""
        self.num_rows += rows.num_rows
        for path, sample in zip(self._columns, self._samples, strict=True):
            sample.add(column_at(rows, path))

    def ordering(self) -> Ordering:
        """What has been learnt. CPU-heavy."""
        bits = bits_for(len(self._columns))
        ranges = tuple(sample.ranges(bits) for sample in self._samples)
        coordinates = [
            each.place(sample.values()) for each, sample in zip(ranges, self._samples, strict=True)
        ]
        places = np.sort(place_on(self._curve, coordinates, bits))
        return Ordering(self._columns, self._curve, ranges, places)


Waiting: TypeAlias = "SpilledBatch | pa.RecordBatch"
"""Rows that wait, on disk or in memory."""


class RunSorter:
    """Takes in rows, and gives them in order. Its methods are CPU-heavy; one is called at a time.

    Args:
        ordering: the order.
        num_rows: how many rows there are to be.
        files: how many parts the rows are to be divided into, each of several runs.
        memory: bytes of rows that may wait in memory.
    """

    def __init__(self, ordering: Ordering, num_rows: int, files: int, memory: int) -> None:
        self._ordering = ordering
        self._num_rows = num_rows
        self._files = files
        self._memory = memory
        self._held = 0
        self._piles: list[Pile] = []
        self._starts: Places | None = None
        self._file_starts = ordering.starts(files)
        self._spill: SpillFile | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in rows.

        Raises:
            StorageError: the local disk is full, or fails.
        """
        if not rows.num_rows:
            return
        if self._starts is None:
            self._begin(rows)
        assert self._starts is not None
        places = self._ordering.places(rows)
        rows = rows.append_column(_PLACE, array_of_numpy(places))
        if not len(self._starts):
            self._wait(0, rows)
        else:
            runs = np.searchsorted(self._starts, places, side="right").astype(np.uint16)
            ends = np.cumsum(np.bincount(runs, minlength=len(self._piles)))
            rows = rows.take(array_of_numpy(np.argsort(runs, kind="stable")))
            start = 0
            for run, end in enumerate(ends.tolist()):
                if end > start:
                    self._wait(run, rows.slice(start, end - start))
                start = end
        if self._held > self._memory:
            with _on_disk():
                self._spill_all()

    def parts(self) -> list[list[list[Waiting]]]:
        """What waits, to be taken by `sorted_rows`: by file, and of each file in order."""
        files: list[list[list[Waiting]]] = [[]]
        starts = [] if self._starts is None else self._starts.tolist()
        borders = set(self._file_starts.tolist())
        for run, pile in enumerate(self._piles):
            if run and starts[run - 1] in borders:
                files.append([])
            files[-1] += _in_parts([*pile.spilled, *pile.batches])
        self._piles = []
        return [each for each in files if each]

    def sorted_rows(self, part: list[Waiting]) -> list[pa.RecordBatch]:
        """The rows of a part in their order, in batches of a good size; it is empty afterwards.

        Raises:
            StorageError: the local disk fails.
        """
        with _on_disk():
            batches = [e if isinstance(e, pa.RecordBatch) else self._read(e) for e in part]
        part.clear()
        rows = pa.Table.from_batches(batches)
        batches.clear()
        places: Any = numpy_of(rows.column(_PLACE))
        order = np.argsort(places, kind="stable")
        rows = rows.drop_columns([_PLACE]).combine_chunks()
        step = max(1, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes))
        found = []
        for start in range(0, rows.num_rows, step):
            taken = rows.take(array_of_numpy(order[start : start + step]))
            found += taken.combine_chunks().to_batches()
        return found

    def close(self) -> None:
        """Forget every row that waits."""
        self._piles = []
        if self._spill is not None:
            self._spill.close()

    def _begin(self, rows: pa.RecordBatch) -> None:
        """Decide how many runs there are, now that there are rows to tell their size by."""
        size = rows.nbytes / rows.num_rows * self._num_rows
        each = -(-int(size) // (self._files * _RUN_BYTES)) if size > self._memory else 1
        borders = self._ordering.starts(max(1, each) * self._files)
        self._starts = np.union1d(borders, self._file_starts)
        self._piles = [Pile() for _ in range(len(self._starts) + 1)]

    def _wait(self, run: int, rows: pa.RecordBatch) -> None:
        self._piles[run].batches.append(rows)
        self._held += rows.nbytes

    def _spill_all(self) -> None:
        self._spill = spill_piles(self._spill, self._piles)
        self._held = 0

    def _read(self, spilled: SpilledBatch) -> pa.RecordBatch:
        assert self._spill is not None
        return self._spill.read(spilled)


def _in_parts(
    waiting: list[Waiting],
) -> Iterator[list[Waiting]]:
    """The batches of a run in parts that are sorted by themselves, most often one."""
    part: list[Waiting] = []
    held = 0
    for each in waiting:
        size = each.nbytes if isinstance(each, pa.RecordBatch) else each.message_bytes
        if part and held + size > 4 * _RUN_BYTES:
            yield part
            part, held = [], 0
        part.append(each)
        held += size
    if part:
        yield part


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows could not wait in {tempfile.gettempdir()}: {error}; make room there, or name "
            "another place by the environment variable TMPDIR"
        ) from error
