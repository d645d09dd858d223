"""What a conversion finds out about files: tasks over their footers, a few hundred files each."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import AddFile, encode_path
from adelta.kernel.schema.calendar import legacy_calendar
from adelta.kernel.schema.names import leaf_fields
from adelta.kernel.statistics import stats_json, stats_leaves, writes_bounds
from adelta.kernel.table_properties import TableProperties
from adelta.operations.convert_schema import (
    FolderNames,
    FoundSchema,
    file_schema,
    partition_values,
    table_schema,
)
from adelta.operations.convert_stats import alike_stats
from adelta.parquet.arrow_reader import open_arrow_reader, open_footer
from adelta.parquet.faults import reading
from adelta.parquet.footer.fetch_footer import (
    check_counts,
    fetch_footer,
    footer_bytes,
    footer_size,
)
from adelta.parquet.footer.file_statistics import (
    footer_statistics,
    orders_bytes,
    plan_leaf,
    shape_statistics,
)
from adelta.parquet.footer.known_shapes import known_forms, learn_form, learnt_shape
from adelta.parquet.footer.layout import FileLayout
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from adelta.kernel.schema.types import StructField, StructType
    from adelta.parquet.footer.file_statistics import FooterStatistics, LeafPlan
    from adelta.parquet.footer.footer_form import FooterForm
    from adelta.parquet.footer.footer_shape import FooterShape
    from adelta.storage.object_store import ObjectMeta, ObjectStore
    from adelta.storage.roots import StoreRoots

__all__ = ["ConvertResult", "ConvertTask", "StatisticsWanted"]

_FIRST_TAIL = 64 * 1024
_LEAST_TAIL = 4 * 1024
_LESSONS = 16  # footers that shapes are learnt of, in a task
_PARSED_TOGETHER = 32  # footers: a worker thread each would cost more than the parsing
_READ_TOGETHER = 512  # of files of this machine


@dataclass(frozen=True, slots=True)
class StatisticsWanted:
    """Of which columns of a table statistics are wanted; None of all is not known yet.

    Without a schema they are those that a table of each file alone would have. `tells_nan` is as
    for `plan_leaf`.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    schema: StructType | None = None
    tells_nan: bool = False

    def leaves(
        self, own: StructType, partitions: Sequence[StructField]
    ) -> tuple[tuple[tuple[str, ...], bool], ...]:
        """The columns that a file of the schema `own` has statistics of, and whether bounds."""
        schema = self.schema or table_schema([FoundSchema(own, "")], partitions)
        names = [each.name for each in partitions]
        wanted = stats_leaves(schema, TableProperties(self.properties), names)
        there = {tuple(s.lower() for s in path) for path, _ in leaf_fields(own)}
        types = {path: each.type for path, each in leaf_fields(schema)}
        return tuple(
            (path, writes_bounds(types[path]))
            for path in wanted
            if tuple(step.lower() for step in path) in there
        )


