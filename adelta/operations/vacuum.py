"""VACUUM: deletes the files of a table that no version within the retention needs.

Why no file is deleted that somebody needs:

1. *What a version needs that was the latest within the retention* is a live file of the latest
   version, or has left the table since the cutoff: then the log has its tombstone (`kept_files`).
   With them stay the files of their deletion vectors, each by the path that the log says, decoded
   and compared in one spelling, absolute or not.
2. *What a writer under way has written* is younger than the cutoff. So are change files of commits
   within the retention. Ages are told by the store's clock, unless this machine's makes the files
   younger; a transaction that takes longer than the retention loses its files, as everywhere.
3. *What others commit while VACUUM runs.* New files are young, whenever they are listed. Old files
   come back by RESTORE alone, which adds files again that have left the table. The commit
   ``VACUUM START`` stands between the two: it follows the listing, and what has been committed
   before it is looked at once more, so what was restored by then stays. RESTORE follows nothing
   that it has not seen, so it fails where it meets that commit; and one that begins after it, and
   before the ``VACUUM END`` that names it, refuses to bring back what that VACUUM may delete.
4. *What lies elsewhere* is never listed: nothing outside the table's root, nothing that a link
   leads to, nothing in the log, and no file or folder whose name begins with ``_`` or ``.``, but
   for change data, indexes and partitions. Of a log that names others' files nothing follows: it
   only keeps files from being deleted.

A shallow clone names files of its origin, and nothing in the origin's log tells of the clone:
VACUUM of the origin deletes files that have left the origin, and clones that still need them lose
rows. That is so in Delta everywhere; keep the retention of an origin longer than its clones live,
or make deep ones. VACUUM of the clone deletes nothing of the origin.

Wherever it is broken off, the table reads as before, and the next run deletes the rest.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from adelta._arguments import check_choice, checked
from adelta._dataclasses import dataclass
from adelta.commit.choose import check_maintenance, publish
from adelta.errors import AdeltaError, InvalidOptionError, OutsideRootError
from adelta.kernel.timestamps import from_ms
from adelta.kernel.vacuum import FOUND, KeptFiles, VacuumRules
from adelta.log.deletion import delete_objects
from adelta.log.expiry_time import expiry_time_ms
from adelta.log.last_vacuum_info import write_last_vacuum
from adelta.operations.vacuum_listing import found_objects, inventory_objects
from adelta.operations.vacuum_lite import commits_to_look_at, logged_objects, version_before
from adelta.operations.vacuum_plan import (
    Unneeded,
    kept_files,
    unneeded_in_order,
    unneeded_of_any_order,
)
from adelta.operations.vacuum_tasks import plan_deletes
from adelta.progress import Meter, OnProgress
from adelta.table import begin, clock_of, latest_state, opened, roots_of, state_at
from adelta.write.symlink_manifests import MANIFESTS_DIR
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from adelta.log.state import LogState
    from adelta.operations.vacuum_tasks import DeletedFiles
    from adelta.table import Table, TableOrAddress
    from adelta.write.batches import Data
    from adelta.write.task_executor import TaskExecutor

__all__ = [
    "BEGAN_TAG",
    "COMPLETED",
    "MODE_TAG",
    "VACUUM_END",
    "VACUUM_START",
    "VacuumMetrics",
    "VacuumMode",
    "vacuum",
]

VacuumMode = Literal["full", "lite"]
"""Whether the table's folder is listed, or the log alone says what can go."""

VACUUM_START = "VACUUM START"
VACUUM_END = "VACUUM END"
COMPLETED = "COMPLETED"
MODE_TAG = "adelta.vacuum.mode"
"""Of ``VACUUM START``: ``full``, ``lite`` or ``inventory``."""
BEGAN_TAG = "adelta.vacuum.start"
"""Of ``VACUUM END``: the version of the ``VACUUM START`` that it is the end of."""

_log = logging.getLogger("adelta.operations")

