"""RESTORE: a table becomes again what it was at a version, by a commit of its own."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.file_set import FileSet
from adelta.kernel.history import parse_timestamp
from adelta.kernel.table_features import CLUSTERING_DOMAIN
from adelta.kernel.timestamps import from_ms
from adelta.kernel.transaction.restoring import difference, restored_definition
from adelta.log.time_travel import version_at_timestamp
from adelta.operations.restore_check import check_no_vacuum, missing_files, refuse_missing
from adelta.operations.row_counts import counted
from adelta.operations.stage_content import stage_content
from adelta.progress import Meter, OnProgress
from adelta.table import begin, latest_state, opened, roots_of, state_at
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.transaction.creation import NewTable
    from adelta.log.state import LogState
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["RestoreMetrics", "restore"]


_METRICS = {
    "table_size_after_restore": "tableSizeAfterRestore",
    "num_of_files_after_restore": "numOfFilesAfterRestore",
    "num_removed_files": "numRemovedFiles",
    "num_restored_files": "numRestoredFiles",
    "removed_files_size": "removedFilesSize",
    "restored_files_size": "restoredFilesSize",
}
"""What Delta Spark calls them in the history."""


@dataclass(frozen=True, slots=True)
class RestoreMetrics:
    """What a restore did; with `dry_run`, what it would have done.

    `version` is the one that it became, None of a dry run, and `restored_version` the one that it
    brought back. Sizes are in bytes. `missing_files` are files of that version, by their paths in
    the log, that are gone and were left out.
    """

    version: int | None
    restored_version: int
    dry_run: bool
    table_size_after_restore: int
    num_of_files_after_restore: int
    num_removed_files: int
    num_restored_files: int
    removed_files_size: int
    restored_files_size: int
    missing_files: tuple[str, ...] = ()


@checked
async def restore(
    table: TableOrAddress,
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    ignore_missing: bool = False,
    protocol_downgrade_allowed: bool = False,
    dry_run: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> RestoreMetrics:
    """Make the table what it was at an earlier `version`, or at a `timestamp`, in one commit.

    Rows, schema, partitioning, clustering and properties come back; the history stays, and the
    versions in between can still be read. The protocol supports afterwards what either version
    demands; with `protocol_downgrade_allowed` it is that of the version. Values of identity
    columns and row ids go on where they are. Consumers of the table's changes see the rows that
    come and go.

    The files that come back have to be there, with their deletion vectors, which is asked before
    anything is changed; with `ignore_missing` the others come back without those that are gone.
    Whatever is committed meanwhile is a conflict.

    Raises:
        InvalidOptionError: not one of `version` and `timestamp` is given; or it is the latest
            version, or there is none such.
        TableNotFoundError: there is no table.
        VersionNotFoundError: the version does not exist, or is no longer kept.
        TimestampOutOfRangeError: the time is outside the history that is kept.
        MissingDataFileError: files of the version are gone.
        InvariantViolationError: rows would go from a table that only takes appends.
        InvalidPropertyError: other clients that follow the table, such as Iceberg's, could not
            follow that version.
        UnsupportedFeatureError: the version needs a feature that adelta does not have.
        CommitConflictError: another commit came first, or a VACUUM under way may delete the files.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    if (version is None) == (timestamp is None):
        raise InvalidOptionError("say what to restore: give a version or a timestamp, one of these")
    said = None if timestamp is None else from_ms(parse_timestamp(timestamp)).isoformat()
    request = TransactionRequest(
        operation="RESTORE",
        parameters={"version": version, "timestamp": said},
        user_metadata=user_metadata,
        rebase=False,
        commits_empty=True,
        from_latest=True,
    )
    ways = _Ways(ignore_missing, protocol_downgrade_allowed, on_progress)
    async with opened(table, storage_options) as handle:
        if dry_run:
            base = await latest_state(handle)
            plan = await _plan(handle, base, version, timestamp, ways)
            return plan.metrics(None)
        tx = begin(handle, request)
        async with tx:
            plan = await _plan(handle, tx.base, version, timestamp, ways)
            await _stage(tx, plan)
    return plan.metrics(tx.version)


@dataclass(frozen=True, slots=True)
class _Ways:
    """How it is to be done."""

    ignore_missing: bool
    downgrade: bool
    on_progress: OnProgress | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be committed: files that come, files that go, and some that get their ids back."""

    restored_version: int
    definition: NewTable
    clustering: str | None
    comes: tuple[AddFile, ...]
    goes: FileSet
    numbered: FileSet
    missing: tuple[AddFile, ...]
    num_files: int
    num_bytes: int

    def metrics(self, version: int | None) -> RestoreMetrics:
        """What it does, where it becomes `version`."""
        return RestoreMetrics(
            version=version,
            restored_version=self.restored_version,
            dry_run=version is None,
            table_size_after_restore=self.num_bytes,
            num_of_files_after_restore=self.num_files,
            num_removed_files=self.goes.num_files,
            num_restored_files=len(self.comes),
            removed_files_size=self.goes.total_bytes,
            restored_files_size=sum(file.size for file in self.comes),
            missing_files=tuple(file.path for file in self.missing),
        )


async def _plan(
    table: Table,
    base: LogState,
    version: int | None,
    timestamp: datetime | str | None,
    ways: _Ways,
) -> _Plan:
    if timestamp is not None:
        version = await version_at_timestamp(base, parse_timestamp(timestamp))
    assert version is not None
    if version == base.version:
        raise InvalidOptionError(
            f"{table.uri} is at version {version} already; restore an earlier one"
        )
    wanted = await state_at(table, version)
    now = base.configuration
    definition = await in_thread(
        restored_definition, now, wanted.configuration, downgrade=ways.downgrade
    )
    definition.configuration.check_writable(table.uri)
    latest, before = await base.files(), await wanted.files()
    both = await in_thread(difference, latest.table, before.table, table.uri)
    if both.removed.num_rows:
        now.check_removable(table.uri)
    await check_no_vacuum(base, both.added)
    comes = await in_thread(lambda: list(FileSet(both.added).rows()))
    meter = Meter(ways.on_progress, "checking", total=len(comes))
    missing = await missing_files(roots_of(table), comes, meter)
    if not ways.ignore_missing:
        refuse_missing(table.uri, version, missing)
    gone = set(map(id, missing))
    comes = [replace(file, data_change=True) for file in comes if id(file) not in gone]
    if definition.configuration.counts_new_rows:
        comes = await counted(roots_of(table), comes)
    domain = (await wanted.domain_metadata()).get(CLUSTERING_DOMAIN)
    return _Plan(
        restored_version=version,
        definition=definition,
        clustering=None if domain is None else domain.configuration,
        comes=tuple(comes),
        goes=FileSet(both.removed),
        numbered=FileSet(both.numbered),
        missing=tuple(missing),
        num_files=before.num_files - len(missing),
        num_bytes=before.total_bytes - sum(file.size for file in missing),
    )


async def _stage(tx: TransactionCore, plan: _Plan) -> None:
    await stage_content(tx, plan.definition, plan.clustering, plan.goes)
    tx.staging.bring_back(plan.comes)
    await in_thread(lambda: tx.staging.add_again(plan.numbered.rows()))
    tx.metrics.clear()
    told = asdict(plan.metrics(None))
    tx.metrics.update({_METRICS[name]: told[name] for name in _METRICS})