@dataclass(frozen=True, slots=True)
class ConvertTask:
    """Files whose footers are read; `wanted` is None where no statistics are."""

    files: tuple[ObjectMeta, ...]
    partitions: tuple[StructField, ...]
    wanted: StatisticsWanted | None
    tail: int = _FIRST_TAIL
    folder_names: FolderNames = "hive"

    async def run(self, roots: StoreRoots) -> ConvertResult:
        """What the log is to say of each file. Nothing is written.

        Raises:
            InvalidTableError: a file is no Parquet, is damaged, or changed meanwhile.
            InvalidOptionError: a file is not in folders of the partition columns.
            SchemaMismatchError: a column is of a type that Delta does not have, or a folder's name
                is no value of its column.
            StorageError: the store refused or failed.
        """
        store = roots.store
        looking = _Looking(self)
        step = _PARSED_TOGETHER if store.local is None else _READ_TOGETHER
        groups = [self.files[start : start + step] for start in range(0, len(self.files), step)]
        if store.local is not None:
            found = [await in_thread(looking.here, store, group) for group in groups]
        else:
            found = await map_concurrent(
                partial(looking.afar, store), groups, limit=max(2, store.concurrency // 8)
            )
        return ConvertResult(
            tuple(add for adds in found for add in adds),
            tuple(looking.found),
            tuple(looking.numbers[meta.path] for meta in self.files),
            looking.longest,
        )


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """What the log is to say of the files of a task, in their order.

    Attributes:
        adds: an `add` for each file.
        schemas: the different schemas that the files have.
        numbers: which of these each file has.
        longest: bytes of the longest footer.
        paths: objects that were written: none.
    """

    adds: tuple[AddFile, ...]
    schemas: tuple[FoundSchema, ...]
    numbers: tuple[int, ...]
    longest: int

    @property
    def paths(self) -> tuple[str, ...]:
        """Objects that were written: none."""
        return ()

    @property
    def tail(self) -> int:
        """How many last bytes of files like these have their footers."""
        return min(_FIRST_TAIL, max(_LEAST_TAIL, self.longest * 5 // 4 + 1024))


@dataclass(slots=True)
class _Kind:
    """Files of one schema, which Parquet and the log have, and where their statistics are."""

    schema: pq.ParquetSchema
    arrow: pa.Schema
    flat: bool
    num_leaves: int
    legacy: bool
    number: int
    columns: tuple[tuple[str, ...], ...]
    plans: tuple[LeafPlan, ...]

    @property
    def is_plain(self) -> bool:
        """Whether statistics are wanted of leaves alone."""
        return all(plan.is_leaf for plan in self.plans)

    @property
    def leaves(self) -> tuple[int, ...]:
        """The leaves that statistics are wanted of, if it is plain."""
        return tuple(plan.leaves[0] for plan in self.plans)


class _Looking:
    """The footers of one task: what files have in common is found out once."""

    def __init__(self, task: ConvertTask) -> None:
        self._task = task
        self._kinds: list[_Kind] = []
        self._shapes: list[tuple[FooterShape, _Kind]] = []
        self._lessons = _LESSONS
        self._folders: dict[str, dict[str, str | None]] = {}
        self.found: list[FoundSchema] = []
        self.numbers: dict[str, int] = {}
        self.longest = 0

    def here(self, store: ObjectStore, files: Sequence[ObjectMeta]) -> list[AddFile]:
        """The files of this machine, for a worker thread."""
        assert store.local is not None
        footers = []
        tails = store.local.read_suffixes([meta.path for meta in files], self._task.tail)
        for meta in files:
            try:
                suffix = next(tails)
                footer = footer_bytes(meta.path, suffix)
                if footer is None:
                    suffix = store.local.read_suffix(meta.path, footer_size(meta.path, suffix))
                    footer = footer_bytes(meta.path, suffix)
            except ObjectNotFoundError as error:
                raise _changed(meta.path) from error
            if footer is None or suffix.object_size != meta.size:
                raise _changed(meta.path)
            footers.append(footer)
        return self._adds(files, footers)

    async def afar(self, store: ObjectStore, files: Sequence[ObjectMeta]) -> list[AddFile]:
        """Files of a store, whose footers are asked for at once."""

        async def fetch(meta: ObjectMeta) -> bytes:
            try:
                tail = min(self._task.tail, meta.size)
                fetched = await fetch_footer(store, meta.path, tail=tail)
            except ObjectNotFoundError as error:
                raise _changed(meta.path) from error
            if fetched.object_size != meta.size:
                raise _changed(meta.path)
            return bytes(fetched.footer)

        footers = await map_concurrent(fetch, files, limit=8)

        return await in_thread(self._adds, files, footers)

    def _adds(self, files: Sequence[ObjectMeta], footers: Sequence[bytes]) -> list[AddFile]:
        self.longest = max(self.longest, *map(len, footers))
        told: dict[int, tuple[int, str | None]] = {}
        tried: list[FooterForm] = []
        adds = []
        for place, (meta, footer) in enumerate(zip(files, footers, strict=True)):
            if place not in told:
                self._by_forms(footers, place, told, tried)
            found = told.get(place) or self._by_shape(footer)
            number, stats = found or self._by_arrow(meta, footer)
            self.numbers[meta.path] = number
            adds.append(
                AddFile(
                    path=encode_path(meta.path),
                    partition_values=self._partition(meta.path),
                    size=meta.size,
                    modification_time=meta.last_modified_ms,
                    stats=stats,
                )
            )
        return adds

    def _by_forms(
        self,
        footers: Sequence[bytes],
        start: int,
        told: dict[int, tuple[int, str | None]],
        tried: list[FooterForm],
    ) -> None:
        """Put into `told` what forms that have not been `tried` say of footers from a place on."""
        for shape, kind in self._shapes:
            for form in known_forms(shape):
                if form in tried or not kind.is_plain:
                    continue
                tried.append(form)
                places = [p for p in range(start, len(footers)) if p not in told]
                found = form.read([footers[p] for p in places], kind.leaves)
                if found is None:
                    continue
                which, facts = found
                stats: Sequence[str | None] | None = [None] * len(which)
                if self._task.wanted is not None:
                    stats = alike_stats(facts, kind.columns, kind.plans, self._prefix)
                for number, text in zip(which, stats or (), strict=stats is not None):
                    told[places[number]] = kind.number, text

    def _by_shape(self, footer: bytes) -> tuple[int, str | None] | None:
        """The number of the file's schema, and its statistics; None where its footer is unlike."""
        for shape, kind in self._shapes:
            facts = shape.read(footer)
            if facts is not None:
                if kind.is_plain:
                    learn_form(shape, footer)
                if self._task.wanted is None:
                    return kind.number, None
                found = shape_statistics(facts, kind.plans)
                return kind.number, _stats(facts.num_rows, kind, found, self._prefix)
        return None

    def _by_arrow(self, meta: ObjectMeta, footer: bytes) -> tuple[int, str | None]:
        metadata = open_arrow_reader(meta.path, memoryview(footer)).metadata
        kind = self._kind(meta, metadata, footer)
        check_counts(meta.path, metadata, kind.num_leaves)
        found = footer_statistics(meta.path, metadata, kind.plans)
        self._learn(footer, metadata, kind, found)
        wanted = self._task.wanted is not None
        stats = _stats(metadata.num_rows, kind, found, self._prefix) if wanted else None
        return kind.number, stats

    def _learn(
        self,
        footer: bytes,
        metadata: pq.FileMetaData,
        kind: _Kind,
        found: Sequence[FooterStatistics],
    ) -> None:
        """Take in the shape of the footer, if by it the same is `found`."""
        decodes = all(plan.decoded is not None for plan in kind.plans if plan.least)
        if not self._lessons or not decodes or not orders_bytes(metadata):
            return
        self._lessons -= 1
        known = next((each for each in self._shapes if each[0].is_of(footer)), None)
        try:
            shape = learnt_shape(footer, metadata, kind.num_leaves)
        except ThriftError:
            return
        facts = shape.read(footer)
        self._shapes = [each for each in self._shapes if each is not known]
        if facts is not None and shape_statistics(facts, kind.plans) != found:
            self._lessons = 0
        else:
            self._shapes = [(shape, kind), *self._shapes]

    @cached_property
    def _prefix(self) -> int:
        assert self._task.wanted is not None
        return TableProperties(self._task.wanted.properties).data_skipping_string_prefix_length

    def _partition(self, path: str) -> dict[str, str | None]:
        directory = path.rpartition("/")[0]
        if directory not in self._folders:
            self._folders[directory] = partition_values(
                directory, self._task.partitions, path, self._task.folder_names
            )
        return self._folders[directory]

    def _kind(self, meta: ObjectMeta, metadata: pq.FileMetaData, footer: bytes) -> _Kind:
        with reading(meta.path):
            legacy = legacy_calendar(metadata.metadata) is not None
            schema = metadata.schema
            flat = all(_is_flat(schema.column(leaf)) for leaf in range(len(schema)))
        alike = [k for k in self._kinds if k.legacy == legacy and k.schema.equals(schema)]
        # Arrow compares leaves, which tell of groups above them nothing.
        if flat and (known := next((k for k in alike if k.flat), None)) is not None:
            return known
        reader = open_footer(meta.path, memoryview(footer))
        with reading(meta.path):
            arrow = reader.schema_arrow
        for known in alike:
            if known.arrow.equals(arrow):
                return known
        layout = FileLayout.of(meta.path, meta.size, reader.metadata, arrow, memoryview(footer))
        own = file_schema(layout)
        number = next((n for n, each in enumerate(self.found) if each.schema == own), None)
        if number is None:
            number = len(self.found)
            self.found.append(FoundSchema(own, layout.path))
        wanted = self._plans(layout, own, legacy)
        columns, plans = tuple(path for path, _ in wanted), tuple(plan for _, plan in wanted)
        kind = _Kind(schema, arrow, flat, layout.tree.num_leaves, legacy, number, columns, plans)
        self._kinds.append(kind)
        return kind

    def _plans(
        self, layout: FileLayout, own: StructType, legacy: bool
    ) -> tuple[tuple[tuple[str, ...], LeafPlan], ...]:
        if self._task.wanted is None:
            return ()
        plans, tells_nan = [], self._task.wanted.tells_nan
        for path, bounded in self._task.wanted.leaves(own, self._task.partitions):
            steps: list[str] = []
            nodes = layout.tree.columns
            for step in path:
                node = next((n for n in nodes if n.name == step), None) or next(
                    n for n in nodes if n.name.lower() == step.lower()
                )
                steps.append(node.name)
                nodes = node.children
            temporal = str(node.type).startswith(("date", "timestamp"))
            physical = layout.physical_types(tuple(steps))
            bounds = bounded and not (legacy and temporal)
            plans.append((path, plan_leaf(node, physical, bounded=bounds, tells_nan=tells_nan)))
        return tuple(plans)


def _is_flat(leaf: pq.ColumnSchema) -> bool:
    return leaf.path == leaf.name


@dataclass(frozen=True, slots=True)
class _FileStatistics:
    num_rows: int
    columns: Mapping[str, Any]


def _stats(num_rows: int, kind: _Kind, found: Sequence[FooterStatistics], prefix: int) -> str:
    columns: dict[str, Any] = {}
    for steps, statistics in zip(kind.columns, found, strict=True):
        _put(columns, steps, statistics)
    return stats_json(_FileStatistics(num_rows, columns), prefix)


def _put(columns: dict[str, Any], steps: tuple[str, ...], statistics: FooterStatistics) -> None:
    for step in steps[:-1]:
        columns = columns.setdefault(step, {})
    columns[steps[-1]] = statistics


def _changed(path: str) -> InvalidTableError:
    return InvalidTableError(
        f"{path}: is gone, or was written again, while the folder was converted; convert it when "
        "nobody writes to it"
    )
