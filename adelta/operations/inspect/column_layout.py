"""ColumnLayout: where the values of a column lie in a table's files.

Each file holds the values between the least and the greatest that its statistics state, or the one
of its partition. Where these ranges lie apart, a predicate on the column skips most files; where
they lie over each other, it skips none. The depth at a value is how many files it may be in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, numpy_of
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import SchemaMismatchError
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.partition import lookup_partition_values, parse_partition_values
from adelta.kernel.schema.alteration import shown
from adelta.kernel.schema.names import leaf_fields, physical_name, physical_schema
from adelta.kernel.statistics import has_bounds
from adelta.kernel.table_configuration import TableConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.schema import types as t
    from adelta.snapshot import Snapshot

__all__ = ["ColumnLayout", "FileRange", "column_layout", "layout_columns"]


_MOST_FILES = 50_000  # whose statistics are read; of more, every so many-th
_PREFIX = 8  # bytes by which texts are told apart, after what all have in common
_TEXT = 200  # characters


@dataclass(frozen=True, slots=True)
class FileRange:
    """A file's least and greatest value, as texts and as places between 0 and 1."""

    start: float
    end: float
    least: str
    greatest: str
    num_bytes: int
    path: str


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """Where the values of a column lie.

    Places are between 0, the least value of the table, and 1, the greatest one; numbers and times
    lie there in proportion, texts by their first bytes after those that all have in common.

    Attributes:
        column: the column, dotted below structs.
        type: its type.
        version: the version of the table.
        num_files: the files of the version.
        num_looked_at: the files whose statistics were read: all of them, up to 50,000.
        num_unbounded: those of the files looked at that state no range of the column.
        least: the least value, as text; None where no file states one.
        greatest: the greatest value, as text.
        average_depth: in how many files a value may be that is the least one of a file, on average;
            of all files, even where not all were looked at.
        depths: how many files may hold the values of each part of the range, of equal parts.
        files: ranges of files, evenly taken in the order of their least values.
    """

    column: str
    type: str
    version: int
    num_files: int
    num_looked_at: int
    num_unbounded: int
    least: str | None
    greatest: str | None
    average_depth: float | None
    depths: tuple[float, ...]
    files: tuple[FileRange, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column with ranges: its names in files, or as a partition column."""

    type: t.DataType
    physical: tuple[str, ...]
    is_partition: bool


def layout_columns(snapshot: Snapshot) -> list[str]:
    """The columns whose ranges files state, as `column_layout` takes them."""
    return list(_columns(snapshot))


def _columns(snapshot: Snapshot) -> Mapping[str, _Column]:
    configuration = TableConfiguration(snapshot.protocol, snapshot.metadata)
    schema, mode = configuration.schema, configuration.column_mapping_mode
    partitions = {field.name: field for field in configuration.partition_fields}
    pairs = zip(leaf_fields(schema), leaf_fields(physical_schema(schema, mode)), strict=True)
    found: dict[str, _Column] = {}
    for (path, field), (physical, _) in pairs:
        if path[0] in partitions:
            name = physical_name(partitions[path[0]], mode)
            if has_bounds(field.type):
                found[shown(path)] = _Column(field.type, (name,), is_partition=True)
        elif has_bounds(field.type):
            found[shown(path)] = _Column(field.type, physical, is_partition=False)
    return found


async def column_layout(
    snapshot: Snapshot, column: str, *, bars: int = 400, parts: int = 200
) -> ColumnLayout:
    """Where the values of a column lie in the files of a version.

    At most `bars` files are told one by one; depths are told for `parts` parts of the range.

    Raises:
        SchemaMismatchError: there is no such column, or files state no ranges of it.
        InvalidTableError: a checkpoint is damaged.
    """
    known = _columns(snapshot)
    name = column if column in known else {each.lower(): each for each in known}.get(column.lower())
    if name is None:
        raise SchemaMismatchError(
            f"{column!r:.200} is no column whose least and greatest values files state; such are "
            f"{', '.join(known) or 'none'!s:.500}"
        )
    source = "partition_values" if known[name].is_partition else "stats"
    files = await snapshot.files(columns=["path", "size", source])

    def lay() -> ColumnLayout:
        every = -(-files.num_rows // _MOST_FILES)
        some = _every(files, every) if every > 1 else files
        ranges = _Ranges.of(some, known[name])
        return ColumnLayout(
            name,
            str(known[name].type),
            snapshot.version,
            files.num_rows,
            some.num_rows,
            some.num_rows - ranges.files.num_rows,
            *ranges.ends(),
            ranges.average_depth(files.num_rows / max(1, some.num_rows)),
            ranges.depths(parts, files.num_rows / max(1, some.num_rows)),
            ranges.bars(bars),
        )

    return await in_thread(lay)


def _every(files: pa.Table, step: int) -> pa.Table:
    """Every so many-th file, batch by batch: Arrow copies all of a table before it takes some."""
    parts: list[pa.RecordBatch] = []
    passed = 0
    for batch in files.to_batches():
        wanted: Any = np.arange(-passed % step, batch.num_rows, step)
        parts.append(batch.take(array_of(wanted, pa.int64())))
        passed += batch.num_rows
    return pa.Table.from_batches(parts, files.schema)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """The ranges of files that state them; `starts` and `ends` are places between 0 and 1."""

    files: pa.Table
    least: pa.Array[Any]
    greatest: pa.Array[Any]
    starts: np.ndarray[Any, np.dtype[np.float64]]
    stops: np.ndarray[Any, np.dtype[np.float64]]

    @classmethod
    def of(cls, files: pa.Table, column: _Column) -> _Ranges:
        if column.is_partition:
            maps = files.column("partition_values")
            texts = lookup_partition_values(maps, column.physical[0])
            least = greatest = parse_partition_values(texts, column.type)
        else:
            paths = [(kind, *column.physical) for kind in (MIN_VALUES, MAX_VALUES)]
            wanted = [Statistic(path, path, column.type) for path in paths]
            found = parse_stats(files.column("stats"), wanted)
            least, greatest = (found[path] for path in paths)
        low, high = _keys(least, greatest)
        stated = np.isfinite(low) & np.isfinite(high) & (low <= high)
        mask = pa.array(stated)
        low, high = low[stated], high[stated]
        first, last = (low.min(), high.max()) if len(low) else (0.0, 0.0)
        span = (last - first) or 1.0
        return cls(
            files.filter(mask),
            least.filter(mask),
            greatest.filter(mask),
            (low - first) / span,
            (high - first) / span,
        )

    def ends(self) -> tuple[str | None, str | None]:
        if not len(self.starts):
            return None, None
        return (
            _texts(self.least.take([int(np.argmin(self.starts))]))[0],
            _texts(self.greatest.take([int(np.argmax(self.stops))]))[0],
        )

    def average_depth(self, weight: float) -> float | None:
        if not len(self.starts):
            return None
        begun = np.searchsorted(np.sort(self.starts), self.starts, side="right")
        ended = np.searchsorted(np.sort(self.stops), self.starts, side="left")
        others = float((begun - ended).mean()) - 1
        return 1 + others * weight

    def depths(self, parts: int, weight: float) -> tuple[float, ...]:
        if not len(self.starts):
            return ()
        first = np.minimum((self.starts * parts).astype(np.int64), parts - 1)
        last = np.minimum((self.stops * parts).astype(np.int64), parts - 1)
        change = np.bincount(first, minlength=parts + 1) - np.bincount(
            last + 1, minlength=parts + 1
        )
        return tuple(float(depth) for depth in np.cumsum(change)[:parts] * weight)

    def bars(self, most: int) -> tuple[FileRange, ...]:
        order = np.lexsort((self.stops, self.starts))
        if len(order) > most:
            order = order[np.linspace(0, len(order) - 1, most).astype(np.int64)]
        files = self.files.select(["path", "size"]).take(order).to_pydict()
        least, greatest = (_texts(each.take(order)) for each in (self.least, self.greatest))
        return tuple(
            FileRange(float(self.starts[at]), float(self.stops[at]), low, high, size or 0, path)
            for at, low, high, size, path in zip(
                order, least, greatest, files["size"], files["path"], strict=True
            )
        )


def _texts(values: pa.Array[Any]) -> list[str]:
    """Values as people write them, cut where they are long."""
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [(value or b"").hex()[:_TEXT] for value in values.to_pylist()]
    return [(text or "")[:_TEXT] for text in values.cast(pa.string()).to_pylist()]


def _keys(
    least: pa.Array[Any], greatest: pa.Array[Any]
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Numbers in the order of the values; NaN where there is none."""
    kind = least.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_keys(least, greatest)
    if pa.types.is_temporal(kind):
        integer = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        least, greatest = least.cast(integer), greatest.cast(integer)
    elif pa.types.is_boolean(kind):
        least, greatest = least.cast(pa.int8()), greatest.cast(pa.int8())
    return _floats(least), _floats(greatest)


def _floats(values: pa.Array[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    wide: Any = values.cast(pa.float64(), safe=False)
    return np.asarray(numpy_of(pc.fill_null(wide, float("nan"))), np.float64)


def _text_keys(
    least: pa.Array[Any], greatest: pa.Array[Any]
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Texts as numbers: of each the bytes that come after what all of them have in common."""
    both: Any = pa.concat_arrays([least.cast(pa.large_binary()), greatest.cast(pa.large_binary())])
    ends = pc.min_max(both)
    low, high = (ends[name].as_py() or b"" for name in ("min", "max"))
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), None)
    shared = min(len(low), len(high)) if shared is None else shared
    offsets = np.frombuffer(both.buffers()[1], np.int64)[both.offset : both.offset + len(both) + 1]
    data = both.buffers()[2]
    content = (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    )
    letters = []  # 0 is the end of a text
    for step in range(_PREFIX):
        at = offsets[:-1] + shared + step
        found = content[np.minimum(at, len(content) - 1)].astype(np.int16) + 1
        letters.append(np.where(at < offsets[1:], found, 0))
    places = np.cumsum(np.bincount(np.concatenate(letters), minlength=257) > 0)  # of those in use
    keys = np.zeros(len(both), np.float64)
    for letter in letters:
        keys = keys * (places[-1] + 1) + places[letter]
    keys[np.asarray(both.is_null())] = np.nan
    return keys[: len(least)], keys[len(least) :]
