"""CommitSummary: what one commit did, by its own actions rather than by what it says of itself."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import MissingCommitError
from adelta.kernel.timestamps import from_ms
from adelta.log.commit_provenance import read_commit_info
from adelta.log.commit_reader import read_commits
from adelta.log.listing import list_commits
from adelta.table import latest_state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.commit import Commit
    from adelta.kernel.log_path import LogPath
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table

__all__ = ["CommitSummary", "FileCount", "commit_summaries", "summary_of"]


_WHOLE = 8 << 20  # bytes of a commit; of a longer one only its provenance is read
_AT_ONCE = 64 << 20  # bytes of the commits that are read whole for one answer


@dataclass(frozen=True, slots=True)
class FileCount:
    """A number of files and their bytes."""

    num_files: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did.

    Attributes:
        version: the version that it made.
        timestamp: when it was made, in UTC.
        info: its provenance.
        num_bytes: of the commit itself.
        added: the files that it added; None where the commit is too long to be looked into.
        removed: the files that it removed, likewise.
        num_change_files: files of row changes that it has, likewise.
        num_vectors: of the files added, those that have deletion vectors.
        changed: what else of the table it says: ``metadata``, ``protocol``, and the names of
            domains and of applications that wrote by numbered transactions.
    """

    version: int
    timestamp: datetime
    info: CommitInfo
    num_bytes: int
    added: FileCount | None = None
    removed: FileCount | None = None
    num_change_files: int | None = None
    num_vectors: int | None = None
    changed: tuple[str, ...] = field(default=())


async def commit_summaries(
    table: Table, *, before: int | None = None, limit: int = 50
) -> list[CommitSummary]:
    """The commits before a version, or the latest ones, newest first; at most `limit`.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    latest = (await latest_state(table)).version
    last = latest if before is None else min(latest, before - 1)
    first = max(0, last - limit + 1)
    if last < 0:
        return []
    try:
        return await _read(table.store, first, last)
    except MissingCommitError:  # cleaned up between the listing and the reading
        return await _read(table.store, first, last)


async def _read(store: ObjectStore, first: int, last: int) -> list[CommitSummary]:
    files = await list_commits(store, first, last)
    whole: list[LogPath] = []
    held = 0
    for file in reversed(files):
        if file.size <= _WHOLE and held + file.size <= _AT_ONCE:
            whole.append(file)
            held += file.size
    whole.reverse()
    commits = await read_commits(store, whole)
    made = await in_thread(_summaries, commits, whole)
    for file in files:
        if file.version not in made:
            info = await read_commit_info(store, file.version)
            stamp = info.in_commit_timestamp
            at = file.last_modified_ms if stamp is None else stamp
            made[file.version] = CommitSummary(file.version, from_ms(at), info, file.size)
    return [made[version] for version in sorted(made, reverse=True)]


def _summaries(commits: Sequence[Commit], files: Sequence[LogPath]) -> dict[int, CommitSummary]:
    pairs = zip(commits, files, strict=True)
    return {commit.version: summary_of(commit, file.size) for commit, file in pairs}


def summary_of(commit: Commit, num_bytes: int = 0) -> CommitSummary:
    """What a commit did. It takes long where that has very many files."""
    adds, removes = commit.adds, commit.removes
    changed = [
        *(("metadata",) if commit.metadata is not None else ()),
        *(("protocol",) if commit.protocol is not None else ()),
        *(f"domain {domain.domain}" for domain in commit.domain_metadata),
        *(f"txn {txn.app_id} = {txn.version}" for txn in commit.set_transactions),
    ]
    vectors = adds.column("deletion_vector")
    return CommitSummary(
        commit.version,
        commit.timestamp,
        commit.info,
        num_bytes,
        FileCount(adds.num_rows, int(pc.sum(adds.column("size")).as_py() or 0)),
        FileCount(removes.num_rows, int(pc.sum(removes.column("size")).as_py() or 0)),
        commit.cdc.num_rows,
        adds.num_rows - vectors.null_count,
        tuple(changed),
    )
