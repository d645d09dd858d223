"""DESCRIBE HISTORY: who did what to a table, newest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adelta._arguments import check_count, checked
from adelta.errors import MissingCommitError
from adelta.kernel.history import adjusted_timestamps
from adelta.kernel.timestamps import from_ms
from adelta.log.commit_reader import read_commits
from adelta.log.listing import list_commits
from adelta.table import latest_state, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.commit import Commit
    from adelta.kernel.log_path import LogPath
    from adelta.storage.object_store import ObjectStore
    from adelta.table import TableOrAddress

__all__ = ["HistoryEntry", "history"]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One commit, as its `commitInfo` describes it; what that does not say is None or empty.

    `timestamp` is the in-commit timestamp where the commit has one, else the modification time of
    its file. `others` are the fields of `commitInfo` that have no name here.
    """

    version: int
    timestamp: datetime
    operation: str | None = None
    operation_parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    operation_metrics: Mapping[str, Any] = field(default_factory=dict, hash=False)
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine_info: str | None = None
    txn_id: str | None = None
    user_metadata: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    cluster_id: str | None = None
    job: Mapping[str, Any] | None = field(default=None, hash=False)
    notebook: Mapping[str, Any] | None = field(default=None, hash=False)
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)


@checked
async def history(
    table: TableOrAddress,
    limit: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[HistoryEntry]:
    """The commits whose files are still kept, newest first; at most `limit` of them.

    Raises:
        InvalidOptionError: `limit` is below 1.
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    check_count("limit", limit, least=1)
    async with opened(table, storage_options) as handle:
        latest = (await latest_state(handle)).version
        start = 0 if limit is None else max(0, latest - limit + 1)
        try:
            files, commits = await _read(handle.store, start, latest)
        except MissingCommitError:  # cleaned up between the listing and the reading
            files, commits = await _read(handle.store, start, latest)
    modified = adjusted_timestamps([file.last_modified_ms for file in files])
    entries = [
        _entry(commit.version, commit.info, at)
        for commit, at in zip(commits, modified, strict=True)
    ]
    return entries[::-1]


async def _read(store: ObjectStore, start: int, end: int) -> tuple[list[LogPath], list[Commit]]:
    files = await list_commits(store, start, end)
    return files, await read_commits(store, files)


def _entry(version: int, info: CommitInfo, modified_ms: int) -> HistoryEntry:
    others = dict(info.others)
    stamp = modified_ms if info.in_commit_timestamp is None else info.in_commit_timestamp
    return HistoryEntry(
        version=version,
        timestamp=from_ms(stamp),
        operation=info.operation,
        operation_parameters=info.operation_parameters,
        operation_metrics=info.operation_metrics,
        read_version=info.read_version,
        isolation_level=info.isolation_level,
        is_blind_append=info.is_blind_append,
        engine_info=info.engine_info,
        txn_id=info.txn_id,
        user_metadata=info.user_metadata,
        user_id=_text(others.pop("userId", None)),
        user_name=_text(others.pop("userName", None)),
        cluster_id=_text(others.pop("clusterId", None)),
        job=_mapping(others.pop("job", None)),
        notebook=_mapping(others.pop("notebook", None)),
        others=others,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
