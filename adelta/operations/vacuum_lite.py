"""What has left a table, as its log tells: the files that a lite VACUUM looks through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError, TimestampOutOfRangeError
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.vacuum import removed_objects
from adelta.log.commit_reader import read_commits
from adelta.log.last_vacuum_info import read_last_vacuum
from adelta.log.listing import list_commits, list_log_pages
from adelta.log.time_travel import version_at_timestamp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.commit import Commit
    from adelta.kernel.vacuum import VacuumRules
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["CommitRange", "commits_to_look_at", "logged_objects", "version_before"]

arrow: Any = pa

_COMMITS = 256


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The versions `start` to `end`, whose removed files may be older than the retention."""

    start: int
    end: int


async def version_before(state: LogState, cutoff_ms: int) -> int | None:
    """The last version that was committed at the cutoff or before; None where there is none.

    Raises:
        InvalidTableError: the log is damaged.
    """
    if state.timestamp_ms <= cutoff_ms:
        return state.version
    try:
        return await version_at_timestamp(state, cutoff_ms)
    except TimestampOutOfRangeError:
        return None


async def commits_to_look_at(state: LogState, cutoff_ms: int) -> CommitRange | None:
    """The commits that no VACUUM has looked at, up to the cutoff; None where there are none.

    Raises:
        InvalidUseError: commits are gone that none has looked at.
        InvalidTableError: the log is damaged.
    """
    store = state.store
    last = await read_last_vacuum(store)
    first = await _first_commit(store)
    end = await version_before(state, cutoff_ms)
    if end is None:
        return None
    if first != 0 and (last is None or last + 1 < first):
        raise InvalidUseError(
            f"{store.uri}: a lite VACUUM is not possible: the log begins with version {first}, and "
            "no VACUUM has looked at the commits before it, so that it would overlook files that "
            "have left the table; run a full one, after which lite ones are possible"
        )
    start = first if last is None else last + 1
    return CommitRange(start, end) if start <= end else None


async def _first_commit(store: ObjectStore) -> int:
    async for page in list_log_pages(store):
        for file in page:
            if file.kind is LogFileKind.COMMIT:
                return file.version
    return 0


async def logged_objects(
    state: LogState, versions: CommitRange, rules: VacuumRules
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Batches of `FOUND`: what commits have removed, and their change files, in no order.

    Raises:
        MissingCommitError: a commit is gone meanwhile.
        InvalidTableError: a commit is damaged.
    """
    files = await list_commits(state.store, versions.start, versions.end)
    for start in range(0, len(files), _COMMITS):
        commits = await read_commits(state.store, files[start : start + _COMMITS])
        yield await in_thread(_objects, commits, state.root, rules)


def _objects(commits: Sequence[Commit], root: str, rules: VacuumRules) -> pa.RecordBatch:
    found = [
        removed_objects(table, root) for commit in commits for table in (commit.removes, commit.cdc)
    ]
    whole: pa.RecordBatch = arrow.concat_batches(found)
    return whole.filter(rules.visible(whole.column(0)))
