"""The files that one row group of a checkpoint holds, with no more columns than an answer needs.

A row group is asked which rows a predicate may keep, and then for the columns of the answer. A
group without rows left is read no further.
"""

from __future__ import annotations

from contextlib import aclosing, closing, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._concurrency import ItemsInThread, in_thread, map_stream, together
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.actions.json import ADD_JSON_NAMES
from adelta.kernel.data_skipping.statistic import PARTITION_VALUES
from adelta.kernel.data_skipping.stats_text import stats_text
from adelta.log.action_columns import conform, fields_of, kept_maps, nulls
from adelta.log.checkpoint_row_skipping import CheckpointRowSkipping
from adelta.log.row_group_reader import STATS_PARSED, RowGroupReader
from adelta.parquet.column_slices import ColumnSlices

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence

    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.log.column_arena import ColumnArena
    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.reader import ParquetFile

__all__ = ["CheckpointRowGroup"]

arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

_KEPT = 1 << 19  # bytes of a column decoded at once: what that takes is added to what is kept
_TOGETHER = 1 << 18  # bytes of all columns, decoded at once
_TYPED = 1 << 20  # likewise of what becomes text
_TEXTS_AT_ONCE = 2
_FEW_ROWS = 4096  # as one chunk rather than several


class CheckpointRowGroup:
    """One row group under way. Of partition values it keeps those that a predicate leaves."""

    def __init__(self, file: ParquetFile, group: int) -> None:
        self._reader = RowGroupReader(file, group)
        self._skipping = CheckpointRowSkipping(self._reader)

    async def adds(
        self, columns: Sequence[str], skipping: Skipping | None, arena: ColumnArena | None
    ) -> pa.Table:
        """The named columns of `ADD_SCHEMA` for the live files that `skipping` keeps, in `arena`.

        Raises:
            InvalidTableError: the object is damaged.
        """
        mask = None if skipping is None else await self._skipping.mask(skipping)
        schema = pa.schema([ADD_SCHEMA.field(column) for column in columns])
        if mask is not None and not mask.true_count:
            return pa.Table.from_batches([], schema)
        names = dict.fromkeys(["path", *(ADD_JSON_NAMES[column] for column in columns)])
        if "stats" in names and not self._reader.complete("stats"):
            names[STATS_PARSED[1]] = None
        fetched = await self._reader.fetch([(name,) for name in names])
        assert fetched is not None  # there is a path
        found = await self._columns(fetched, list(names), schema, mask, arena)
        made: Any = [arrow.chunked_array(c, f.type) for c, f in zip(found, schema, strict=True)]
        table = pa.Table.from_arrays(made, schema=schema)
        return table.combine_chunks() if table.num_rows < _FEW_ROWS else table

    async def _columns(
        self,
        fetched: FetchedColumns,
        names: Sequence[str],
        schema: pa.Schema,
        mask: Values | None,
        arena: ColumnArena | None,
    ) -> list[list[Values]]:
        """The columns of live files where `mask` is true, in chunks; `names` were fetched for them.

        Statistics that are just typed become text while the other columns are decoded, where that
        is of all rows.
        """
        size = _KEPT if mask is None else None
        live = mask  # which names rows of files alone
        if mask is None and ("path" not in schema.names or not self._reader.only_files()):
            live = await in_thread(self._reader.sliced, self._live, fetched)
        typed = mask is None and "stats" in schema.names and self._only_typed(names)
        decoded = [column for column in schema if not (typed and column.name == "stats")]
        columns: dict[str, list[Values]] = {}

        async def others() -> None:
            found = await in_thread(
                self._reader.sliced, self._decoded, fetched, decoded, names, live, size, arena
            )
            columns.update({c.name: chunks for c, chunks in zip(decoded, found, strict=True)})

        async def texts() -> None:
            columns["stats"] = await self._texts(fetched, live, arena)

        async with nullcontext() if arena is None else arena.turn(writes_texts=typed):
            await together(*([texts, others] if typed else [others]))
        return [columns[name] for name in schema.names]

    def _live(self, slices: ColumnSlices) -> Values:
        """Which rows are of live files."""
        paths = self._reader.slices(slices, [("path",)], self._reader.rows)
        return self._reader.padded(
            [pc.is_valid(pc.struct_field(actions, [0])) for _, actions in paths]
        )

    def _only_typed(self, names: Sequence[str]) -> bool:
        """Whether typed statistics are the only ones that the file has."""
        if STATS_PARSED[1] not in names or not self._reader.present([STATS_PARSED[1:]]):
            return False
        return not self._reader.present([("stats",)])

    def _decoded(
        self,
        slices: ColumnSlices,
        schema: Sequence[pa.Field[Any]],
        names: Sequence[str],
        live: Values | None,
        size: int | None,
        arena: ColumnArena | None,
    ) -> list[list[Values]]:
        """These columns of the rows that are `live`, in chunks."""
        rows = self._reader.rows if live is None else live.true_count
        found: dict[str, list[Values]] = {}
        present: dict[str, list[tuple[str, ...]]] = {}  # the fields of `add` for each column
        for column in schema:
            fields: list[tuple[str, ...]] = [(ADD_JSON_NAMES[column.name],)]
            if column.name == "stats" and STATS_PARSED[1] in names:
                fields.append(STATS_PARSED[1:])
            if not self._reader.present(fields):
                found[column.name] = nulls(rows, column.type)
            elif fields == [(PARTITION_VALUES,)] and self._skipping.by_predicate is not None:
                found[column.name] = self._partition_values(live, column, arena)
            else:
                found[column.name] = []
                present[column.name] = fields
        left = [column for column in schema if column.name in present]
        parts = [left] if self._is_small(present) else [[column] for column in left]
        for part in parts:
            fields = [field for column in part for field in present[column.name]]
            for actions in self._of_live(slices, fields, size, live) if fields else ():
                values = fields_of(actions)
                for column in part:
                    made = _add_column(values, column, self._reader.file.layout.path, arena)
                    found[column.name].append(made)
        columns = [found[column.name] for column in schema]
        if arena is not None:
            pa.default_memory_pool().release_unused()  # this thread's
        return columns

    def _is_small(self, present: Mapping[str, Sequence[tuple[str, ...]]]) -> bool:
        """Whether to decode fields together takes so little that this is sooner done."""
        leaves = self._reader.present([field for fields in present.values() for field in fields])
        layout, group = self._reader.file.layout, self._reader.group
        return not leaves or layout.uncompressed_bytes(leaves, group) <= _TOGETHER

    def _of_live(
        self,
        slices: ColumnSlices,
        fields: Sequence[tuple[str, ...]],
        size: int | None,
        live: Values | None,
    ) -> Generator[Values, None, None]:
        """`add` structs of these fields of the rows that are `live`."""
        end = self._reader.end(live)
        for start, actions in self._reader.slices(slices, fields, end, size):
            if live is None:
                yield actions
                continue
            here = live.slice(start, len(actions))
            if here.true_count:
                yield pc.filter(actions, here) if here.false_count else actions

    async def _texts(
        self, fetched: FetchedColumns, live: Values | None, arena: ColumnArena | None
    ) -> list[Values]:
        """The text of statistics that are just typed: one slice's, while the next is decoded."""

        def parsed() -> Generator[Values, None, None]:
            with ColumnSlices(self._reader.file, fetched) as slices:
                for actions in self._of_live(slices, [STATS_PARSED[1:]], _TYPED, live):
                    yield pc.struct_field(actions, [0])
            if arena is not None:
                pa.default_memory_pool().release_unused()  # this thread's

        async def decoded() -> AsyncGenerator[Values, None]:
            with closing(parsed()) as found:
                async for structs in ItemsInThread(found):
                    yield structs

        def write(structs: Values) -> Values:
            text = stats_text(structs)
            return text if arena is None else arena.keep(text)

        async with aclosing(decoded()) as slices:
            return await map_stream(
                lambda structs: in_thread(write, structs), slices, limit=_TEXTS_AT_ONCE
            )

    def _partition_values(
        self, live: Values, column: pa.Field[Any], arena: ColumnArena | None
    ) -> list[Values]:
        """The partition values of rows that are `live`, of those that the first step has kept."""
        assert self._skipping.by_predicate is not None
        within, parts = self._skipping.by_predicate
        wanted = pc.filter(live, within)
        chunks, start = [], 0
        for part in parts:
            here = wanted.slice(start, len(part))
            start += len(part)
            if here.true_count:
                rows = pc.filter(part, here) if here.false_count else part
                path = self._reader.file.layout.path
                chunks.append(_add_column(fields_of(rows), column, path, arena))
        return chunks


def _add_column(
    fields: Mapping[str, Values], column: pa.Field[Any], path: str, arena: ColumnArena | None
) -> Values:
    """One column of `ADD_SCHEMA` out of the fields of `add` structs."""
    name = ADD_JSON_NAMES[column.name]
    parsed: Values = fields.get(STATS_PARSED[1]) if column.name == "stats" else None
    if name in fields:
        values = conform(fields[name], column.type, f"{path}: add.{name}")
    else:
        values = stats_text(parsed)
    if column.name == "path" and values.null_count:
        raise InvalidTableError(
            f"{path}: has an add without a path; the checkpoint is damaged: delete it, and the "
            "log is read without it"
        )
    if parsed is not None and name in fields and values.null_count:
        values = pc.coalesce(values, stats_text(parsed))
    if arena is None:
        return values
    return kept_maps(values, arena) if pa.types.is_map(values.type) else arena.keep(values)
