"""Log compaction: one file that stands for a run of commits when the table is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import check_count, checked
from adelta._dataclasses import dataclass
from adelta.commit.choose import publish
from adelta.errors import InvalidOptionError, MissingCommitError
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.log_segment import complete_checkpoints
from adelta.log.compaction_writer import write_compaction
from adelta.log.listing import list_log_from_hint
from adelta.table import latest_state, opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.log.state import LogState
    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress

__all__ = ["LogCompactionMetrics", "compact_log"]


@dataclass(frozen=True, slots=True)
class LogCompactionMetrics:
    """What was written: a file of `num_actions` and `num_bytes` for `num_commits` commits.

    `path` is relative to the table; it and the versions are None where there was nothing to
    compact.
    """

    start_version: int | None = None
    end_version: int | None = None
    num_commits: int = 0
    num_actions: int = 0
    num_bytes: int = 0
    path: str | None = None


@checked
async def compact_log(
    table: TableOrAddress,
    *,
    start_version: int | None = None,
    end_version: int | None = None,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LogCompactionMetrics:
    """Write what the commits of a range leave into one file, which readers may read instead.

    The range is by default all commits after the newest checkpoint. The commits stay. Commits do
    this by themselves every `adelta.logCompactionInterval` versions, where the table has that
    property. `on_progress` is told of the commits that are read.

    Raises:
        InvalidOptionError: the range is empty, or ends after the latest version; or the table is
            managed by a catalog, and was opened without its client.
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        MissingCommitError: a commit of the range has been cleaned up; of the range by default,
            where no newer checkpoint stands for it.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    check_count("start_version", start_version)
    check_count("end_version", end_version)
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        configuration = state.configuration
        configuration.check_writable(handle.uri)
        await publish(handle.store, configuration)
        end = state.version if end_version is None else end_version
        start = await _first_uncovered(state) if start_version is None else start_version
        empty = start >= end and start_version is not None
        if end > state.version or start < 0 or empty:
            raise InvalidOptionError(
                f"the commits {start} to {end} are no range to compact; it takes two commits at "
                f"least, of the versions 0 to {state.version}"
            )
        written = None
        while start < end:
            try:
                written = await write_compaction(state, start, end, on_progress)
                break
            except MissingCommitError:
                before, start = start, await _first_uncovered(state)
                if start_version is not None or start <= before:
                    raise  # else a newer checkpoint stands for what has been cleaned up
        if written is None:
            return LogCompactionMetrics()
        return LogCompactionMetrics(
            start_version=start,
            end_version=end,
            num_commits=end - start + 1,
            num_actions=written.num_actions,
            num_bytes=written.size,
            path=written.path,
        )


async def _first_uncovered(state: LogState) -> int:
    """The first version after the newest checkpoint, or that the log begins with."""
    files = (await list_log_from_hint(state.store)).files
    checkpoints = [c for c in complete_checkpoints(files) if c.version <= state.version]
    if checkpoints:
        return checkpoints[0].version + 1
    commits = (file.version for file in files if file.kind is LogFileKind.COMMIT)
    return min(commits, default=state.version)
