"""Statistics of data files that are there: from their footers where these suffice, else by reading.

What a footer says surely is taken from it. Columns of which it does not say enough, floats and
lists above all, are read.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
from adelta.kernel.scan_plan import plan_columns
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import from_arrow_type
from adelta.kernel.statistics import stats_json
from adelta.operations.analyze_stats import merged_stats
from adelta.parquet.footer.file_statistics import FooterStatistics, footer_statistics, plan_leaf
from adelta.parquet.write.statistics import StatisticsCollector
from adelta.read.data_files import Piece, read_pieces
from adelta.read.opener import open_data_file
from adelta.read.row_group_skipping import bounds_mean_nothing, locate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.analyze_stats import WantedColumn
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.roots import StoreRoots

__all__ = ["AnalyzeResult", "AnalyzeTask"]

_OPENED_AT_ONCE = 16
_WHOLE = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)


@dataclass(frozen=True, slots=True)
class AnalyzeTask:
    """Live files whose statistics of `columns` are computed."""

    configuration: TableConfiguration
    files: tuple[AddFile, ...]
    columns: tuple[WantedColumn, ...]

    async def run(self, roots: StoreRoots) -> AnalyzeResult:
        """Compute them, in bounded memory. Nothing is written.

        Raises:
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            SchemaMismatchError: a file's column cannot be converted to the table's type.
            StorageError: the store refused or failed.
        """

        async def look(file: AddFile) -> _FileFacts:
            parquet = await open_data_file(roots, file)
            return await in_thread(self._from_footer, file, parquet)

        facts = await map_concurrent(look, self.files, limit=_OPENED_AT_ONCE)
        together: dict[tuple[WantedColumn, ...], list[_FileFacts]] = {}
        for each in facts:
            if each.unknown:
                together.setdefault(each.unknown, []).append(each)
        for columns, some in together.items():
            await self._read(roots, columns, some)
        return await in_thread(self._result, facts)

    def _from_footer(self, file: AddFile, parquet: ParquetFile) -> _FileFacts:
        facts = _FileFacts(file, parquet.layout.num_rows, {})
        plan = self._plan(())
        for column in self.columns:
            found = _surely(column, parquet, plan)
            if found is not None:
                facts.columns[column] = found
        facts.unknown = tuple(c for c in self.columns if c not in facts.columns)
        return facts

    async def _read(
        self, roots: StoreRoots, columns: tuple[WantedColumn, ...], some: Sequence[_FileFacts]
    ) -> None:
        names = list(dict.fromkeys(column.logical[0] for column in columns))
        leaves = [column.logical for column in columns]
        bounded = [column.logical for column in columns if column.bounded]
        pieces = [Piece(replace(f.file, deletion_vector=None), tag=f) for f in some]
        collectors: dict[str, StatisticsCollector] = {}
        async with aclosing(read_pieces(roots, self._plan(names), pieces)) as tables:
            async for piece, table in tables:
                collector = collectors.get(piece.file.path)
                if collector is None:
                    collector = StatisticsCollector(table.schema, leaves, bounded=bounded)
                    collectors[piece.file.path] = collector
                await in_thread(collector.update, table)
        for facts in some:
            collector = collectors.get(facts.file.path)
            rows = 0 if collector is None else collector.num_rows
            if rows != facts.num_rows:
                raise InvalidTableError(
                    f"{roots.store.uri}: {facts.file.path} has {rows:,} rows where its footer says "
                    f"{facts.num_rows:,}; the file is damaged: restore it, or remove it (fsck)"
                )
            found: Mapping[str, Any] = {} if collector is None else collector.result().columns
            for column in columns:
                facts.columns[column] = _leaf(found, column.logical)

    def _plan(self, names: Sequence[str]) -> ScanPlan:
        configuration = self.configuration
        return plan_columns(
            configuration.schema,
            columns=list(names),
            where=None,
            partition_columns=configuration.partition_columns,
            mapping_mode=configuration.column_mapping_mode,
            verifies=True,
        )

    def _result(self, facts: Sequence[_FileFacts]) -> AnalyzeResult:
        prefix = self.configuration.properties.data_skipping_string_prefix_length
        stats = []
        for each in facts:
            file = each.file
            tree: dict[str, Any] = {}
            for column in self.columns:
                _put(tree, column.physical, each.columns[column])
            now = stats_json(_Stated(each.num_rows, tree), prefix)
            wide = file.deletion_vector is not None
            stats.append(merged_stats(file.stats, now, self.columns, wide=wide))
        read = sum(bool(each.unknown) for each in facts)
        return AnalyzeResult(self.files, tuple(stats), read)


@dataclass(frozen=True, slots=True)
class AnalyzeResult:
    """The new `stats` of each of the `files`, of which `num_read` were read beyond their footers.

    `paths` are objects that were written: none.
    """

    files: tuple[AddFile, ...]
    stats: tuple[str, ...]
    num_read: int

    @property
    def paths(self) -> tuple[str, ...]:
        """Objects that were written: none."""
        return ()


@dataclass(slots=True)
class _FileFacts:
    """What is known of one file, and the columns of which more has to be read."""

    file: AddFile
    num_rows: int
    columns: dict[WantedColumn, Any]
    unknown: tuple[WantedColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stated:
    num_rows: int
    columns: Mapping[str, Any]


def _surely(column: WantedColumn, parquet: ParquetFile, plan: ScanPlan) -> FooterStatistics | None:
    """All that can be said of a column, by the footer alone; None where that does not suffice."""
    layout = parquet.layout
    located = locate(column.logical, plan, layout.schema)
    if located is None:
        return None
    steps, kind = located
    physical = layout.physical_types(steps)
    stored = from_arrow_type(kind)
    alike = stored == column.type or (stored in _WHOLE and column.type in _WHOLE)
    odd = bounds_mean_nothing(parquet, steps, kind)
    node = layout.tree.find(steps)[-1]
    bounded = column.bounded and alike and not odd
    plan_of_leaf = plan_leaf(node, physical, bounded=bounded)
    (found,) = footer_statistics(layout.path, layout.metadata, [plan_of_leaf])
    if found.null_count is None:
        return None
    if column.bounded and found.null_count < layout.num_rows:
        return None if found.min is None or found.max is None else found
    return found


def _leaf(tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = tree
    for step in path:
        found = found.get(step) if found is not None else None
    return FooterStatistics(null_count=0) if found is None else found


def _put(tree: dict[str, Any], path: tuple[str, ...], statistics: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
    tree[path[-1]] = statistics
