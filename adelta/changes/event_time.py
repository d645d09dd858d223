"""EventTimes: the rows that a stream begins with, divided by their event times.

Files lie in the order in which they were written, and rows are late for a watermark where that is
not the order of their times. A micro-batch here has the rows of a range of times, out of all files
whose statistics do not exclude it. Ranges are cut where about so many files, or bytes, lie in one,
as if the rows of each file were spread evenly between its least and its greatest time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import numpy_of
from adelta._dataclasses import dataclass
from adelta.changes.source_offset import SourceOffset
from adelta.errors import InvalidOptionError
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, PARTITION_VALUES
from adelta.kernel.expressions.nodes import And, Column, Comparison, IsNull, Literal, Node, Or
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind, type_of
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adelta.changes.indexed_changes import IndexedFiles
    from adelta.changes.source_rules import Admission
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["EventTimeColumn", "EventTimes"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LEFT = 0.02  # of what a micro-batch takes: so little is not left for one of its own
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventTimeColumn:
    """The column of event times, a timestamp with or without a zone."""

    path: tuple[str, ...]
    type: t.DataType

    @classmethod
    def named(cls, name: str, configuration: TableConfiguration) -> EventTimeColumn:
        """The column of a table that has the name, or that `name`, as SQL, names.

        Raises:
            InvalidOptionError: it is no column of timestamps.
            InvalidExpressionError: it cannot be parsed, or the table has no such column.
        """
        schema = configuration.schema
        node = Column((name,)) if schema.field(name) is not None else parse_expression(name)
        bound = bind(node, schema)
        found = type_of(bound, schema)
        if isinstance(bound, Column) and found in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
            return cls(bound.path, found)
        raise InvalidOptionError(
            f"the event times {name!r:.200} are no column of timestamps; name one by the option "
            "eventTimeColumn, or leave withEventTimeOrder out"
        )

    def between(self, since: int | None, until: int | None) -> Node | None:
        """What holds for rows from `since` on and before `until`, in microseconds since 1970.

        None for all rows. Those without a time come with the first range.
        """
        column = Column(self.path)
        parts: list[Node] = []
        if since is not None:
            parts.append(Comparison(">=", column, self._literal(since)))
        if until is not None:
            parts.append(Comparison("<", column, self._literal(until)))
        if since is None and parts:
            return Or((IsNull(column), *parts))
        return And(tuple(parts)) if len(parts) > 1 else (parts[0] if parts else None)

    def _literal(self, micros: int) -> Literal:
        moment = _EPOCH + micros * _MICROSECOND
        if self.type == t.TIMESTAMP_NTZ:
            moment = moment.replace(tzinfo=None)
        return Literal(moment, self.type)


class EventTimes:
    """Where the event times of files lie. Making one is CPU-heavy: there may be very many."""

    def __init__(
        self, files: IndexedFiles, column: EventTimeColumn, configuration: TableConfiguration
    ) -> None:
        """`files` are those that a stream begins with."""
        assert files.table is not None
        self._files, self._table = files, files.table
        self._column = column
        self._configuration = configuration
        low, high, sizes = self._ranges()
        self._edges, (self._counts, self._bytes) = _curves(low, high, sizes)

    @property
    def version(self) -> int:
        """The version whose files they are."""
        return self._files.version

    def reached(self, start: SourceOffset, admission: Admission) -> SourceOffset:
        """How far a micro-batch from `start` on goes, at most to the end of the files."""
        until = self._next(self._time(start), admission)
        if until is None:
            return SourceOffset(start.table_id, self._files.version + 1)
        return SourceOffset(start.table_id, self._files.version, 0, True, until)

    def between(self, begin: SourceOffset, end: SourceOffset) -> tuple[IndexedFiles, Node | None]:
        """The files that may have rows of a micro-batch, and what holds for those rows.

        Raises:
            InvalidTableError: a partition value is not of its column's type.
        """
        where = self._column.between(self._time(begin), self._time(end))
        if where is None:
            return self._files, None
        kept = self._skipping(where).candidates(self._table)
        sizes = pc.fill_null(kept.column("size"), 0)
        return replace(self._files, table=kept, paths=kept.column("path"), sizes=sizes), where

    def _time(self, offset: SourceOffset) -> int | None:
        """The time before which `offset` has all of the rows."""
        is_here = offset.version == self._files.version and offset.is_initial
        return offset.event_time if is_here else None

    def _next(self, since: int | None, admission: Admission) -> int | None:
        """Where the range that begins with `since` ends; None where it has all that is left."""
        if not len(self._edges) or admission.is_unlimited:
            return None
        ends = [
            _reached(self._edges, curve, since, most)
            for curve, most in zip((self._counts, self._bytes), admission.room, strict=True)
        ]
        known = [end for end in ends if end is not None]
        if not known:
            return None
        found = max(min(known), int(self._edges[0]) + 1, -(1 << 63) if since is None else since + 1)
        return None if found >= self._edges[-1] else found

    def _skipping(self, where: Node) -> Skipping:
        table = self._configuration
        mode = table.column_mapping_mode
        return Skipping.of(where, table.schema, table.partition_columns, mode=mode)

    def _ranges(self) -> tuple[NDArray[np.float64], ...]:
        """First microseconds, those after the last, and bytes, of files whose times are known."""
        import numpy as np

        least, greatest = ((end - _EPOCH) // _MICROSECOND for end in (_FIRST, _LAST))
        where = self._column.between(least, greatest)
        assert where is not None
        skipping, path = self._skipping(where), self._column.path
        if skipping.partition_fields:
            values = skipping.partition_values(self._table.column("partition_values"))
            low: Any = values[(PARTITION_VALUES, *path)]
            high = low
        else:
            bounds = skipping.known_bounds(self._table)
            low, high = (bounds.get((kind, *path)) for kind in (MIN_VALUES, MAX_VALUES))
        sizes = pc.fill_null(self._table.column("size"), 0)
        if low is None or high is None:
            return _empty(), _empty(), _empty()
        known = pc.and_(pc.is_valid(low), pc.is_valid(high))
        first, last, size = (
            numpy_of(pc.cast(pc.filter(c, known), pa.int64())).astype(np.float64)
            for c in (low, high, sizes)
        )
        first, last = first.clip(least, greatest), last.clip(least, greatest)
        right = first <= last
        first, last, size = first[right], last[right], size[right]
        return first, np.maximum(last + 1, np.nextafter(first, np.inf)), size


def _empty() -> NDArray[np.float64]:
    import numpy as np

    return np.empty(0)


def _curves(
    low: NDArray[np.float64], high: NDArray[np.float64], sizes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The ends of files in order, and how many files, and bytes, lie before each of them."""
    import numpy as np

    edges = np.unique(np.concatenate((low, high)))
    found = []
    for weights in (np.ones(len(low)), sizes):
        density = weights / (high - low)
        change = np.zeros(len(edges))
        np.add.at(change, np.searchsorted(edges, low), density)
        np.subtract.at(change, np.searchsorted(edges, high), density)
        parts = np.maximum(np.cumsum(change)[:-1], 0) * np.diff(edges)
        found.append(np.concatenate((np.zeros(min(1, len(edges))), np.cumsum(parts))))
    return edges, (found[0], found[1])


def _reached(
    edges: NDArray[np.float64], curve: NDArray[np.float64], since: int | None, most: float
) -> int | None:
    """Where `most` is reached from `since` on; None where it is not."""
    import numpy as np

    before = 0.0 if since is None else float(np.interp(since, edges, curve))
    wanted = before + most
    if wanted + most * _LEFT >= curve[-1]:
        return None
    return int(np.interp(wanted, curve, edges))
