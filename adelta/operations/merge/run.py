"""A merge from its request to its commit: source, plan, tasks that match, tasks that write."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import MetadataChangedError
from adelta.kernel.table_configuration import TableConfiguration
from adelta.operations.evolve import merge_schema
from adelta.operations.matching import physical_rows
from adelta.operations.merge.candidates import candidate_rows
from adelta.operations.merge.clauses import said_of
from adelta.operations.merge.inserting import InsertTask, rows_to_insert
from adelta.operations.merge.large import match_large
from adelta.operations.merge.matching import plan_matching
from adelta.operations.merge.metrics import MergeMetrics, measured, report, row_counts
from adelta.operations.merge.plan import plan_merge, to_take_in
from adelta.operations.merge.rewriting import ChangeTask, RowsToChange
from adelta.operations.merge.source import LargeSource, read_source
from adelta.operations.rearrange.auto_compaction import auto_compact
from adelta.operations.rewrite import RewriteResult, shared
from adelta.operations.row_metrics import Stopwatch
from adelta.operations.write_transactions import note_application
from adelta.progress import Meter
from adelta.table import begin, latest_state, roots_of, state_at
from adelta.write.deletion_vectors import write_deletion_vectors
from adelta.write.spec import AS_THE_TABLE_SAYS, WriteSpec
from adelta.write.task_executor import IN_PROCESS
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.operations.delete import IsolationName
    from adelta.operations.evolve import MetadataStage
    from adelta.operations.merge.candidates import KnownKeys
    from adelta.operations.merge.inserting import ChosenRows
    from adelta.operations.merge.large import LargeMatch
    from adelta.operations.merge.matching import ChangedFile, MatchResult
    from adelta.operations.merge.plan import MergePlan, MergeRequest
    from adelta.operations.merge.rewriting import ChangeResult, RowsOfFiles
    from adelta.operations.merge.source import GivenSource, OpenSource, SourceRows
    from adelta.progress import OnProgress
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table
    from adelta.write.spec import DataFileOptions
    from adelta.write.task_executor import Task, TaskExecutor
    from adelta.write.transaction_core import TransactionCore

__all__ = ["FoundRows", "MergeOptions", "run_merge"]

_SOURCE_MEMORY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What the source stands for, where another engine has found by it which rows are meant.

    The history says it of the `operation`, with its `parameters`, and of `num_source_rows` where it
    counts these. What was found depends on the rows of the table for which `looked_at` is true; on
    all of them where it is None.
    """

    operation: Literal["DELETE", "UPDATE", "MERGE", "WRITE"]
    parameters: Mapping[str, Any]
    num_source_rows: int | None = None
    looked_at: Node | None = None


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How a merge is carried out and recorded.

    A source of more than `source_memory` bytes waits on the local disk. `at_version` is the version
    of the table that it begins on, None the newest once the source is read; with `made_of_it` the
    source was computed from that version, all of which counts as read. `found` is what was found of
    that version to make the source of. With `dry_run` nothing is written.
    """

    txn: tuple[str, int] | None = None
    isolation: IsolationName | None = None
    user_metadata: str | None = None
    data_files: DataFileOptions = AS_THE_TABLE_SAYS
    on_progress: OnProgress | None = None
    source_memory: int = _SOURCE_MEMORY
    at_version: int | None = None
    made_of_it: bool = False
    found: FoundRows | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """The files that change, the source rows by which they do, and those that are inserted."""

    changed: tuple[ChangedFile, ...]
    rows: SourceRows
    inserted: ChosenRows


async def run_merge(
    table: Table, source: GivenSource, request: MergeRequest, options: MergeOptions
) -> MergeMetrics:
    """Carry out a merge, in one commit.

    Raises: as `Merge.execute` does.
    """
    watch = Stopwatch()
    opened = await source.open()
    async with aclosing(opened.batches):
        kept = await _materialised(table, opened, request, options)
    try:
        return await _committed(table, opened.schema, kept, request, options, watch)
    finally:
        if kept is not None and isinstance(kept.rows, LargeSource):
            kept.rows.close()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows of the source, and the plan by which they were read."""

    rows: SourceRows | LargeSource
    known: KnownKeys
    plan: MergePlan


