"""Clean-up of the log: old commits and checkpoints, and what belongs to them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._dataclasses import dataclass
from adelta.commit.choose import check_maintenance
from adelta.errors import InvalidOptionError
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.timestamps import from_ms
from adelta.log.cleanup import clean_log
from adelta.table import clock_of, latest_state, opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress

__all__ = ["LogCleanupMetrics", "cleanup_log"]

_LONGEST = timedelta(days=1000 * 366)

_CHECKPOINTS = (
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
)


@dataclass(frozen=True, slots=True)
class LogCleanupMetrics:
    """What was deleted; with `dry_run`, what would have been.

    `cutoff` is the moment before which history has expired: versions that were the latest at some
    time after it can still be read. `first_version` is the oldest version that the log then begins
    with, None where nothing has expired. The numbers are of files; `num_checkpoint_files` counts
    parts one by one, and `num_unfinished` what writes to a local log have left that were broken
    off. `paths` are relative to the table, in the order of deletion.
    """

    cutoff: datetime
    first_version: int | None
    num_commits: int
    num_checkpoint_files: int
    num_checksums: int
    num_compactions: int
    num_sidecars: int
    num_unfinished: int
    num_bytes: int
    dry_run: bool
    paths: tuple[str, ...] = ()

    @property
    def num_files(self) -> int:
        """How many files there are in all."""
        return len(self.paths)


@checked
async def cleanup_log(
    table: TableOrAddress,
    *,
    retention: timedelta | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LogCleanupMetrics:
    """Delete commits, checkpoints and their like that the table's history no longer needs.

    History is kept for `retention`, by default for the table's `delta.logRetentionDuration`, and
    then until the end of the day (UTC). What lies before the newest checkpoint of that time goes.
    Checkpoints do this by themselves where `delta.enableExpiredLogCleanup` is not false. Only files
    go whose names the protocol gives to what expires; others stay, and whatever a link leads to.

    Writers that have worked on an old version for longer than `retention` may commit again what
    others did meanwhile: make it longer than any transaction takes. An hour is kept in any case.
    `on_progress` is told of what is deleted.

    Raises:
        InvalidOptionError: `retention` is negative, or too long; or the table is managed by a
            catalog, and was opened without its client.
        InvalidUseError: the table's catalog does not permit it.
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    if retention is not None and not timedelta(0) <= retention <= _LONGEST:
        raise InvalidOptionError(
            f"retention is {retention}; it cannot be negative, nor longer than a thousand years"
        )
    kept_ms = None if retention is None else retention // timedelta(milliseconds=1)
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        configuration = state.configuration
        configuration.check_writable(handle.uri)
        check_maintenance(handle.store, configuration)
        now_ms = clock_of(handle).now_ms()
        cleaned = await clean_log(
            state, now_ms, retention_ms=kept_ms, dry_run=dry_run, on_progress=on_progress
        )
    return LogCleanupMetrics(
        cutoff=from_ms(cleaned.cutoff_ms),
        first_version=cleaned.first_version,
        num_commits=cleaned.count(LogFileKind.COMMIT, LogFileKind.STAGED_COMMIT),
        num_checkpoint_files=cleaned.count(*_CHECKPOINTS),
        num_checksums=cleaned.count(LogFileKind.CHECKSUM),
        num_compactions=cleaned.count(LogFileKind.COMPACTION),
        num_sidecars=len(cleaned.sidecars),
        num_unfinished=len(cleaned.unfinished),
        num_bytes=sum(each.size for each in cleaned.objects),
        dry_run=dry_run,
        paths=tuple(each.path for each in cleaned.objects),
    )
