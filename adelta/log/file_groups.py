"""File actions of a checkpoint, row group by row group, with no more columns than an answer needs.

A row group is asked in steps, each for the rows that the one before has left: the footer's
statistics of `stats_parsed`, without any read; partition values; the statistics that the predicate
names, typed ones before JSON; at last the columns of the answer. A group without rows left is read
no further.

Row groups are independent of each other, so any number of them may be under way, in any order, and
memory is that of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from adelta._concurrency import in_thread
from adelta.errors import InvalidTableError
from adelta.kernel.actions.file_actions import (
    ADD_SCHEMA,
    DELETION_VECTOR,
    REMOVE_SCHEMA,
    STRING_MAP,
)
from adelta.kernel.actions.json import ADD_JSON_NAMES, REMOVE_JSON_NAMES, VERSION_COLUMN
from adelta.kernel.data_skipping.prune import skip_files, widen
from adelta.kernel.data_skipping.rewrite import (
    MAX_VALUES,
    MIN_VALUES,
    NULL_COUNT,
    NUM_RECORDS,
    PARTITION_VALUES,
)
from adelta.kernel.data_skipping.stats_text import stats_text
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import physical_name
from adelta.log.map_columns import as_maps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.data_skipping.prune import Columns, Skipping
    from adelta.kernel.data_skipping.stats_schema import Statistic
    from adelta.parquet.reader import ParquetFile

__all__ = ["FileGroup", "FilePart"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars
arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

_STATS_PARSED = ("add", "stats_parsed")
_PARTITION_VALUES_PARSED = ("add", "partitionValues_parsed")
_PATH = ("add", "path")
_REMOVED_PATH = ("remove", "path")
_NULL_BLOCK = 64 * 1024
_INTEGERS = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_BOUNDED_BY_FOOTERS = (*_INTEGERS, t.DATE, t.STRING, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_TYPED_PARTITIONS = (*_INTEGERS, t.DATE, t.BOOLEAN)  # of others the typed value may say less


class FilePart:
    """One file of a checkpoint that may hold file actions: a Parquet object, or decoded JSON."""

    __slots__ = ("_batch", "_file")

    def __init__(self, file: ParquetFile | None, batch: ActionBatch | None = None) -> None:
        self._file = file
        self._batch = batch

    async def groups(self, skipping: Skipping | None = None) -> list[FileGroup]:
        """The row groups that may hold live files that `skipping` keeps, by the footer alone."""
        if self._batch is not None:
            return [FileGroup(self._batch.adds.drop_columns([VERSION_COLUMN]))]
        if self._file is None or not self._file.has_column(_PATH):
            return []
        return await in_thread(_groups, self._file, skipping)

    async def remove_groups(self) -> list[FileGroup]:
        """The row groups that may hold tombstones, by the footer alone."""
        if self._batch is not None:
            return [FileGroup(self._batch.removes.drop_columns([VERSION_COLUMN]))]
        if self._file is None or not self._file.has_column(_REMOVED_PATH):
            return []
        return await in_thread(_groups, self._file, None, _REMOVED_PATH)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """File actions that are read together: rows of JSON, decoded already, or a Parquet row group.

    `size` is about how many bytes they take.
    """

    rows: pa.Table | None = None
    file: ParquetFile | None = None
    row_group: int = 0
    size: int = 0

    async def adds(self, columns: Sequence[str], skipping: Skipping | None = None) -> pa.Table:
        """The named columns of `ADD_SCHEMA` for the live files that `skipping` keeps.

        Raises:
            InvalidTableError: the object is damaged.
        """
        if self.rows is not None:
            rows = self.rows
            if skipping is not None:
                rows = await in_thread(skip_files, rows, skipping)
            return rows.select(list(columns))
        assert self.file is not None
        return await _ParquetGroup(self.file, self.row_group).adds(columns, skipping)

    async def removes(self) -> pa.Table:
        """The tombstones, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: the object is damaged.
        """
        if self.rows is not None:
            return self.rows
        assert self.file is not None
        file = self.file
        present = [n for n in REMOVE_JSON_NAMES.values() if file.has_column(("remove", n))]
        columns = [("remove", name) for name in present]
        table = await file.read(columns, row_groups=[self.row_group])
        return await in_thread(_removes, table, file.path)


def _groups(
    file: ParquetFile, skipping: Skipping | None, leaf: tuple[str, ...] = _PATH
) -> list[FileGroup]:
    groups = [g for g in range(file.num_row_groups) if not _all_null(file, g, leaf)]
    if skipping is not None and groups:
        kept = _groups_mask(file, groups, skipping).to_pylist()
        groups = [group for group, keep in zip(groups, kept, strict=True) if keep]
    return [
        FileGroup(file=file, row_group=g, size=file.metadata.row_group(g).total_byte_size)
        for g in groups
    ]


def _all_null(file: ParquetFile, group: int, leaf: tuple[str, ...]) -> bool:
    found = file.statistics(group, leaf)
    rows = file.metadata.row_group(group).num_rows
    return rows == 0 or (found is not None and found.null_count == rows)


def _groups_mask(file: ParquetFile, groups: Sequence[int], skipping: Skipping) -> Values:
    """Which row groups may hold files to keep: the footer bounds the bounds of all their files."""
    bounds: dict[tuple[str, ...], Values] = {}
    for statistic in skipping.bounds:
        kind = to_arrow_type(statistic.type)
        values = [_bound(file, group, statistic) for group in groups]
        try:
            column = pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            column = arrow.nulls(len(groups), kind)
        bounds[statistic.path] = widen(column, statistic)
    return skipping.bounds_mask(bounds, len(groups))


def _bound(file: ParquetFile, group: int, statistic: Statistic) -> object:
    """What holds of a statistic for all files of a row group together, or None."""
    leaf = (*_STATS_PARSED, *statistic.source)
    kind = statistic.kind
    if kind == NUM_RECORDS or not file.has_column(leaf):
        return None
    if kind != NULL_COUNT and statistic.type not in _BOUNDED_BY_FOOTERS:
        return None  # NaN is left out of footers, and decimals come in several shapes
    try:
        found, paths = file.statistics(group, leaf), file.statistics(group, _PATH)
    except (ValueError, OverflowError, InvalidTableError):
        return None  # a bound that Python has no value for
    if found is None or paths is None or found.null_count != paths.null_count:
        return None  # some file lacks the statistic
    if kind == NULL_COUNT:
        return 0 if found.max == 0 else None
    return found.min if kind == MIN_VALUES else found.max if kind == MAX_VALUES else None


class _ParquetGroup:
    """One row group under way. All columns and masks are as long as the row group."""

    def __init__(self, file: ParquetFile, group: int) -> None:
        self._file = file
        self._group = group
        self._rows = file.metadata.row_group(group).num_rows
        self._have: dict[str, Values] = {}  # fields of `add`, by the log's names

    async def adds(self, columns: Sequence[str], skipping: Skipping | None) -> pa.Table:
        mask = None if skipping is None else await self._mask(skipping)
        schema = pa.schema([ADD_SCHEMA.field(column) for column in columns])
        if mask is not None and not mask.true_count:
            return pa.Table.from_batches([], schema)
        names = [ADD_JSON_NAMES[column] for column in columns]
        await self._load([(name,) for name in dict.fromkeys(["path", *names])])
        rows = await in_thread(self._answer, schema, mask)
        if "stats" in columns and rows.column("stats").null_count:
            return await self._with_parsed_stats(rows, mask)
        return rows

    async def _load(self, fields: Sequence[tuple[str, ...]]) -> None:
        """Read fields of `add`, or fields of its structs, where the file has them."""
        wanted = [("add", *field) for field in fields if field[0] not in self._have]
        wanted = [leaf for leaf in wanted if self._file.has_column(leaf)]
        if not wanted:
            return
        table = await self._file.read(wanted, row_groups=[self._group])
        actions = table.column("add")
        for index in range(actions.type.num_fields):
            field = actions.type.field(index).name
            self._have[field] = as_maps(pc.struct_field(actions, [index]))
        self._have.setdefault("", actions.is_valid())

    def _taken(self, field: str, mask: Values | None) -> Values | None:
        column = self._have.get(field)
        return column if column is None or mask is None else column.filter(mask)

    async def _mask(self, skipping: Skipping) -> Values | None:
        """Which rows the predicate may keep, by partition values first; None says nothing."""
        values: Columns = {}
        mask: Values | None = None
        if skipping.partition_fields:
            values = await self._partition_values(skipping)
        if skipping.by_partition is not None:
            mask, values = await in_thread(self._by_partition, skipping, values)
        if skipping.by_statistics is None or (mask is not None and not mask.true_count):
            return mask
        await self._load_statistics(skipping)
        return await in_thread(self._by_statistics, skipping, values, mask)

    def _by_partition(self, skipping: Skipping, values: Columns) -> tuple[Values, Columns]:
        mask = self._live(skipping.partition_mask(values, self._rows))
        return mask, {path: column.filter(mask) for path, column in values.items()}

    def _live(self, mask: Values) -> Values:
        """The mask without the rows of other actions, as far as the columns read tell."""
        valid = self._have.get("")
        return mask if valid is None else pc.and_(mask, valid.combine_chunks())

    async def _partition_values(self, skipping: Skipping) -> Columns:
        typed = {}
        for field in skipping.partition_fields:
            leaf = (*_PARTITION_VALUES_PARSED, physical_name(field, skipping.mode))
            if field.type not in _TYPED_PARTITIONS or not self._file.has_column(leaf):
                break
            typed[field.name] = leaf
        else:
            await self._load([leaf[1:] for leaf in typed.values()])
            struct = self._have.pop(_PARTITION_VALUES_PARSED[1]).combine_chunks()
            columns = {name: pc.struct_field(struct, leaf[-1:]) for name, leaf in typed.items()}
            kinds = {f.name: to_arrow_type(f.type) for f in skipping.partition_fields}
            if all(column.type.equals(kinds[name]) for name, column in columns.items()):
                return {(PARTITION_VALUES, name): column for name, column in columns.items()}
        await self._load([("partitionValues",)])
        texts = self._have.get("partitionValues")
        if texts is None:
            return {}
        return await in_thread(skipping.partition_values, texts)

    async def _load_statistics(self, skipping: Skipping) -> None:
        leaves = [(_STATS_PARSED[1], *statistic.source) for statistic in skipping.statistics]
        await self._load(leaves)
        parsed = self._have.get(_STATS_PARSED[1])
        if parsed is None or parsed.null_count > self._file_nulls():
            await self._load([("stats",)])

    def _file_nulls(self) -> int:
        """How many rows are of other actions, at least."""
        valid = self._have.get("")
        return 0 if valid is None else self._rows - int(pc.sum(valid).as_py() or 0)

    def _by_statistics(self, skipping: Skipping, values: Columns, mask: Values | None) -> Values:
        rows = self._rows if mask is None else int(pc.sum(mask).as_py() or 0)
        statistics = skipping.read_statistics(
            self._taken("stats", mask), self._taken(_STATS_PARSED[1], mask)
        )
        found = skipping.statistics_mask(statistics, values, rows)
        self._have.pop(_STATS_PARSED[1], None)  # only some of its fields
        if mask is None:
            return self._live(found)
        return pc.replace_with_mask(mask, mask, found)

    def _answer(self, schema: pa.Schema, mask: Values | None) -> pa.Table:
        """The rows of live files where `mask` is true."""
        path = self._have["path"]
        if mask is None and not path.null_count:
            columns = self._have
        else:
            live = path.is_valid().combine_chunks()
            rows = live if mask is None else pc.and_(live, mask)
            columns = {name: self._have[name].filter(rows) for name in self._have if name}
        return _table(columns, schema, ADD_JSON_NAMES, f"{self._file.path}: add")

    async def _with_parsed_stats(self, rows: pa.Table, mask: Values | None) -> pa.Table:
        """The rows with the text of `stats_parsed` where they have none."""
        await self._load([_STATS_PARSED[1:]])
        parsed = self._have.get(_STATS_PARSED[1])
        if parsed is None:
            return rows

        def fill() -> pa.Table:
            here = parsed
            if len(rows) < len(parsed):
                live = self._have["path"].is_valid().combine_chunks()
                here = parsed.filter(live if mask is None else pc.and_(live, mask))
            made = arrow.chunked_array([stats_text(chunk) for chunk in here.chunks], pa.string())
            index = rows.schema.get_field_index("stats")
            texts = rows.column(index)
            if texts.null_count < len(texts):
                made = pc.coalesce(texts, made)
            return rows.set_column(index, rows.schema.field(index), made)

        return await in_thread(fill)


def _removes(table: pa.Table, source: str) -> pa.Table:
    actions: Any = table.column("remove")
    actions = actions.filter(pc.struct_field(actions, "path").is_valid())
    names = [actions.type.field(i).name for i in range(actions.type.num_fields)]
    columns = {name: pc.struct_field(actions, [i]) for i, name in enumerate(names)}
    return _table(columns, REMOVE_SCHEMA, REMOVE_JSON_NAMES, f"{source}: remove")


def _table(
    columns: Mapping[str, Values],
    schema: pa.Schema,
    names: Mapping[str, str],
    source: str,
) -> pa.Table:
    """Fields of an action as a table of `schema`, absent ones null."""
    rows = len(columns["path"])
    found = []
    for column in schema:
        values = columns.get(names[column.name])
        if values is None:
            found.append(_nulls(rows, column.type))
            continue
        try:
            found.append(_conform(values, column.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidTableError(
                f"{source}.{names[column.name]} is {values.type}, where a {column.type} belongs; "
                "the checkpoint is damaged: delete it, and the log is read without it"
            ) from error
    return pa.Table.from_arrays(found, schema=schema)


def _nulls(rows: int, kind: pa.DataType) -> Values:
    """Nulls that share their memory with those of every other table."""
    block = _null_block(kind)
    starts = range(0, rows, _NULL_BLOCK)
    return arrow.chunked_array([block.slice(0, min(_NULL_BLOCK, rows - s)) for s in starts], kind)


@lru_cache(maxsize=16)
def _null_block(kind: pa.DataType) -> Values:
    return arrow.nulls(_NULL_BLOCK, kind)


def _conform(values: Values, kind: pa.DataType) -> Values:
    if kind.equals(STRING_MAP):
        values = as_maps(values)
    if values.type.equals(kind):
        return values
    if kind.equals(DELETION_VECTOR):
        if pa.types.is_null(values.type):
            return arrow.chunked_array([arrow.nulls(len(values), kind)])
        if not pa.types.is_struct(values.type):
            raise pa.ArrowTypeError("not a struct")
        return arrow.chunked_array([_struct(chunk, kind) for chunk in values.chunks], kind)
    if pa.types.is_string(kind) and pa.types.is_primitive(values.type):
        raise pa.ArrowTypeError("not a text")
    return values.cast(kind)


def _struct(chunk: Any, kind: Any) -> Values:
    """A struct with the fields of `kind`, by name; nulls where the chunk lacks one."""
    fields = []
    for field in kind:
        at = chunk.type.get_field_index(field.name)
        fields.append(
            arrow.nulls(len(chunk), field.type)
            if at < 0
            else pc.struct_field(chunk, [at]).cast(field.type)
        )
    return arrow.StructArray.from_arrays(fields, fields=list(kind), mask=chunk.is_null())
