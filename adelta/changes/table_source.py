"""TableSource: a table as a source of micro-batches, by offsets that Delta's own sources share.

`latest_offset` says how far the next micro-batch goes, `pieces` what is read for one. The first
micro-batches are the rows that were there when the stream began, unless it begins with a version or
a time; then come the commits, one after the other. Offsets suffice alone: a source that was just
made plans a micro-batch that another one has cut.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.changes.change_rows import Change, change_plan
from adelta.changes.commit_pieces import INSERT, changed_pieces
from adelta.changes.indexed_changes import (
    IndexedFiles,
    added_files,
    changed_files,
    initial_files,
    that_change_data,
)
from adelta.changes.source_log import SourceLog
from adelta.changes.source_offset import BEFORE_ALL, SourceOffset
from adelta.changes.source_schema import check_readable_by_stream
from adelta.errors import ChangesNotAvailableError, InvalidUseError, VersionNotFoundError
from adelta.kernel.history import parse_timestamp
from adelta.kernel.table_configuration import TableConfiguration
from adelta.log.load import load_state
from adelta.log.time_travel import first_version_after
from adelta.read.data_files import Piece
from adelta.snapshot import Snapshot
from adelta.table import latest_state, roots_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.changes.source_rules import Admission, SourceRules
    from adelta.kernel.commit import Commit
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.log.state import LogState
    from adelta.table import Table

__all__ = ["TableSource"]


class TableSource:
    """Micro-batches of a table, with the columns that it had when the source was opened."""

    def __init__(self, table: Table, rules: SourceRules, started: LogState) -> None:
        """`started` is the state at that moment; `open` takes the latest one."""
        self._table = table
        self._rules = rules
        self._started = started
        self._log = SourceLog(
            table.store, started.metadata.id, fail_on_data_loss=rules.fail_on_data_loss
        )
        self._begin: SourceOffset | None = None
        self._is_pinned = rules.start != "latest"
        self._is_begin_checked = False
        self._initial: IndexedFiles | None = None
        self._last_time: tuple[int, int] | None = None

    @classmethod
    async def open(cls, table: Table, rules: SourceRules) -> TableSource:
        """The source of a table as it is now.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
        """
        state = await latest_state(table)
        state.configuration.check_readable(table.uri)
        return cls(table, rules, state)

    @property
    def started(self) -> LogState:
        """The state of which the rows have the columns."""
        return self._started

    def plan(self, columns: Sequence[str]) -> ScanPlan:
        """What the pieces of a stream of rows are read as.

        Raises:
            SchemaMismatchError: there is no such column.
        """
        found = Snapshot(self._started, roots_of(self._table), self._started.configuration)
        return found.scan(columns).plan

    def change_plan(self, columns: Sequence[str] | None) -> ScanPlan:
        """What the pieces of a change feed are read as.

        Raises:
            SchemaMismatchError: there is no such column.
        """
        return change_plan(self._started.configuration, columns)

    def offset(self, raw: dict[str, object]) -> SourceOffset:
        """The offset that a checkpoint has.

        Raises:
            InvalidOptionError: it is none.
            UnsupportedFeatureError: it is of a kind that adelta does not know.
            ChangesNotAvailableError: it is of another table.
        """
        return SourceOffset.from_json(raw, self._started.metadata.id)

    async def initial_offset(self) -> SourceOffset:
        """Before everything that a new stream reads; the same one each time.

        Raises:
            VersionNotFoundError: the version or time to start from is beyond the history.
            ChangesNotAvailableError: the version to start from has been cleaned up.
        """
        if self._begin is None:
            self._begin = await self._first_offset()
        return self._begin

    async def _first_offset(self) -> SourceOffset:
        start, latest = self._rules.start, self._started.version
        id = self._started.metadata.id
        if start is None:
            return SourceOffset(id, latest, is_initial=True)
        if start == "latest":
            return SourceOffset(id, latest + 1)
        if not isinstance(start, int):
            when = parse_timestamp(start)
            return SourceOffset(id, await first_version_after(self._table.store, when))
        if start > latest:
            raise VersionNotFoundError(
                f"{self._table.uri}: a stream cannot start from version {start}; the latest is "
                f"{latest}: start from 'latest' for what comes from now on"
            )
        await self._log.check_there(start)
        return SourceOffset(id, start)

    async def latest_offset(
        self, start: SourceOffset, admission: Admission, until: SourceOffset | None = None
    ) -> SourceOffset:
        """How far a micro-batch from `start` on goes, not beyond `until`; `start` without rows.

        Raises:
            InvalidUseError: a commit deletes or changes rows, and that is not allowed.
            SchemaMismatchError: a commit changes the columns.
            ChangesNotAvailableError: commits are gone, or the change data feed was off.
            InvalidTableError: the log is damaged.
        """
        if not self._is_pinned and start == self._begin:
            # What "latest" was is written down before anything is read from there on.
            self._is_pinned = True
            return start
        await self._check_begin(start)
        last = start
        async with aclosing(self._versions(start, until)) as versions:
            async for files in versions:
                first, end = _unread(files, start), _end(files, until)
                reached = _admitted(files, first, end, admission)
                if reached < len(files):
                    if reached > first:
                        initial = files.is_initial
                        last = SourceOffset(start.table_id, files.version, reached - 1, initial)
                    break
                last = SourceOffset(start.table_id, files.version + 1)
                if not admission.has_capacity:
                    break
        return last

    async def pieces(self, start: SourceOffset, end: SourceOffset) -> list[Piece]:
        """What is read for the micro-batch between two offsets.

        Raises:
            As `latest_offset` does.
        """
        begin = _begin_of(start, end)
        if begin.order >= end.order:
            return []
        await self._check_begin(begin)
        found: list[Piece] = []
        seen = begin.version - 1
        async with aclosing(self._versions(begin, end)) as versions:
            async for files in versions:
                first, stop = _unread(files, begin), _end(files, end)
                if stop > first:
                    found += await self._pieces_of(files, first, stop)
                seen = files.version
        last = end.version - (end.index == BEFORE_ALL)
        if seen < last and self._rules.fail_on_data_loss:
            raise ChangesNotAvailableError(
                f"{self._table.uri}: the commits {seen + 1} to {last}, which the stream has "
                "planned to read, are not there; restore them from a backup, or start the stream "
                "with a new checkpoint"
            )
        return found

    async def _pieces_of(self, files: IndexedFiles, first: int, stop: int) -> list[Piece]:
        rules = self._rules
        if files.is_initial or not rules.read_changes:
            change = None
            if rules.read_changes:
                state = await load_state(self._table.store, version=files.version)
                change = Change(files.version, state.timestamp_ms, INSERT)
            added = await in_thread(lambda: list(files.added(first, stop)))
            return [
                Piece(replace(file, stats=None), tag=change)
                for file in added
                if not rules.excludes(file.path)
            ]
        commit, _ = await self._log.read(files.version)
        time_ms = self._time_of(commit)
        partitioned = bool(self._started.metadata.partition_columns)
        pieces = await changed_pieces(
            roots_of(self._table), commit, time_ms, partitioned=partitioned
        )
        if first > 0 or stop < len(files):
            wanted = set(files.paths.slice(first, stop - first).to_pylist())
            pieces = [piece for piece in pieces if piece.file.path in wanted]
        return [piece for piece in pieces if not rules.excludes(piece.file.path)]

    def _time_of(self, commit: Commit) -> int:
        """When a commit was made, later than the one before."""
        time_ms = commit.timestamp_ms or 0
        if self._last_time is not None and self._last_time[0] == commit.version - 1:
            time_ms = max(time_ms, self._last_time[1] + 1)
        self._last_time = commit.version, time_ms
        return time_ms

    async def _versions(
        self, start: SourceOffset, end: SourceOffset | None
    ) -> AsyncGenerator[IndexedFiles, None]:
        """What the versions from `start` on have, up to `end`, each judged."""
        version = start.version
        if start.is_initial:
            if self._initial is None or self._initial.version != version:
                state = await load_state(self._table.store, version=version)
                files = await state.files()
                self._initial = await in_thread(initial_files, version, files)
            yield self._initial
            version += 1
        else:
            self._initial = None
        last = None if end is None else end.version - (end.index == BEFORE_ALL)
        if last is not None and last < version:
            return
        async with aclosing(self._log.commits(version, last)) as commits:
            async for commit, data in commits:
                yield await in_thread(self._judged, commit, data)

    def _judged(self, commit: Commit, data: bytes) -> IndexedFiles:
        """What a commit has for the stream, which it may not have at all."""
        self._check_metadata(commit)
        if self._rules.read_changes:
            return changed_files(commit, data)
        files = added_files(commit)
        if not that_change_data(commit.removes).num_rows:
            return files
        rules, what = self._rules, commit.info.operation or "a commit"
        if len(files) and not rules.allows_changes:
            raise InvalidUseError(
                f"{self._table.uri}: version {commit.version} ({what}) changes rows, and a stream "
                "of a table's rows has only new ones; pass such commits over with the option "
                "skipChangeCommits, or read the changes themselves with readChangeFeed"
            )
        if not rules.allows_deletes:
            raise InvalidUseError(
                f"{self._table.uri}: version {commit.version} ({what}) deletes rows, and a stream "
                "of a table's rows has only new ones; pass such commits over with the option "
                "skipChangeCommits or ignoreDeletes, or read the changes themselves with "
                "readChangeFeed"
            )
        return files.nothing() if rules.skip_change_commits else files

    def _check_metadata(self, commit: Commit) -> None:
        protocol = commit.protocol or self._started.protocol
        if commit.metadata is None and commit.protocol is None:
            return
        metadata = commit.metadata or self._started.metadata
        found = TableConfiguration(protocol, metadata)
        found.check_readable(self._table.uri)
        if commit.metadata is not None:
            self._check_columns(found, commit.version)

    def _check_columns(self, found: TableConfiguration, version: int) -> None:
        started = self._started
        check_readable_by_stream(
            self._table.uri, started.configuration, started.version, found, version
        )
        if self._rules.read_changes and not found.change_data_feed_enabled:
            raise ChangesNotAvailableError(
                f"{self._table.uri}: the change data feed was not enabled at version {version}; "
                "start a stream with a new checkpoint from the version that set "
                "delta.enableChangeDataFeed"
            )

    async def _check_begin(self, start: SourceOffset) -> None:
        """Hold the metadata that the first rows were written under to those of the stream, once."""
        if self._is_begin_checked:
            return
        version = min(start.version, self._started.version)
        try:
            state = await load_state(self._table.store, version=version)
        except VersionNotFoundError:
            if self._rules.read_changes and self._rules.fail_on_data_loss:
                raise
        else:
            self._check_columns(state.configuration, version)
        self._is_begin_checked = True


def _begin_of(start: SourceOffset, end: SourceOffset) -> SourceOffset:
    """Where a micro-batch begins; of a stream's first one only its end was kept for sure.

    A new stream begins with the files of the latest version, which is another one when the first
    micro-batch is run again: then that one, or the last before the end, has the same rows.
    """
    if not start.is_initial or start.index != BEFORE_ALL:
        return start
    version = end.version if end.is_initial else min(start.version, end.version - 1)
    return replace(start, version=version)


def _unread(files: IndexedFiles, start: SourceOffset) -> int:
    """The index of the first file after `start`."""
    if files.version != start.version or files.is_initial != start.is_initial:
        return 0
    return max(0, start.index + 1)


def _end(files: IndexedFiles, end: SourceOffset | None) -> int:
    """The index after that of the last file up to `end`."""
    if end is None or files.version != end.version or files.is_initial != end.is_initial:
        return len(files)
    return min(len(files), max(0, end.index + 1))


def _admitted(files: IndexedFiles, first: int, end: int, admission: Admission) -> int:
    """The index after that of the last file that is admitted."""
    if files.together:
        sizes = [size or 0 for size in files.sizes.slice(first, end - first).to_pylist()]
        return end if admission.admit_together(sizes) else first
    if admission.is_unlimited:
        return end
    at = first
    while at < end and admission.admit(files.sizes[at].as_py()):
        at += 1
    return at