async def _committed(
    table: Table,
    schema: StructType,
    kept: _Kept | None,
    request: MergeRequest,
    options: MergeOptions,
    watch: Stopwatch,
) -> MergeMetrics:
    """What the merge did with the rows that were kept; with none, it is done already."""
    read_ms = watch.lap_ms()
    if request.replaces is not None:
        operation, parameters = "WRITE", request.replaces
    elif options.found is not None:
        operation, parameters = options.found.operation, options.found.parameters
    else:
        operation = "MERGE"
        parameters = await in_thread(said_of, request.on, request.clauses)
    transaction = TransactionRequest(
        operation=operation,
        parameters=parameters,
        user_metadata=options.user_metadata,
        isolation=options.isolation,
        data_files=options.data_files,
        from_latest=True,
        at_version=options.at_version,
    )
    counted = {"materializeSourceTimeMs": read_ms}
    async with begin(table, transaction) as tx:
        stage: MetadataStage = tx
        if options.dry_run:
            stage = _Preview(tx.protocol, tx.metadata)
        else:
            note_application(tx, options.txn)
        if kept is None or await tx.is_applied():
            return MergeMetrics()
        plan = await in_thread(_planned, stage, schema, request)
        _check_kept(plan, kept.plan, table.uri)
        merge = _Merge(roots_of(table), tx, plan, kept, options)
        counted |= await merge.stage(watch)
        done = report(tx, counted | {"executionTimeMs": watch.total_ms()}, stands_for=operation)
    await auto_compact(table, tx)
    return measured(tx.version, done)


async def _materialised(
    table: Table, source: OpenSource, request: MergeRequest, options: MergeOptions
) -> _Kept | None:
    """The rows of the source, once it is seen that the merge can be done; None if it is done."""
    version = options.at_version
    state = await (latest_state(table) if version is None else state_at(table, version))
    if options.txn is not None:
        application, number = options.txn
        before = (await state.set_transactions()).get(application)
        if before is not None and before.version >= number:
            return None
    state.configuration.check_writable(table.uri)
    preview = _Preview(state.configuration.protocol, state.configuration.metadata)
    plan = await in_thread(_planned, preview, source.schema, request)
    rows, known = await read_source(source, plan, options.source_memory)
    return _Kept(rows, known, plan)


@dataclass(slots=True)
class _Preview:
    """Takes new metadata in the place of a transaction that has not begun."""

    protocol: Protocol
    metadata: Metadata

    def update_metadata(self, metadata: Metadata, protocol: Protocol | None = None) -> None:
        """Take them."""
        self.metadata, self.protocol = metadata, protocol or self.protocol


def _planned(stage: MetadataStage, source: StructType, request: MergeRequest) -> MergePlan:
    """The plan of a merge, for which columns that are to be added are staged."""
    before = TableConfiguration(stage.protocol, stage.metadata)
    if request.evolves:
        merge_schema(stage, to_take_in(before, source, request))
    plan = plan_merge(TableConfiguration(stage.protocol, stage.metadata), source, request)
    _ = plan.source_columns, plan.target_columns  # of which the plan keeps what it finds
    return plan


def _check_kept(plan: MergePlan, before: MergePlan, root: str) -> None:
    lacking = set(plan.source_columns) - set(before.source_columns)
    if lacking or plan.keys != before.keys:
        raise MetadataChangedError(
            f"{root}: the columns of the table were changed while the source was read; merge again"
        )


