"""The files that one row group of a checkpoint holds, with no more columns than an answer needs.

A row group is asked in steps, each for the rows that the one before has left: partition values; the
statistics that the predicate names, typed ones before JSON; at last the columns of the answer. A
group without rows left is read no further.
"""

from __future__ import annotations

from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute

from adelta._concurrency import in_thread, map_concurrent, map_stream
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import ADD_SCHEMA
from adelta.kernel.actions.json import ADD_JSON_NAMES
from adelta.kernel.data_skipping.rewrite import PARTITION_VALUES
from adelta.kernel.data_skipping.stats_text import stats_text
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import physical_name
from adelta.log.action_columns import conform, fields_of, kept_maps, nulls
from adelta.parquet.column_slices import ColumnSlices

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence

    from adelta.kernel.data_skipping.prune import Columns, Skipping
    from adelta.log.column_arena import ColumnArena
    from adelta.parquet.reader import FetchedColumns, ParquetFile

__all__ = ["CheckpointRowGroup"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars
arrow: Any = pa  # likewise of types that are known at run time only

P = ParamSpec("P")
R = TypeVar("R")
Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

_STATS_PARSED = ("add", "stats_parsed")
_PARTITION_VALUES_PARSED = ("add", "partitionValues_parsed")
_PATH = ("add", "path")
_LOOKED_AT = 4 << 20  # bytes of a column that are decoded at once, and let go
_KEPT = 1 << 19  # likewise where they are kept: what decoding takes is added to what is kept
_TYPED = 1 << 20  # likewise of what becomes text
_TEXTS_AT_ONCE = 2
_FEW_ROWS = 4096  # as one chunk rather than several
_TYPED_PARTITIONS = (  # of others the typed value may say less
    t.BYTE,
    t.SHORT,
    t.INTEGER,
    t.LONG,
    t.DATE,
    t.BOOLEAN,
)


class CheckpointRowGroup:
    """One row group under way. Masks are as long as the row group.

    What has been fetched is kept as it came, small as it is, and decoded slice by slice, again
    where a later step needs the same columns: only what a step keeps stays in memory. Of partition
    values the first step keeps those that a predicate leaves.
    """

    def __init__(self, file: ParquetFile, group: int) -> None:
        self._file = file
        self._group = group
        self._rows = file.metadata.row_group(group).num_rows
        self._fetched: FetchedColumns | None = None
        self._by_predicate: tuple[Values, list[Values]] | None = None

    async def adds(
        self, columns: Sequence[str], skipping: Skipping | None, arena: ColumnArena | None
    ) -> pa.Table:
        """The named columns of `ADD_SCHEMA` for the live files that `skipping` keeps, in `arena`.

        Raises:
            InvalidTableError: the object is damaged.
        """
        mask = None if skipping is None else await self._mask(skipping)
        schema = pa.schema([ADD_SCHEMA.field(column) for column in columns])
        if mask is not None and not mask.true_count:
            return pa.Table.from_batches([], schema)
        names = dict.fromkeys(["path", *(ADD_JSON_NAMES[column] for column in columns)])
        if "stats" in names and not self._complete("stats"):
            names[_STATS_PARSED[1]] = None
        fetched = await self._fetch([(name,) for name in names])
        assert fetched is not None  # there is a path
        if arena is None:
            found = await self._columns(fetched, list(names), schema, mask, arena)
        else:
            async with arena.one_decodes:
                found = await self._columns(fetched, list(names), schema, mask, arena)
        made: Any = [arrow.chunked_array(c, f.type) for c, f in zip(found, schema, strict=True)]
        table = pa.Table.from_arrays(made, schema=schema)
        return table.combine_chunks() if table.num_rows < _FEW_ROWS else table

    async def _fetch(self, fields: Sequence[tuple[str, ...]]) -> FetchedColumns | None:
        """Fields of `add`, or fields of its structs, those that the file has; None for none."""
        leaves = self._present(fields)
        if not leaves:
            return None
        self._fetched = await self._file.fetch(
            leaves, row_groups=[self._group], having=self._fetched
        )
        return self._fetched

    def _present(self, fields: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        leaves = [("add", *field) for field in fields]
        return [leaf for leaf in leaves if self._file.has_column(leaf)]

    def _complete(self, field: str) -> bool:
        """Whether the footer says that every file has a value of the field."""
        kind = _type_of(self._file.schema, ("add", field))
        if kind is None or pa.types.is_nested(kind):
            return False
        found = self._file.statistics(self._group, ("add", field))
        paths = self._file.statistics(self._group, _PATH)
        if found is None or paths is None or found.null_count is None:
            return False
        return found.null_count == paths.null_count

    def _sliced(
        self,
        step: Callable[Concatenate[ColumnSlices, P], R],
        fetched: FetchedColumns,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Result of a step that decodes what was fetched."""
        with ColumnSlices(self._file, fetched) as slices:
            return step(slices, *args, **kwargs)

    def _slices(
        self, slices: ColumnSlices, fields: Sequence[tuple[str, ...]], size: int, end: int
    ) -> Generator[tuple[int, Values], None, None]:
        """`add` structs of these fields of the rows up to `end`, each with its first row."""
        start = 0
        with closing(slices.of(self._present(fields), size)) as found:
            for actions in found:
                yield start, actions
                start += len(actions)
                if start >= end:
                    return

    # ------------------------------------------------------------------------------- which rows

    async def _mask(self, skipping: Skipping) -> Values | None:
        """Which rows the predicate may keep, by partition values first; None says nothing."""
        mask: Values | None = None
        values: Columns = {}
        if skipping.partition_fields:
            typed = self._typed_partitions(skipping)
            fetched = await self._fetch(list(typed.values()) or [("partitionValues",)])
            if fetched is not None:
                mask, values = await in_thread(
                    self._sliced, self._by_partition, fetched, skipping, typed
                )
        if skipping.by_statistics is None or (mask is not None and not mask.true_count):
            return mask
        parsed = [(_STATS_PARSED[1], *statistic.source) for statistic in skipping.statistics]
        found = None
        for fields in (parsed, [*parsed, ("stats",)]):
            fetched = await self._fetch(fields) if found is None else None
            if fetched is not None:
                found = await in_thread(
                    self._sliced, self._by_statistics, fetched, fields, skipping, values, mask
                )
        return mask if found is None else found

    def _typed_partitions(self, skipping: Skipping) -> Mapping[str, tuple[str, ...]]:
        """Where the partition values that the predicate names are typed; empty if not all are."""
        typed = {}
        for field in skipping.partition_fields:
            leaf = (*_PARTITION_VALUES_PARSED, physical_name(field, skipping.mode))
            kind = _type_of(self._file.schema, leaf)
            if field.type not in _TYPED_PARTITIONS or kind != to_arrow_type(field.type):
                return {}
            typed[field.name] = leaf[1:]
        return typed

    def _by_partition(
        self, slices: ColumnSlices, skipping: Skipping, typed: Mapping[str, tuple[str, ...]]
    ) -> tuple[Values, Columns]:
        """Which rows may match by partition values, and the values of these rows."""
        masks, kept, whole = [], [], []
        fields = list(typed.values()) or [("partitionValues",)]
        for _, actions in self._slices(slices, fields, _LOOKED_AT, self._rows):
            (column,) = fields_of(actions).values()
            if typed:
                values: Columns = {
                    (PARTITION_VALUES, name): pc.struct_field(column, leaf[1])
                    for name, leaf in typed.items()
                }
            else:
                values = skipping.partition_values(column)
            mask = pc.and_(skipping.partition_mask(values, len(actions)), actions.is_valid())
            masks.append(mask)
            kept.append({path: values[path].filter(mask) for path in values})
            whole.append(actions.filter(mask))
        if not typed:
            self._by_predicate = arrow.concat_arrays(masks), whole
        stacked = {path: arrow.concat_arrays([part[path] for part in kept]) for path in kept[0]}
        return arrow.concat_arrays(masks), stacked

    def _by_statistics(
        self,
        slices: ColumnSlices,
        fields: Sequence[tuple[str, ...]],
        skipping: Skipping,
        values: Columns,
        mask: Values | None,
    ) -> Values | None:
        """Which rows of `mask` may match by statistics; `values` are the partition's of `mask`.

        None where some of them have their statistics as JSON, and that is not among `fields`.
        """
        more = ("stats",) not in fields and self._file.has_column(("add", "stats"))
        masks, used = [], 0
        for start, actions in self._slices(slices, fields, _LOOKED_AT, self._end(mask)):
            rows = actions.is_valid()
            if mask is not None:
                rows = pc.and_(rows, mask.slice(start, len(actions)))
            count = rows.true_count
            if not count:
                masks.append(rows)
                continue
            here = fields_of(actions if count == len(actions) else actions.filter(rows))
            parsed = here.get(_STATS_PARSED[1])
            if more and parsed is not None and parsed.null_count:
                return None
            statistics = skipping.read_statistics(here.get("stats"), parsed)
            of_these = {path: column.slice(used, count) for path, column in values.items()}
            used += count
            found = skipping.statistics_mask(statistics, of_these, count)
            masks.append(pc.replace_with_mask(rows, rows, found))
        return self._padded(masks)

    def _end(self, mask: Values | None) -> int:
        """Behind the last row that `mask` names."""
        if mask is None:
            return self._rows
        last = pc.max(pc.indices_nonzero(mask)).as_py()
        return 0 if last is None else int(last) + 1

    def _padded(self, masks: Sequence[Values]) -> Values:
        """The masks of the first rows as one for all rows."""
        missing = self._rows - sum(map(len, masks))
        return arrow.concat_arrays([*masks, arrow.repeat(False, missing)])

    # --------------------------------------------------------------------------------- the rows

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
        size = _KEPT if mask is None else _LOOKED_AT
        live = mask  # which names rows of files alone
        if mask is None and ("path" not in schema.names or not self._only_files()):
            live = await in_thread(self._sliced, self._live, fetched)
        typed = mask is None and "stats" in schema.names and self._only_typed(names)
        decoded = [column for column in schema if not (typed and column.name == "stats")]
        columns: dict[str, list[Values]] = {}

        async def others() -> None:
            found = await in_thread(
                self._sliced, self._decoded, fetched, decoded, names, live, size, arena
            )
            columns.update({c.name: chunks for c, chunks in zip(decoded, found, strict=True)})

        async def texts() -> None:
            columns["stats"] = await self._texts(fetched, live, arena)

        await map_concurrent(lambda part: part(), [texts, others] if typed else [others], limit=2)
        return [columns[name] for name in schema.names]

    def _live(self, slices: ColumnSlices) -> Values:
        """Which rows are of live files."""
        paths = self._slices(slices, [("path",)], _LOOKED_AT, self._rows)
        return self._padded([pc.struct_field(actions, [0]).is_valid() for _, actions in paths])

    def _only_typed(self, names: Sequence[str]) -> bool:
        """Whether typed statistics are the only ones that the file has."""
        if _STATS_PARSED[1] not in names or not self._present([_STATS_PARSED[1:]]):
            return False
        return not self._present([("stats",)])

    def _decoded(
        self,
        slices: ColumnSlices,
        schema: Sequence[pa.Field[Any]],
        names: Sequence[str],
        live: Values | None,
        size: int,
        arena: ColumnArena | None,
    ) -> list[list[Values]]:
        """These columns of the rows that are `live`, in chunks."""
        rows = self._rows if live is None else live.true_count
        columns = []
        for column in schema:
            fields = [(ADD_JSON_NAMES[column.name],)]
            if column.name == "stats" and _STATS_PARSED[1] in names:
                fields.append(_STATS_PARSED[1:])
            present = self._present(fields)
            if not present:
                columns.append(nulls(rows, column.type))
                continue
            if fields == [(PARTITION_VALUES,)] and self._by_predicate is not None:
                columns.append(self._partition_values(live, column, arena))
                continue
            columns.append(
                [
                    _add_column(actions, column, self._file.path, arena)
                    for actions in self._of_live(slices, fields, size, live)
                ]
            )
        if arena is not None:
            pa.default_memory_pool().release_unused()  # this thread's
        return columns

    def _of_live(
        self,
        slices: ColumnSlices,
        fields: Sequence[tuple[str, ...]],
        size: int,
        live: Values | None,
    ) -> Generator[Values, None, None]:
        """`add` structs of these fields of the rows that are `live`."""
        end = self._end(live)
        for start, actions in self._slices(slices, fields, size, end):
            if live is None:
                yield actions
                continue
            here = live.slice(start, len(actions))
            if here.true_count:
                yield actions.filter(here) if here.false_count else actions

    async def _texts(
        self, fetched: FetchedColumns, live: Values | None, arena: ColumnArena | None
    ) -> list[Values]:
        """The text of statistics that are just typed: one slice's, while the next is decoded."""

        def parsed() -> Generator[Values, None, None]:
            with ColumnSlices(self._file, fetched) as slices:
                for actions in self._of_live(slices, [_STATS_PARSED[1:]], _TYPED, live):
                    yield pc.struct_field(actions, [0])
            if arena is not None:
                pa.default_memory_pool().release_unused()  # this thread's

        async def decoded() -> AsyncGenerator[Values, None]:
            with closing(parsed()) as found:
                while (structs := await in_thread(next, found, None)) is not None:
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
        assert self._by_predicate is not None
        within, parts = self._by_predicate
        wanted = live.filter(within)
        chunks, start = [], 0
        for part in parts:
            here = wanted.slice(start, len(part))
            start += len(part)
            if here.true_count:
                rows = part.filter(here) if here.false_count else part
                chunks.append(_add_column(rows, column, self._file.path, arena))
        return chunks

    def _only_files(self) -> bool:
        """Whether the footer says that every row is of a live file."""
        paths = self._file.statistics(self._group, _PATH)
        return paths is not None and paths.null_count == 0


def _add_column(
    actions: Values, column: pa.Field[Any], path: str, arena: ColumnArena | None
) -> Values:
    """One column of `ADD_SCHEMA` out of `add` structs."""
    fields = fields_of(actions)
    name = ADD_JSON_NAMES[column.name]
    parsed: Values = fields.get(_STATS_PARSED[1])
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


def _type_of(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    """The type of a field that is reached through structs; None where there is no such field."""
    here: Any = arrow.struct(list(schema))
    for step in path:
        at = here.get_field_index(step) if pa.types.is_struct(here) else -1
        if at < 0:
            return None
        here = here.field(at).type
    found: pa.DataType = here
    return found