_LONGEST = timedelta(days=1000 * 366)
_NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class VacuumMetrics:
    """What was deleted; with `dry_run`, what would have been.

    Files are younger than `cutoff`, or are needed, or have been deleted. `start_version` and
    `version` are the commits ``VACUUM START`` and ``VACUUM END``, None of a dry run. Sizes are in
    bytes. `num_vacuumed_directories` counts the folders that were looked through, the root among
    them, `num_deleted_directories` those that were empty and have gone. `files` are the files to
    delete: a `pyarrow.Table` with ``path``, relative to the table, ``size`` and
    ``modification_time`` in milliseconds since the Unix epoch.
    """

    cutoff: datetime
    mode: Literal["full", "lite"]
    dry_run: bool
    num_files_to_delete: int = 0
    size_of_data_to_delete: int = 0
    num_deleted_files: int = 0
    num_vacuumed_directories: int = 0
    num_deleted_directories: int = 0
    start_version: int | None = None
    version: int | None = None
    files: pa.Table = field(default_factory=FOUND.empty_table, repr=False, compare=False)


@checked
async def vacuum(
    table: TableOrAddress,
    *,
    retention: timedelta | None = None,
    mode: VacuumMode = "full",
    inventory: Data | None = None,
    dry_run: bool = False,
    enforce_retention: bool = True,
    keep_versions: Iterable[int] = (),
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> VacuumMetrics:
    """Delete the files of the table that no version within the retention needs.

    `retention` is by default the table's `delta.deletedFileRetentionDuration`, else a week. One
    that is shorter is refused, for readers and writers under way may need what it would delete;
    without `enforce_retention` it is taken: then see to it that nobody works on the table. One that
    is longer keeps younger files for longer, but of those that have left the table only what the
    log still tells: checkpoints forget them after the table's own time.

    Two defaults are not those of deltalake's `vacuum`: files are deleted, and `dry_run` asks for
    the list alone; and the mode is ``full``, which is Spark's.

    The mode ``full`` lists the table's folder. ``lite`` reads the log alone, and so finds what has
    left the table and not what broken-off writes have left. An `inventory` of files and folders
    takes the place of the listing: rows with ``path`` (the whole address, not percent-encoded),
    ``length``, ``isDir`` and ``modificationTime``, as milliseconds or timestamps.

    What the versions `keep_versions` are made of stays, however old it is.

    Names that begin with ``_`` or ``.`` stay, but for change data and folders of partitions, and
    so does what links lead to. Time travel to versions before the retention ends here. On a local
    disk, empty folders are deleted as well, and so are two kinds of hidden files: the checksum
    files that Spark keeps next to files, if their file is missing or is deleted, and those of
    killed writers (``.adelta-tmp-*``), unless they are younger than the retention or the mode is
    ``lite``. None of these counts as a deleted file.

    Raises:
        InvalidOptionError: `retention` is negative, too long, or shorter than the table's own; or
            `inventory` lacks a column, or is given for ``lite``; or the table is managed by a
            catalog, and was opened without its client.
        InvalidUseError: the table's catalog does not permit it; or the mode is ``lite``, and the
            log no longer has commits that no VACUUM has looked at.
        TableNotFoundError: there is no table.
        VersionNotFoundError: a version to keep does not exist, or is no longer kept; or the store
            does not show a commit that it has just taken.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        CommitOutcomeUnknownError: a commit of the history may or may not have happened.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    check_choice("mode", mode, ("full", "lite"))
    if retention is not None and not timedelta(0) <= retention <= _LONGEST:
        raise InvalidOptionError(
            f"retention is {retention}; it cannot be negative, nor longer than a thousand years"
        )
    if inventory is not None and mode == "lite":
        raise InvalidOptionError("the mode 'lite' looks at the log alone; leave the inventory out")
    async with opened(table, storage_options) as handle:
        run = await _Vacuum.begin(
            handle,
            retention,
            mode,
            enforced=enforce_retention,
            keep=tuple(keep_versions),
            on_progress=on_progress,
        )
        unneeded = await run.find(inventory)
        if dry_run:
            return run.metrics(unneeded, dry_run=True)
        # What goes must not be live in the newest version that the filesystem alone shows.
        await publish(handle.store, run.state.configuration)
        done = await run.delete(unneeded, mode if inventory is None else "inventory")
        if inventory is None and not run.keep:  # whose files are for a later one to look at
            await run.note_version()
        return done


@dataclass(frozen=True, slots=True)
class _Vacuum:
    """One run: what it goes by, and its steps."""

    table: Table
    state: LogState
    rules: VacuumRules
    mode: VacuumMode
    cutoff_ms: int
    parameters: Mapping[str, object]
    keep: tuple[int, ...]
    on_progress: OnProgress | None

    @classmethod
    async def begin(
        cls,
        table: Table,
        retention: timedelta | None,
        mode: VacuumMode,
        *,
        enforced: bool,
        keep: tuple[int, ...],
        on_progress: OnProgress | None,
    ) -> _Vacuum:
        state = await latest_state(table)
        configuration = state.configuration
        configuration.check_writable(table.uri)
        check_maintenance(table.store, configuration)
        default_ms = configuration.properties.deleted_file_retention_ms
        given_ms = None if retention is None else retention // timedelta(milliseconds=1)
        if given_ms is not None and given_ms < default_ms and enforced:
            raise InvalidOptionError(
                f"a retention of {retention} is shorter than {table.uri} keeps deleted files, "
                f"{timedelta(milliseconds=default_ms)}: readers and writers under way may lose "
                "files. Give a longer one, set delta.deletedFileRetentionDuration, or, if nobody "
                "works on the table, pass enforce_retention=False, which in Spark is the setting "
                "spark.databricks.delta.retentionDurationCheck.enabled"
            )
        now_ms = await expiry_time_ms(table.store, clock_of(table).now_ms())
        parameters: dict[str, object] = {
            "retentionCheckEnabled": enforced,
            "defaultRetentionMillis": default_ms,
        }
        if given_ms is not None:
            parameters["specifiedRetentionMillis"] = given_ms
        kept_ms = default_ms if given_ms is None else given_ms
        rules = VacuumRules.of(configuration)
        cutoff_ms = now_ms - kept_ms
        return cls(table, state, rules, mode, cutoff_ms, parameters, keep, on_progress)

    async def find(self, inventory: Data | None) -> Unneeded:
        """What there is to delete, as far as the table is known."""
        kept = await self._kept(self.state)
        meter = Meter(self.on_progress, "listing")
        store = self.table.store
        if self.mode == "lite":
            versions = await commits_to_look_at(self.state, self.cutoff_ms)
            if versions is None:
                return Unneeded()
            removed = logged_objects(self.state, versions, self.rules)
            return await unneeded_of_any_order(removed, kept, self.cutoff_ms, meter)
        if inventory is not None:
            rows = inventory_objects(store, inventory, self.rules)
            return await unneeded_of_any_order(rows, kept, self.cutoff_ms, meter)
        listed = found_objects(store, self.rules, kept)
        return await unneeded_in_order(listed, kept, self.cutoff_ms, meter)

    async def delete(self, unneeded: Unneeded, mode: str) -> VacuumMetrics:
        """Tell the history, look once more, delete, and tell the history."""
        request = TransactionRequest(
            operation=VACUUM_START, parameters=self.parameters, commits_empty=True
        )
        async with begin(self.table, request) as start:
            start.staging.tags[MODE_TAG] = mode
            start.metrics["numFilesToDelete"] = unneeded.num_files
            start.metrics["sizeOfDataToDelete"] = unneeded.size
        assert start.version is not None
        if start.version != self.state.version + 1:
            unneeded = await self._look_again(unneeded, start.version)
        try:
            deleted = await self._run(start.executor, unneeded)
            directories = await self._remove_directories(unneeded)
        except Exception:
            with suppress(AdeltaError):
                await self._end(start.version, "FAILED")
            raise
        end = await self._end(
            start.version,
            COMPLETED,
            numDeletedFiles=deleted,
            numVacuumedDirectories=len(unneeded.directories),
        )
        return self.metrics(
            unneeded,
            num_deleted_files=deleted,
            num_deleted_directories=directories,
            start_version=start.version,
            version=end,
        )

    async def note_version(self) -> None:
        """Tell the next lite VACUUM where to begin."""
        version = await version_before(self.state, self.cutoff_ms)
        if version is not None:
            await write_last_vacuum(self.state, version)

    async def _kept(self, state: LogState) -> KeptFiles:
        """The files that stay, those of versions that are to be kept among them."""
        roots = roots_of(self.table)
        kept = [await kept_files(state, roots, self.cutoff_ms)]
        for version in self.keep:
            older = await state_at(self.table, version)
            kept.append(await kept_files(older, roots, _NEVER_MS))
        return KeptFiles.of([each.paths for each in kept])

    async def _look_again(self, unneeded: Unneeded, start: int) -> Unneeded:
        """What is left of it by what others have committed before the start, which is a version.

        Raises:
            VersionNotFoundError: the store shows a log that ends before that.
        """
        state = await latest_state(self.table)
        if state.version < start:  # the store has shown an older log
            state = await state_at(self.table, start)
        state.configuration.check_writable(self.table.uri)
        kept = await self._kept(state)
        return unneeded.without(kept, VacuumRules.of(state.configuration))

    async def _run(self, executor: TaskExecutor, unneeded: Unneeded) -> int:
        meter = Meter(self.on_progress, "deleting", total=unneeded.num_files)

        def done(result: DeletedFiles) -> None:
            meter.advance(result.num_files)
            for refusal in result.refusals:
                _log.warning("%s: a file stays: %s", self.table.uri, refusal)

        tasks = plan_deletes(unneeded.files)
        results = await executor.run(roots_of(self.table), tasks, on_done=done)
        return sum(result.num_files for result in results)

    async def _remove_directories(self, unneeded: Unneeded) -> int:
        local = self.table.store.local
        if local is None or self.mode == "lite":
            return 0
        with suppress(OutsideRootError):  # The folder of manifests is a link to another place.
            left = await local.list_unfinished(MANIFESTS_DIR)
            old = [each for each in left if each.last_modified_ms < self.cutoff_ms]
            await delete_objects(self.table.store, old)
        return await local.remove_empty_directories(
            self.rules.hides, older_than_ms=self.cutoff_ms, emptied=unneeded.emptied
        )

    async def _end(self, start: int, status: str, **metrics: int) -> int | None:
        request = TransactionRequest(
            operation=VACUUM_END, parameters={"status": status}, commits_empty=True
        )
        async with begin(self.table, request) as end:
            end.staging.tags[BEGAN_TAG] = str(start)
            end.metrics.update(metrics)
        return end.version

    def metrics(
        self,
        unneeded: Unneeded,
        *,
        dry_run: bool = False,
        num_deleted_files: int = 0,
        num_deleted_directories: int = 0,
        start_version: int | None = None,
        version: int | None = None,
    ) -> VacuumMetrics:
        """What was done, or would have been."""
        return VacuumMetrics(
            cutoff=from_ms(self.cutoff_ms),
            mode=self.mode,
            dry_run=dry_run,
            num_files_to_delete=unneeded.num_files,
            size_of_data_to_delete=unneeded.size,
            num_deleted_files=num_deleted_files,
            num_vacuumed_directories=len(unneeded.directories),
            num_deleted_directories=num_deleted_directories,
            start_version=start_version,
            version=version,
            files=unneeded.files,
        )
