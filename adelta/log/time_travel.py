"""Which version was the latest at a given time (PROTOCOL.md, "In-Commit Timestamps")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import MissingCommitError, ObjectNotFoundError, TimestampOutOfRangeError
from adelta.kernel.history import adjusted_timestamps, version_at
from adelta.kernel.log_path import LogFileKind, LogPath
from adelta.kernel.log_segment import complete_checkpoints
from adelta.kernel.table_features import (
    IN_COMMIT_TIMESTAMPS_ENABLED,
    in_commit_timestamp_enablement,
)
from adelta.kernel.timestamps import from_ms
from adelta.log.commit_provenance import read_commit_info
from adelta.log.listing import list_log, list_log_back, list_log_pages, list_whole_log
from adelta.log.load import load_state

if TYPE_CHECKING:
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "first_version_after",
    "in_commit_timestamp_ms",
    "readable_commits",
    "version_at_timestamp",
]


async def version_at_timestamp(state: LogState, when_ms: int) -> int:
    """The last version committed at or before `when_ms`, among those that can still be read.

    `state` is the latest one. Where the table has in-commit timestamps they count, from the
    version that enabled them on; below it, file modification times made to ascend. The log is
    listed no further than needed to tell: for in-commit timestamps not beyond a checkpoint, for
    modification times from its beginning to `when_ms`.

    Raises:
        TimestampOutOfRangeError: the time is before the first or after the last such version.
    """
    start, start_ms = _enablement(state)
    if start is not None and when_ms >= start_ms:
        found = await _by_reading_commits(state, start, when_ms)
    else:
        found = await _by_listing(state.store, start, when_ms)
    return await _in_whole_log(state, when_ms) if found is None else found


async def _by_reading_commits(state: LogState, start: int, when_ms: int) -> int | None:
    """Binary search from `start` on: in-commit timestamps ascend strictly, and each costs a read.

    None where the version so found is none that can still be read.
    """
    store, low, high = state.store, start, state.version
    if when_ms > state.timestamp_ms:
        return None

    async def at_or_before(version: int) -> bool | None:
        """None for a commit that is no longer there."""
        try:
            return await in_commit_timestamp_ms(store, version) <= when_ms
        except ObjectNotFoundError:
            return None

    while low < high:
        middle = (low + high + 1) // 2
        is_before = await at_or_before(middle)
        if is_before is None:
            low = min(middle + 1, high)
        elif is_before:
            low = middle
        else:
            high = middle - 1
    files = await list_log_back(store, low)
    readable = readable_commits(tuple(f for f in files if f.version <= low))
    if not readable or readable[-1].version != low or not await at_or_before(low):
        return None
    return low


async def _by_listing(store: ObjectStore, before: int | None, when_ms: int) -> int | None:
    """The version by modification times of the commits below `before`, all by default.

    None where the first of these that is later than `when_ms` does not tell it.
    """
    files: list[LogPath] = []
    last: int | None = None
    time = 0
    async for page in list_log_pages(store):
        for file in page:
            if before is not None and file.version >= before:
                return None
            files.append(file)
            if file.kind is not LogFileKind.COMMIT:
                continue
            follows = last is not None and file.version == last + 1
            time = max(file.last_modified_ms, time + 1) if follows else file.last_modified_ms
            last = file.version
            if time > when_ms:
                return _last_before(tuple(files), when_ms)
    return None


def _last_before(files: tuple[LogPath, ...], when_ms: int) -> int | None:
    """The commit before the last of `files`, where that can be read and is not after `when_ms`."""
    readable = readable_commits(files)
    if len(readable) < 2:
        return None
    run = _unbroken_commits(files)
    times = adjusted_timestamps([commit.last_modified_ms for commit in run])
    return readable[-2].version if times[-2] <= when_ms else None


async def _in_whole_log(state: LogState, when_ms: int) -> int:
    files = await list_whole_log(state.store, state.version)
    commits = readable_commits(files)
    if not commits:
        raise TimestampOutOfRangeError(
            f"{state.root}: the log has no commits left to tell the time by; ask for a version"
        )
    start, start_ms = _enablement(state)
    if start is not None and (when_ms >= start_ms or commits[0].version >= start):
        later = [commit for commit in commits if commit.version >= start]
        return await _search_in_commit(state.store, later, when_ms)
    earlier = [c for c in commits if start is None or c.version < start]
    # The times of commits that a clean-up has left before them count, though not their versions.
    run = [c for c in _unbroken_commits(files) if c.version <= earlier[-1].version]
    times = adjusted_timestamps([commit.last_modified_ms for commit in run])[-len(earlier) :]
    if start is not None:  # any moment up to the enablement belongs to what was there before
        when_ms = min(when_ms, times[-1])
    return version_at(when_ms, [commit.version for commit in earlier], times)


async def first_version_after(store: ObjectStore, when_ms: int) -> int:
    """The first readable version committed at or after `when_ms`.

    Raises:
        TimestampOutOfRangeError: the time is after the last version.
    """
    state = await load_state(store)
    if when_ms > state.timestamp_ms:
        raise TimestampOutOfRangeError(
            f"{store.uri}: no version was committed at or after {from_ms(when_ms).isoformat()}; "
            f"version {state.version} is of {from_ms(state.timestamp_ms).isoformat()}",
            latest_version=state.version,
        )
    try:
        before = await version_at_timestamp(state, when_ms - 1)
    except TimestampOutOfRangeError:
        commits = readable_commits(await list_log(store))
        return commits[0].version if commits else state.version
    return min(before + 1, state.version)


def _enablement(state: LogState) -> tuple[int | None, int]:
    """The version and time from which in-commit timestamps count; None where they never do."""
    configuration = state.metadata.configuration
    if not IN_COMMIT_TIMESTAMPS_ENABLED.read(configuration):
        return None, 0
    return in_commit_timestamp_enablement(configuration) or (0, 0)


def readable_commits(files: tuple[LogPath, ...]) -> list[LogPath]:
    """The commits of versions that the log can still make, without a gap up to the latest one."""
    commits = _unbroken_commits(files)
    if not commits or commits[0].version == 0:
        return commits
    oldest = min((c.version for c in complete_checkpoints(files)), default=None)
    return [] if oldest is None else [c for c in commits if c.version >= oldest]


def _unbroken_commits(files: tuple[LogPath, ...]) -> list[LogPath]:
    """The commits up to the latest one, back to the first gap."""
    commits: list[LogPath] = []
    for file in reversed(files):
        if file.kind is not LogFileKind.COMMIT:
            continue
        if commits and commits[-1].version != file.version + 1:
            break
        commits.append(file)
    commits.reverse()
    return commits


async def _search_in_commit(store: ObjectStore, commits: list[LogPath], when_ms: int) -> int:
    """Binary search: in-commit timestamps ascend strictly, and each costs a read."""
    low, high = 0, len(commits) - 1
    first = await in_commit_timestamp_ms(store, commits[low].version)
    last = await in_commit_timestamp_ms(store, commits[high].version)
    if not first <= when_ms <= last:
        return version_at(when_ms, [commits[low].version, commits[high].version], [first, last])
    while low < high:
        middle = (low + high + 1) // 2
        if await in_commit_timestamp_ms(store, commits[middle].version) <= when_ms:
            low = middle
        else:
            high = middle - 1
    return commits[low].version


async def in_commit_timestamp_ms(store: ObjectStore, version: int) -> int:
    """The in-commit timestamp of `version`.

    Raises:
        MissingCommitError: the commit has none, though the table's commits must.
    """
    info = await read_commit_info(store, version)
    if info.in_commit_timestamp is None:
        raise MissingCommitError(
            f"{store.uri}: the commit of version {version} has no inCommitTimestamp, which the "
            "table requires; a client that broke the protocol wrote it. Ask for a version instead"
        )
    return info.in_commit_timestamp