class _Merge:
    """One merge that is being staged."""

    def __init__(
        self,
        roots: StoreRoots,
        tx: TransactionCore,
        plan: MergePlan,
        kept: _Kept,
        options: MergeOptions,
    ) -> None:
        self._roots = roots
        self._tx = tx
        self._plan = plan
        self._kept = kept
        self._options = options

    async def stage(self, watch: Stopwatch) -> dict[str, int]:
        """Stage all that the merge changes; what the history says of it."""
        plan, tx, source = self._plan, self._tx, self._kept.rows
        watch.lap_ms()
        where = await in_thread(candidate_rows, plan, self._kept.known)
        found_files = await tx.read_set(where)
        if self._options.found is not None:
            await tx.read_set(self._options.found.looked_at)
        if self._options.made_of_it:
            tx.staging.read_whole_table()
        files = await in_thread(lambda: list(found_files.rows()))
        looked_at = {"numTargetFilesAfterSkipping": len(files)}
        if (live := await tx.base.known_file_count()) is not None:
            looked_at["numTargetFilesBeforeSkipping"] = live
        if plan.changes_rows:
            plan.configuration.check_removable(self._roots.store.uri)
        meter = Meter(self._options.on_progress, "matching", total=len(files))
        if isinstance(source, LargeSource):
            memory = self._options.source_memory
            found = await match_large(
                self._roots, plan, files, source, where=where, memory=memory, meter=meter
            )
            try:
                return looked_at | await self._change(found, IN_PROCESS, watch)
            finally:
                found.close()
        matched = await self._match(files, where, source, meter)
        return looked_at | await self._change(matched, tx.executor, watch)

    async def _change(
        self, found: Match | LargeMatch, executor: TaskExecutor, watch: Stopwatch
    ) -> dict[str, int]:
        scanned = watch.lap_ms()
        counted = await in_thread(row_counts, self._plan, found.changed)
        done = RewriteResult()
        if not self._options.dry_run:
            done = await self._write(found, executor, updates=counted["numTargetRowsUpdated"] > 0)
        return {
            **counted,
            "numSourceRows": self._num_source_rows,
            "numTargetRowsInserted": found.inserted.num_rows,
            "numTargetRowsCopied": done.num_copied_rows,
            "scanTimeMs": scanned,
            "rewriteTimeMs": watch.lap_ms(),
        }

    @property
    def _num_source_rows(self) -> int:
        found = self._options.found
        counted = None if found is None else found.num_source_rows
        return self._kept.rows.num_rows if counted is None else counted

    async def _match(
        self, files: Sequence[AddFile], where: Node | None, source: SourceRows, meter: Meter
    ) -> Match:
        plan, executor = self._plan, self._tx.executor
        tasks = await in_thread(plan_matching, plan, files, where, source, executor)

        def on_done(result: MatchResult) -> None:
            meter.advance(result.num_files)

        found = await executor.run(self._roots, tasks, on_done=on_done)

        def inserted() -> ChosenRows:
            matched = np.zeros(source.num_rows, np.bool_)
            for result in found if plan.not_matched else ():
                bits = np.frombuffer(result.matched, np.uint8)
                matched |= np.unpackbits(bits, count=len(matched)).astype(np.bool_)
            return rows_to_insert(plan, source, matched)

        changed = tuple(each for result in found for each in result.changed)
        return Match(changed, source, await in_thread(inserted))

    async def _write(
        self, found: Match | LargeMatch, executor: TaskExecutor, *, updates: bool
    ) -> RewriteResult:
        """Write what changes and what is new, and stage it."""
        plan, tx, roots = self._plan, self._tx, self._roots

        counts = await physical_rows(roots, [each.file for each in found.changed])
        files = [RowsToChange(*pair) for pair in zip(found.changed, counts, strict=True)]
        anew = not plan.vectors and any(not each.is_whole for each in files)
        tells = plan.tells and (updates or anew)
        at_once = executor.tasks_at_once
        changes = await in_thread(self._changes, files, found.rows, at_once, tells=tells)
        tasks: list[Task[ChangeResult]] = [*changes]
        if found.inserted.num_rows:
            tasks.append(InsertTask(plan, found.inserted, tells, self._options.data_files))
        total = sum(len(task.files) for task in changes)
        meter = Meter(self._options.on_progress, "rewriting", total=total)

        def on_done(result: ChangeResult) -> None:
            meter.advance(result.num_files)

        results = await executor.run(roots, tasks, on_done=on_done)
        done = sum(results, RewriteResult())
        removed = [] if plan.vectors else [each.file for each in files]
        await tx.stage_rewrite(adds=done.adds, cdc=done.cdc, removed=removed)
        for result in results:
            tx.staging.advance_identities(tx.metadata, result.high_water_marks)
        if files and plan.vectors:
            removals = await in_thread(lambda: [each.removal for each in files])
            await tx.stage_rewrite(vectors=await write_deletion_vectors(roots, removals))
        return done

    def _changes(
        self, files: Sequence[RowsToChange], rows: RowsOfFiles, at_once: int, *, tells: bool
    ) -> list[ChangeTask]:
        plan, options = self._plan, self._options.data_files
        target = WriteSpec.of(plan.configuration, files=options).target_file_size
        groups = shared(files, target, at_once, evenly=not plan.vectors)
        tasks = (ChangeTask(plan, tuple(group), rows, tells, options) for group in groups)
        return [task for task in tasks if task.reads]
