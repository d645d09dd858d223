"""DESCRIBE HISTORY: who did what to a table, newest first."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from adelta._arguments import check_count, check_names, checked
from adelta._dataclasses import dataclass
from adelta._html import listed
from adelta.errors import MissingCommitError
from adelta.kernel.history import adjusted_timestamps, parse_timestamp
from adelta.kernel.timestamps import from_ms, to_ms
from adelta.log.commit_reader import read_commits
from adelta.log.listing import list_commits
from adelta.table import latest_state, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.storage.object_store import ObjectStore
    from adelta.table import TableOrAddress

__all__ = ["HistoryEntry", "history"]

_READ_AT_ONCE = 256  # commits, where the newest may be enough


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


class _Entries(list[HistoryEntry]):
    """Entries, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = (
            (
                entry.version,
                f"{entry.timestamp:%Y-%m-%d %H:%M:%S} UTC",
                entry.operation or "",
                entry.user_name or entry.user_id or "",
                _said(entry.operation_parameters),
                _said(entry.operation_metrics),
            )
            for entry in self
        )
        return listed(("version", "time", "operation", "user", "how", "what"), rows, len(self))


def _said(values: Mapping[str, Any]) -> str:
    empty = ("", "[]", "{}", None)
    return ", ".join(f"{name} = {value}" for name, value in values.items() if value not in empty)


@checked
async def history(
    table: TableOrAddress,
    limit: int | None = None,
    *,
    operation: str | Iterable[str] | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    user: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[HistoryEntry]:
    """The commits whose files are still kept, newest first; at most `limit` of them.

    Filters leave out what was not asked for, and `limit` counts what is left: by `operation`, one
    name such as ``"MERGE"`` or several, in any case; by time, `since` and `until` included, as
    datetimes or ISO 8601 texts (UTC where they say no zone); and by the name or the id of the
    `user`.

    Raises:
        InvalidOptionError: `limit` is below 0, or a time is none.
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    check_count("limit", limit)
    wanted = _Wanted.of(operation, since, until, user)
    async with opened(table, storage_options) as handle:
        latest = (await latest_state(handle)).version
        if limit == 0:
            return _Entries([])
        start = 0 if limit is None or wanted.filters else max(0, latest - limit + 1)
        try:
            found = await _read(handle.store, start, latest, wanted, limit)
        except MissingCommitError:  # cleaned up between the listing and the reading
            found = await _read(handle.store, start, latest, wanted, limit)
    return _Entries(found)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which commits are asked for; None is all."""

    operations: frozenset[str] | None
    since_ms: int | None
    until_ms: int | None
    user: str | None

    @classmethod
    def of(cls, operation: object, since: object, until: object, user: str | None) -> _Wanted:
        names = None
        if operation is not None:
            given = (operation,) if isinstance(operation, str) else operation
            names = frozenset(name.lower() for name in check_names("operation", given))
        times = [None if t is None else parse_timestamp(cast("Any", t)) for t in (since, until)]
        return cls(names, times[0], times[1], user)

    @property
    def filters(self) -> bool:
        """Whether any commit may be left out."""
        return self != _Wanted(None, None, None, None)

    def takes(self, entry: HistoryEntry) -> bool:
        """Whether a commit is asked for."""
        at = to_ms(entry.timestamp)
        return (
            (self.operations is None or (entry.operation or "").lower() in self.operations)
            and (self.since_ms is None or at >= self.since_ms)
            and (self.until_ms is None or at <= self.until_ms)
            and (self.user is None or self.user in (entry.user_name, entry.user_id))
        )

    def is_before(self, entry: HistoryEntry) -> bool:
        """Whether this commit, and all before it, were made before those that are asked for."""
        return self.since_ms is not None and to_ms(entry.timestamp) < self.since_ms


async def _read(
    store: ObjectStore, start: int, end: int, wanted: _Wanted, limit: int | None
) -> list[HistoryEntry]:
    """The entries, newest first: commits are read from the end on, until there are enough."""
    files = await list_commits(store, start, end)
    modified = adjusted_timestamps([file.last_modified_ms for file in files])
    found: list[HistoryEntry] = []
    step = len(files) if limit is None and wanted.since_ms is None else _READ_AT_ONCE
    for last in range(len(files), 0, -max(step, 1)):
        first = max(0, last - step)
        commits = await read_commits(store, files[first:last])
        pairs = zip(reversed(commits), reversed(modified[first:last]), strict=True)
        entries = [_entry(commit.version, commit.info, at) for commit, at in pairs]
        found += filter(wanted.takes, entries)
        if (limit is not None and len(found) >= limit) or any(map(wanted.is_before, entries)):
            break
    return found if limit is None else found[:limit]


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
