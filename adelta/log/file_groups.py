"""File actions of a checkpoint, row group by row group, with no more columns than an answer needs.

The footer's statistics of `stats_parsed` exclude row groups without any read; the others are asked
one by one.

Row groups are independent of each other, so any number of them may be under way, in any order, and
memory is that of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_schemas import REMOVE_SCHEMA
from adelta.kernel.actions.json import REMOVE_JSON_NAMES, VERSION_COLUMN
from adelta.kernel.data_skipping.bounds import widen
from adelta.kernel.data_skipping.statistic import (
    MAX_VALUES,
    MIN_VALUES,
    NULL_COUNT,
    NUM_RECORDS,
)
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.log.action_columns import conform, fields_of
from adelta.log.checkpoint_row_group import CheckpointRowGroup
from adelta.parquet.column_slices import ColumnSlices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.data_skipping.statistic import Statistic
    from adelta.log.column_arena import ColumnArena
    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.reader import ParquetFile

__all__ = ["FileGroup", "FilePart"]

arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

_STATS_PARSED = ("add", "stats_parsed")
_PATH = ("add", "path")
_REMOVED_PATH = ("remove", "path")
_SLICE = 1 << 20  # bytes of tombstones that are decoded at once
_INTEGERS = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_BOUNDED_BY_FOOTERS = (*_INTEGERS, t.DATE, t.STRING, t.TIMESTAMP, t.TIMESTAMP_NTZ)


class FilePart:
    """One file of a checkpoint that may hold file actions: a Parquet object, or decoded JSON."""

    __slots__ = ("_among", "_batch", "_file")

    def __init__(
        self,
        file: ParquetFile | None,
        batch: ActionBatch | None = None,
        among: tuple[int, int] | None = None,
    ) -> None:
        """With `among`, no more than the row groups from the one to before the other."""
        self._file = file
        self._batch = batch
        self._among = among

    async def groups(self, skipping: Skipping | None = None) -> list[FileGroup]:
        """The row groups that may hold live files that `skipping` keeps, by the footer alone."""
        if self._batch is not None:
            return [FileGroup(self._batch.adds.drop_columns([VERSION_COLUMN]))]
        if self._file is None or not self._file.layout.has_column(_PATH):
            return []
        return await in_thread(_groups, self._file, skipping, among=self._among)

    async def remove_groups(self) -> list[FileGroup]:
        """The row groups that may hold tombstones, by the footer alone."""
        if self._batch is not None:
            return [FileGroup(self._batch.removes.drop_columns([VERSION_COLUMN]))]
        if self._file is None or not self._file.layout.has_column(_REMOVED_PATH):
            return []
        return await in_thread(_groups, self._file, None, _REMOVED_PATH, self._among)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """File actions that are read together: rows of JSON, decoded already, or a Parquet row group.

    `size` is about how many bytes they take in their file.
    """

    rows: pa.Table | None = None
    file: ParquetFile | None = None
    row_group: int = 0
    size: int = 0

    async def adds(
        self,
        columns: Sequence[str],
        skipping: Skipping | None = None,
        arena: ColumnArena | None = None,
    ) -> pa.Table:
        """The named columns of `ADD_SCHEMA` for the live files that `skipping` keeps.

        They come to lie in `arena` where one is given.

        Raises:
            InvalidTableError: the object is damaged.
        """
        if self.rows is not None:
            rows = self.rows
            if skipping is not None:
                rows = await in_thread(skipping.candidates, rows)
            return rows.select(list(columns))
        assert self.file is not None
        return await CheckpointRowGroup(self.file, self.row_group).adds(columns, skipping, arena)

    async def removes(self) -> pa.Table:
        """The tombstones, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: the object is damaged.
        """
        if self.rows is not None:
            return self.rows
        assert self.file is not None
        file = self.file
        names = [n for n in REMOVE_JSON_NAMES.values() if file.layout.has_column(("remove", n))]
        fetched = await file.fetch([("remove", n) for n in names], row_groups=[self.row_group])
        return await in_thread(_removes, file, fetched, names)


def _groups(
    file: ParquetFile,
    skipping: Skipping | None,
    leaf: tuple[str, ...] = _PATH,
    among: tuple[int, int] | None = None,
) -> list[FileGroup]:
    numbers = range(file.layout.num_row_groups)
    chosen = numbers if among is None else numbers[slice(*among)]
    groups = [g for g in chosen if not _all_null(file, g, leaf)]
    if skipping is not None and groups:
        kept = _groups_mask(file, groups, skipping).to_pylist()
        groups = [group for group, keep in zip(groups, kept, strict=True) if keep]
    size = file.layout.size // max(1, file.layout.num_row_groups)
    return [FileGroup(file=file, row_group=group, size=size) for group in groups]


def _all_null(file: ParquetFile, group: int, leaf: tuple[str, ...]) -> bool:
    found = file.layout.statistics(group, leaf)
    rows = file.layout.metadata.row_group(group).num_rows
    return rows == 0 or (found is not None and found.null_count == rows)


def _groups_mask(file: ParquetFile, groups: Sequence[int], skipping: Skipping) -> Values:
    """Which row groups may hold files to keep: the footer bounds the bounds of all their files."""
    bounds: dict[tuple[str, ...], Values] = {}
    for statistic in skipping.bounds:
        kind = to_arrow_type(statistic.type)
        values = [_bound(file, group, statistic) for group in groups]
        try:
            column = array_of(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            column = arrow.nulls(len(groups), kind)
        bounds[statistic.path] = widen(column, statistic)
    return skipping.bounds_mask(bounds, len(groups))


def _bound(file: ParquetFile, group: int, statistic: Statistic) -> object:
    """What holds of a statistic for all files of a row group together, or None."""
    leaf = (*_STATS_PARSED, *statistic.source)
    kind = statistic.kind
    if kind == NUM_RECORDS or not file.layout.has_column(leaf):
        return None
    if kind != NULL_COUNT and statistic.type not in _BOUNDED_BY_FOOTERS:
        return None  # NaN is left out of footers, and decimals come in several shapes
    try:
        found, paths = file.layout.statistics(group, leaf), file.layout.statistics(group, _PATH)
    except (ValueError, OverflowError, InvalidTableError):
        return None  # a bound that Python has no value for
    if found is None or paths is None or found.null_count != paths.null_count:
        return None  # some file lacks the statistic
    if kind == NULL_COUNT:
        return 0 if found.max == 0 else None
    return found.min if kind == MIN_VALUES else found.max if kind == MAX_VALUES else None


def _removes(file: ParquetFile, fetched: FetchedColumns, names: Sequence[str]) -> pa.Table:
    batches = []
    with ColumnSlices(file, fetched) as slices:
        for actions in slices.of([("remove", name) for name in names], _SLICE):
            fields = fields_of(pc.filter(actions, pc.is_valid(pc.struct_field(actions, "path"))))
            batches.append(_remove_batch(fields, file.layout.path))
    return pa.Table.from_batches(batches, REMOVE_SCHEMA)


def _remove_batch(fields: Mapping[str, Values], path: str) -> pa.RecordBatch:
    columns = []
    for column in REMOVE_SCHEMA:
        name = REMOVE_JSON_NAMES[column.name]
        if name in fields:
            columns.append(conform(fields[name], column.type, f"{path}: remove.{name}"))
        else:
            columns.append(arrow.nulls(len(fields["path"]), column.type))
    return pa.RecordBatch.from_arrays(columns, schema=REMOVE_SCHEMA)
