"""ANALYZE: statistics for files that have none, or lack those of some columns.

What is computed is committed as the same files, added again without a change of data: readers and
streams see no new rows, and rows keep their ids. Where others have removed a file meanwhile, or put
a deletion vector on it, what was computed of it is let go, and it alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

from adelta import _compute as pc
from adelta._arguments import checked
from adelta._arrow_values import array_of
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import ConcurrentAppendError, ConcurrentDeleteReadError
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.file_id import FileId, file_ids
from adelta.operations.analyze_files import AnalyzeTask
from adelta.operations.analyze_stats import UNBOUNDED_TAG, Unbounded, lacks, wanted_columns
from adelta.progress import Meter
from adelta.table import begin, executor_of, latest_state, opened, roots_of
from adelta.write.conditions import condition_of, said_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState
    from adelta.operations.analyze_files import AnalyzeResult
    from adelta.operations.analyze_stats import WantedColumn
    from adelta.progress import OnProgress
    from adelta.table import Table, TableOrAddress

__all__ = ["AnalyzeMetrics", "analyze"]

_FILES_A_TASK = 64
_TRIES = 10


@dataclass(frozen=True, slots=True)
class AnalyzeMetrics:
    """What was found lacking, and what became of it.

    Attributes:
        version: the version that has the new statistics; None where nothing was committed.
        num_files: how many files were looked at.
        num_files_lacking: those of them that lacked statistics.
        num_files_read: those whose footers did not suffice.
        num_files_updated: those that have new statistics, or of which it was found that no more can
            be said, so that they are not looked at again. Files that others removed meanwhile have
            none.
    """

    version: int | None
    num_files: int
    num_files_lacking: int
    num_files_read: int = 0
    num_files_updated: int = 0


@checked
async def analyze(
    table: TableOrAddress,
    *,
    columns: Iterable[str] | None = None,
    where: Where | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> AnalyzeMetrics:
    """Compute statistics for the live files that lack them, and commit these.

    The columns are those of which the table's writers state statistics, or `columns`: names of
    data columns, dotted below structs, and between backticks where a name holds a dot itself; a
    struct stands for all of its leaves. `where` leaves out files that hold no row for which it is
    true. Footers are read, and of files whose footers do not suffice the columns in question. With
    `dry_run` files are counted that lack statistics, by the log alone. `on_progress` is told how
    far it is.

    Raises:
        InvalidOptionError: there is no such data column.
        InvalidExpressionError: the condition cannot be parsed, or does not fit the schema.
        TableNotFoundError: there is no table.
        MissingDataFileError: a file is not there.
        InvalidTableError: a file, or the log, is damaged.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        CommitConflictError: another commit changed the table's protocol or metadata meanwhile, or
            others changed the same files again and again.
        StorageError: the store refused or failed.
    """
    predicate = await condition_of(where, now=moment())
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        configuration = state.configuration
        configuration.check_writable(handle.uri)
        asked = None if columns is None else tuple(columns)
        wanted = await in_thread(wanted_columns, configuration, asked)
        found = await _files(state, predicate)
        prefix = configuration.properties.data_skipping_string_prefix_length
        lacking = await in_thread(_lacking, found, wanted, prefix)
        metrics = AnalyzeMetrics(None, found.num_files, len(lacking))
        if dry_run or not lacking:
            return metrics
        meter = Meter(on_progress, "reading statistics", total=len(lacking))
        results = await _run(handle, configuration, lacking, wanted, meter)
        metrics = replace(metrics, num_files_read=sum(each.num_read for each in results))
        computed = await in_thread(_computed, results, wanted, prefix, handle.uri)
        text = await said_of(predicate)
        request = TransactionRequest(
            operation="COMPUTE STATS",
            parameters={"predicate": orjson.dumps(text).decode()},
            from_latest=True,
        )
        version, updated = await _commit(handle, request, computed) if computed else (None, 0)
        return replace(metrics, version=version, num_files_updated=updated)


async def _files(state: LogState, predicate: Node | None) -> FileSet:
    if predicate is None:
        return await state.files()
    now = state.configuration
    skipping = await in_thread(
        Skipping.of,
        predicate,
        now.schema,
        now.partition_columns,
        mode=now.column_mapping_mode,
    )
    return await state.files_matching(skipping)


def _lacking(files: FileSet, wanted: Sequence[WantedColumn], prefix: int) -> list[AddFile]:
    texts = files.table.column("stats").to_pylist()
    tags = map(_tag_of, files.table.column("tags").to_pylist())
    known: dict[tuple[str | None, str | None], bool] = {}
    mask = []
    for key in zip(texts, tags, strict=True):
        if key not in known:
            known[key] = lacks(key[0], wanted, Unbounded.of(key[1], prefix))
        mask.append(known[key])
    return list(files.filter(array_of(mask, pa.bool_())).rows())


def _tag_of(tags: Sequence[tuple[str, str | None]] | None) -> str | None:
    return dict(tags or ()).get(UNBOUNDED_TAG)


async def _run(
    table: Table,
    configuration: TableConfiguration,
    lacking: Sequence[AddFile],
    wanted: tuple[WantedColumn, ...],
    meter: Meter,
) -> list[AnalyzeResult]:
    tasks = [
        AnalyzeTask(configuration, tuple(lacking[start : start + _FILES_A_TASK]), wanted)
        for start in range(0, len(lacking), _FILES_A_TASK)
    ]
    return await executor_of(table).run(
        roots_of(table), tasks, on_done=lambda done: meter.advance(len(done.files))
    )


def _computed(
    results: Sequence[AnalyzeResult], wanted: Sequence[WantedColumn], prefix: int, root: str
) -> dict[FileId, tuple[AddFile, AddFile]]:
    """The files of which there is more to say, as they were and with what is said of them."""
    found = {}
    for each in results:
        for file, stats in zip(each.files, each.stats, strict=True):
            before = Unbounded.of((file.tags or {}).get(UNBOUNDED_TAG), prefix)
            tag = before.after(stats, wanted).tag
            tags = {key: text for key, text in (file.tags or {}).items() if key != UNBOUNDED_TAG}
            if tag is not None:
                tags[UNBOUNDED_TAG] = tag
            after = replace(file, stats=stats, tags=tags or None)
            if after.stats != file.stats or tags != (file.tags or {}):
                found[FileId.of(file, root)] = file, after
    return found


async def _commit(
    table: Table, request: TransactionRequest, computed: Mapping[FileId, tuple[AddFile, AddFile]]
) -> tuple[int | None, int]:
    """The version with the statistics of the files that are still live, and how many these are."""
    for left in reversed(range(_TRIES)):
        try:
            async with begin(table, request) as tx:
                live = await tx.live_files()
                again = await in_thread(partial(_again, live, computed, table.uri))
                await in_thread(tx.staging.add_again, again)
                tx.staging.metrics["numFiles"] = len(again)
            return tx.version, len(again)
        except (ConcurrentAppendError, ConcurrentDeleteReadError):
            if not left:  # a file of these is gone, or was added again: see what is left
                raise
    raise AssertionError


def _again(
    live: FileSet, computed: Mapping[FileId, tuple[AddFile, AddFile]], root: str
) -> list[AddFile]:
    """The live files that are as they were when their statistics were computed, with these."""
    texts = array_of([file_id.text for file_id in computed], pa.string())
    still = live.filter(pc.is_in(file_ids(live.table, root), value_set=texts))
    found = []
    for file in still.rows():
        before, after = computed[FileId.of(file, root)]
        if (file.stats, file.tags) == (before.stats, before.tags):
            found.append(replace(file, stats=after.stats, tags=after.tags))
    return found
