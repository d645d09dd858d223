"""The history: who did what, and what each commit did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.operations.inspect.commit_summary import commit_summaries
from adelta.ui.answers import pairs, shortened, text_of, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.operations.inspect.commit_summary import CommitSummary, FileCount
    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["commit_json", "history"]

_AT_ONCE = 50
_MOST_CHANGED = 50


async def history(table: Table, asked: Asked, _: Kept) -> Mapping[str, Any]:
    """Some commits, newest first; `next` is what to ask for those `before`, where there are any."""
    commits = await commit_summaries(table, before=asked.number("before"), limit=_AT_ONCE)
    last = commits[-1].version if len(commits) == _AT_ONCE else 0
    return {"commits": [commit_json(commit) for commit in commits], "next": last or None}


def commit_json(commit: CommitSummary) -> dict[str, Any]:
    """A commit, as the page shows it."""
    info = commit.info
    others = dict(info.others)
    user = others.pop("userName", None) or others.pop("userId", None)
    more = {
        "readVersion": info.read_version,
        "isolationLevel": info.isolation_level,
        "isBlindAppend": info.is_blind_append,
        "txnId": info.txn_id,
        "userMetadata": info.user_metadata,
        **info.tags,
        **others,
    }
    changed = [shortened(text) for text in commit.changed[:_MOST_CHANGED]]
    if len(commit.changed) > _MOST_CHANGED:
        changed.append(f"… {len(commit.changed) - _MOST_CHANGED:,} more")
    return {
        "version": commit.version,
        "timestamp": time_of(commit.timestamp),
        "operation": text_of(info.operation),
        "user": text_of(user),
        "engine": text_of(info.engine_info),
        "parameters": pairs(info.operation_parameters),
        "metrics": pairs(info.operation_metrics),
        "more": pairs({name: value for name, value in more.items() if value is not None}),
        "num_bytes": commit.num_bytes,
        "added": _files(commit.added),
        "removed": _files(commit.removed),
        "num_change_files": commit.num_change_files,
        "num_vectors": commit.num_vectors,
        "changed": changed,
    }


def _files(files: FileCount | None) -> dict[str, int] | None:
    if files is None:
        return None
    return {"num_files": files.num_files, "num_bytes": files.num_bytes}
