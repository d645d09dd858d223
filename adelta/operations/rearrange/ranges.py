"""Ranges of a column's values: coordinates on a grid, learnt from a sample of its rows.

A value's coordinate is about the share of rows with smaller values, so that each coordinate divides
the rows evenly however the values are spread. A value that many rows have gets the middle of their
share: what only few values are told apart by counts as much as any other column. Null comes first,
NaN last; of texts 32 bytes are looked at, behind what all of them begin with, as statistics do.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of_numpy, numpy_of
from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from adelta.operations.rearrange.curves import Coordinates

__all__ = ["ColumnRanges", "ColumnSample", "column_at"]


_SAMPLE_ROWS: Final = 256 * 1024
_TEXT_BYTES: Final = 32
_KEPT_BYTES: Final = 512  # of a text in the sample
_SMALL_DECIMAL: Final = 18  # digits that 64 bits hold


def column_at(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array[Any]:
    """The column at a path of names; a field of a null struct is null."""
    column: pa.Array[Any] = rows.column(path[0])
    if len(path) > 1:
        column = pc.struct_field(column, list(path[1:]))
    return column


class ColumnSample:
    """Values of a column, evenly spread over its rows, however many there are."""

    def __init__(self) -> None:
        self._kept: list[pa.Array[Any]] = []
        self._held = 0
        self._step = 1
        self._next = 0  # rows to pass before the next one that is kept
        self._least: bytes | None = None
        self._greatest: bytes | None = None

    def add(self, column: pa.Array[Any]) -> None:
        """Take in the next rows. CPU-heavy."""
        if _is_text(column.type):
            column = column.cast(pa.binary())
            self._note_bounds(column)
        count = len(column)
        places = np.arange(self._next, count, self._step, dtype=np.int64)
        self._next = self._next - count if not len(places) else int(places[-1]) + self._step - count
        taken = column.take(array_of_numpy(places))
        if _is_text(column.type):
            taken = pc.binary_slice(taken, 0, self._shared + _KEPT_BYTES)
        self._kept.append(taken)
        self._held += len(taken)
        if self._held > 2 * _SAMPLE_ROWS:
            whole = pa.concat_arrays(self._kept)
            self._kept = [whole.take(array_of_numpy(np.arange(0, len(whole), 2)))]
            self._held = len(self._kept[0])
            self._step *= 2

    def values(self) -> pa.Array[Any]:
        """The sample."""
        return pa.concat_arrays(self._kept) if self._kept else pa.nulls(0)

    def ranges(self, bits: int) -> ColumnRanges:
        """What the sample says of the column, as coordinates of so many bits. CPU-heavy."""
        return ColumnRanges.of(self.values(), bits, self._shared)

    @property
    def _shared(self) -> int:
        """How many bytes all texts begin with."""
        if self._least is None or self._greatest is None:
            return 0
        pairs = zip(self._least, self._greatest, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _note_bounds(self, column: pa.Array[Any]) -> None:
        found = pc.min_max(column)
        least, greatest = found["min"].as_py(), found["max"].as_py()
        if least is None:
            return
        self._least = least if self._least is None else min(self._least, least)
        self._greatest = greatest if self._greatest is None else max(self._greatest, greatest)


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """Where ranges of values begin, but for the first one, and the coordinate of each.

    Nulls have the coordinate 0. Texts are told apart from the byte `shared` on.
    """

    starts: NDArray[Any]
    coordinates: Coordinates
    shared: int = 0

    @classmethod
    def of(cls, sample: pa.Array[Any], bits: int, shared: int = 0) -> ColumnRanges:
        """The ranges that part a sample of the column's values evenly."""
        most = (1 << bits) - 1
        known = sample.drop_null()
        if not len(known):
            return cls(np.zeros(0, np.int64), np.ones(1, np.uint16), shared)
        values = np.sort(_orderable(known, shared))
        steps = np.linspace(0, len(values), min(most, len(values)) + 1)[1:-1]
        starts = np.unique(values[steps.astype(np.int64)])
        counts = np.bincount(
            np.searchsorted(starts, values, side="right"), minlength=len(starts) + 1
        )
        before = sample.null_count + np.cumsum(counts) - counts / 2
        coordinates = 1 + before * (most - 1) / len(sample)
        return cls(starts, coordinates.astype(np.uint16), shared)

    def place(self, column: pa.Array[Any]) -> Coordinates:
        """The coordinate of every row. CPU-heavy."""
        missing = column.null_count
        if _is_text(column.type):
            column = column.cast(pa.binary())
        values = _orderable(column, self.shared)
        if self.starts.dtype != values.dtype:  # a column of nothing but nulls in the sample
            found = np.ones(len(values), np.uint16)
        else:
            found = self.coordinates[np.searchsorted(self.starts, values, side="right")]
        if missing:
            found[numpy_of(column.is_null())] = 0
        return found


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
    )


def _orderable(column: pa.Array[Any], shared: int) -> NDArray[Any]:
    """Values as numbers, or as texts of one length, that have the same order; any for nulls."""
    kind = column.type
    if _is_text(kind):
        return _texts(column, shared)
    if pa.types.is_decimal(kind):
        return _decimals(column, kind.precision)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_timestamp(kind):
        column = column.view(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    filled = pc.fill_null(column, 0) if column.null_count else column
    return numpy_of(filled)


def _texts(column: pa.Array[Any], shared: int) -> NDArray[Any]:
    padding = bytes(_TEXT_BYTES)
    known = pc.fill_null(column, b"") if column.null_count else column
    rest = pc.binary_slice(known, shared, shared + _TEXT_BYTES)
    padded = pc.binary_slice(pc.binary_join_element_wise(rest, padding, b""), 0, _TEXT_BYTES)
    start = padded.offset * _TEXT_BYTES
    data = np.frombuffer(padded.buffers()[2] or b"", np.uint8)
    data = data[start : start + len(padded) * _TEXT_BYTES]
    return data.view(f"S{_TEXT_BYTES}")


def _decimals(column: pa.Array[Any], precision: int) -> NDArray[Any]:
    data: Any = column.buffers()[1] or b""
    words: NDArray[Any] = np.frombuffer(data, np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    low: NDArray[Any] = np.ascontiguousarray(words[:, 0])
    if precision > _SMALL_DECIMAL:
        high = words[:, 1].astype(np.float64) * 2.0**64
        low = high + low.view(np.uint64).astype(np.float64)
    return low
