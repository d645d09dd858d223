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
from adelta._dataclasses import dataclass
from adelta.changes.change_rows import Change, change_plan
from adelta.changes.commit_pieces import INSERT, changed_pieces
from adelta.changes.event_time import EventTimeColumn, EventTimes
from adelta.changes.indexed_changes import (
    IndexedFiles,
    added_files,
    changed_files,
    initial_files,
    that_change_data,
)
from adelta.changes.schema_changes import check_accepted, differs_for_streams
from adelta.changes.schema_log import SchemaLog
from adelta.changes.source_log import SourceLog
from adelta.changes.source_offset import AT_METADATA, BEFORE_ALL, SourceOffset
from adelta.changes.source_schema import check_readable_by_stream
from adelta.errors import (
    ChangeFeedDisabledError,
    ChangesNotAvailableError,
    InvalidUseError,
    SchemaMismatchError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
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
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.log.state import LogState
    from adelta.table import Table

__all__ = ["SourcePart", "TableSource"]


@dataclass(frozen=True, slots=True)
class SourcePart:
    """What is read of one version: its files with the indexes from `first` on and below `stop`.

    Of their rows those alone for which `where` holds, if there is one.
    """

    files: IndexedFiles
    first: int
    stop: int
    pieces: list[Piece]
    where: Node | None = None


class TableSource:
    """Micro-batches of a table, with the columns that it had when the source was opened.

    Where schemas are tracked they are those of the log of schemas, and micro-batches end where
    metadata change. What comes after is read by a source that is opened then.
    """

    def __init__(
        self,
        table: Table,
        rules: SourceRules,
        started: LogState,
        schemas: SchemaLog | None = None,
    ) -> None:
        """`started` is the state at that moment; `open` takes the latest one."""
        self._table = table
        self._rules = rules
        self._started = started
        self._schemas = schemas
        tracked = None if schemas is None else schemas.current
        self._read = started.configuration if tracked is None else tracked.configuration
        self._read_version = started.version if tracked is None else tracked.version
        self._log = SourceLog(
            table.store, started.metadata.id, fail_on_data_loss=rules.fail_on_data_loss
        )
        self._begin: SourceOffset | None = None
        self._is_pinned = rules.start != "latest"
        self._is_begin_checked = False
        self._initial: IndexedFiles | None = None
        self._times: EventTimes | None = None
        self._last_time: tuple[int, int] | None = None

    @classmethod
    async def open(cls, table: Table, rules: SourceRules) -> TableSource:
        """The source of a table as it is now.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
            SchemaMismatchError: columns were renamed or dropped, or types widened, and the rules do
                not accept that.
        """
        source = await cls._opened(table, rules)
        schemas, tracking = source._schemas, rules.tracking
        if schemas is not None and schemas.current is not None and tracking is not None:
            before = await schemas.previous()
            if before is not None:
                check_accepted(table.uri, before, schemas.current, tracking)
        return source

    @classmethod
    async def open_for_columns(cls, table: Table, rules: SourceRules) -> TableSource:
        """The source for a query that is being written, before anybody has to accept changes.

        Changes of metadata that follow each other, without a file between them, become one.

        Raises: as `open` does.
        """
        source = await cls._opened(table, rules)
        schemas = source._schemas
        if schemas is not None and schemas.current is not None:
            await source._look_ahead(schemas, schemas.current.version)
        return source

    @classmethod
    async def _opened(cls, table: Table, rules: SourceRules) -> TableSource:
        state = await latest_state(table)
        state.configuration.check_readable(table.uri)
        if rules.tracking is None:
            return cls(table, rules, state)
        return cls(table, rules, state, await SchemaLog.open(rules.tracking, state.configuration))

    @property
    def configuration(self) -> TableConfiguration:
        """The protocol and metadata of which the rows have the columns."""
        return self._read

    async def aclose(self) -> None:
        """Give back what it has besides the table."""
        if self._schemas is not None:
            await self._schemas.aclose()

    def plan(self, columns: Sequence[str], where: Node | None = None) -> ScanPlan:
        """What the pieces of a stream of rows are read as; of rows for which `where` holds.

        Raises:
            SchemaMismatchError: there is no such column.
        """
        found = Snapshot(self._started, roots_of(self._table), self._read)
        return found.scan(columns, where).plan

    def change_plan(self, columns: Sequence[str] | None, where: Node | None = None) -> ScanPlan:
        """What the pieces of a change feed are read as; of rows for which `where` holds.

        Raises:
            SchemaMismatchError: there is no such column.
        """
        return change_plan(self._read, columns, where)

    def offset(self, raw: dict[str, object]) -> SourceOffset:
        """The offset that a checkpoint has.

        Raises:
            InvalidOptionError: it is none.
            UnsupportedFeatureError: it is of a kind that adelta does not know.
            ChangesNotAvailableError: it is of another table.
        """
        found = SourceOffset.from_json(raw, self._started.metadata.id)
        found.check_order(by_time=self._rules.event_time is not None)
        return found

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
            try:
                return SourceOffset(id, await first_version_after(self._table.store, when))
            except TimestampOutOfRangeError as error:
                if not self._rules.starts_beyond or error.latest_version is None:
                    raise
                return SourceOffset(id, error.latest_version + 1)
        if start > latest and self._rules.starts_beyond:
            return SourceOffset(id, start)
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
            SchemaMismatchError: a commit changes the columns; or, where schemas are tracked, it has
                done so at `start`, and the log of schemas says so now.
            ChangesNotAvailableError: commits are gone, or the change data feed was off.
            InvalidTableError: the log is damaged.
        """
        await self._begin_tracking(start)
        if start.at_metadata:
            await self._pass_change(start.version)
        if not self._is_pinned and start == self._begin:
            # What "latest" was is written down before anything is read from there on.
            self._is_pinned = True
            return start
        await self._check_begin(start)
        last = start
        async with aclosing(self._versions(start, until)) as versions:
            async for files in versions:
                if files.stops:
                    last = SourceOffset(start.table_id, files.version, AT_METADATA)
                    break
                if files.is_initial and self._rules.event_time is not None:
                    last = (await self._event_times(files)).reached(start, admission)
                    if last.is_initial or not admission.is_unlimited:
                        break  # a micro-batch has no rows of both orders
                    continue
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
        if until is not None and until.at_metadata and last.version == until.version:
            return until  # all that comes before it is read
        return last

    async def parts(self, start: SourceOffset, end: SourceOffset) -> list[SourcePart]:
        """What is read for the micro-batch between two offsets, version by version.

        Raises: as `latest_offset` does.
        """
        begin = _begin_of(start, end)
        if begin.order >= end.order:
            return []
        await self._begin_tracking(begin)
        await self._check_begin(begin)
        found: list[SourcePart] = []
        seen = begin.version - 1
        async with aclosing(self._versions(begin, end, planned=True)) as versions:
            async for files in versions:
                if files.is_initial and self._rules.event_time is not None:
                    found.append(await self._part_by_time(files, begin, end))
                    seen = files.version
                    continue
                first, stop = _unread(files, begin), _end(files, end)
                if stop > first:
                    pieces = await self._pieces_of(files, first, stop)
                    found.append(SourcePart(files, first, stop, pieces))
                seen = files.version
        last = _last_version(end)
        if seen < last and self._rules.fail_on_data_loss:
            raise ChangesNotAvailableError(
                f"{self._table.uri}: the commits {seen + 1} to {last}, which the stream has "
                "planned to read, are not there; restore them from a backup, or start the stream "
                "with a new checkpoint"
            )
        return found

    # ---------------------------------------------------------------- by event time

    async def _part_by_time(
        self, files: IndexedFiles, begin: SourceOffset, end: SourceOffset
    ) -> SourcePart:
        times = await self._event_times(files)
        some, where = await in_thread(times.between, begin, end)
        pieces = await self._pieces_of(some, 0, len(some))
        return SourcePart(some, 0, len(some), pieces, where)

    async def _event_times(self, files: IndexedFiles) -> EventTimes:
        if self._times is None or self._times.version != files.version:
            assert self._rules.event_time is not None
            column = EventTimeColumn.named(self._rules.event_time, self._read)
            self._times = await in_thread(EventTimes, files, column, self._read)
        return self._times

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
        partitioned = bool(self._read.metadata.partition_columns)
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
        self, start: SourceOffset, end: SourceOffset | None, *, planned: bool = False
    ) -> AsyncGenerator[IndexedFiles, None]:
        """What the versions from `start` on have, up to `end`, each judged.

        A micro-batch that was `planned` does not stop where metadata change.
        """
        version = start.version
        if start.is_initial:
            if self._initial is None or self._initial.version != version:
                state = await load_state(self._table.store, version=version)
                await self._begin_with(state)
                files = await state.files()
                self._initial = await in_thread(initial_files, version, files)
            yield self._initial
            version += 1
        else:
            self._initial = self._times = None
        last = None if end is None else _last_version(end)
        if last is not None and last < version:
            return
        listed = version
        if self._rules.starts_beyond and version == self._rules.start:
            listed = min(version, self._started.version + 1)
        async with aclosing(self._log.commits(listed, last)) as commits:
            async for commit, data in commits:
                if commit.version < version:
                    continue
                if not planned and self._stops_before(commit):
                    yield IndexedFiles.stop(commit.version)
                    return
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
                f"of a table's rows has only new ones; {rules.remedy}"
            )
        if not rules.allows_deletes:
            raise InvalidUseError(
                f"{self._table.uri}: version {commit.version} ({what}) deletes rows, and a stream "
                f"of a table's rows has only new ones; {rules.remedy}"
            )
        return files.nothing() if rules.skip_change_commits else files

    # ---------------------------------------------------------------- tracked schemas

    @property
    def _tracks(self) -> bool:
        return self._schemas is not None and self._schemas.current is not None

    def _stops_before(self, commit: Commit) -> bool:
        """Whether what a commit says of metadata is read by another source than this one."""
        if not (self._tracks or self._rules.stops_at_metadata):
            return False
        return self._changed(commit.version, self._after(commit))

    def _changed(self, version: int, found: TableConfiguration | None) -> bool:
        later = found is not None and version > self._read_version
        return later and found is not None and differs_for_streams(found, self._read)

    def _after(self, commit: Commit) -> TableConfiguration | None:
        """What a commit makes of the metadata; None where it leaves them."""
        if commit.metadata is None and commit.protocol is None:
            return None
        return TableConfiguration(
            commit.protocol or self._read.protocol, commit.metadata or self._read.metadata
        )

    async def _begin_tracking(self, start: SourceOffset) -> None:
        """Let a log of schemas begin with the metadata that the first rows are read by."""
        if self._schemas is None or self._schemas.current is not None:
            return
        version = min(start.version, self._started.version)
        found = (await load_state(self._table.store, version=version)).configuration
        self._check_same_table(found, version)
        await self._schemas.add(version, found)
        if differs_for_streams(found, self._read):
            raise self._evolved(version)
        self._read, self._read_version = found, version

    async def _begin_with(self, state: LogState) -> None:
        """Begin the log of schemas anew, if the rows that a stream begins with are later ones'."""
        if self._tracks and self._changed(state.version, state.configuration):
            assert self._schemas is not None
            self._check_same_table(state.configuration, state.version)
            await self._schemas.add(state.version, state.configuration, replaces=True)
            raise self._evolved(state.version)

    async def _pass_change(self, version: int) -> None:
        """Note the metadata that the stream goes on with, now that all before them is done."""
        if self._schemas is None or not self._tracks or version <= self._read_version:
            return
        commit, _ = await self._log.read(version)
        found = self._after(commit)
        if found is None or not self._changed(version, found):
            return
        found.check_readable(self._table.uri)
        self._check_same_table(found, version)
        await self._schemas.add(version, found)
        raise self._evolved(version)

    async def _look_ahead(self, schemas: SchemaLog, version: int) -> None:
        """Take changes of metadata that follow the latest entry at once for one with it."""
        found, at = self._read, version
        try:
            async with aclosing(self._log.commits(version)) as commits:
                async for commit, _ in commits:
                    after = TableConfiguration(
                        commit.protocol or found.protocol, commit.metadata or found.metadata
                    )
                    files = any(a.num_rows for a in (commit.adds, commit.removes, commit.cdc))
                    if files or (commit.metadata is None and commit.protocol is None):
                        break
                    found, at = after, commit.version
        except ChangesNotAvailableError:
            return  # the stream itself says so, if it needs them
        if at > version:
            found.check_readable(self._table.uri)
            self._check_same_table(found, at)
            await schemas.add(at, found, replaces=True)
            self._read, self._read_version = found, at

    def _evolved(self, version: int) -> SchemaMismatchError:
        where = None if self._schemas is None else self._schemas.uri
        return SchemaMismatchError(
            f"{self._table.uri}: version {version} changed the table's metadata, which is noted in "
            f"{where} now; load the table again, and start the stream again with the same "
            "checkpoint: it goes on with the new columns"
        )

    def _check_same_table(self, found: TableConfiguration, version: int) -> None:
        if found.metadata.id != self._started.metadata.id:
            raise ChangesNotAvailableError(
                f"{self._table.uri}: version {version} is of another table; start the stream with "
                "a new checkpoint"
            )

    # ------------------------------------------------------------------------- checks

    def _check_metadata(self, commit: Commit) -> None:
        found = self._after(commit)
        if found is None or (self._tracks and commit.version <= self._read_version):
            return
        found.check_readable(self._table.uri)
        if commit.metadata is not None:
            self._check_columns(found, commit.version)

    def _check_columns(self, found: TableConfiguration, version: int) -> None:
        check_readable_by_stream(self._table.uri, self._read, self._read_version, found, version)
        if self._rules.read_changes and not found.change_data_feed_enabled:
            raise ChangeFeedDisabledError(
                f"{self._table.uri}: the change data feed was not enabled at version {version}; "
                "start a stream with a new checkpoint from the version that set "
                "delta.enableChangeDataFeed"
            )

    async def _check_begin(self, start: SourceOffset) -> None:
        """Hold the metadata that the first rows were written under to those of the stream, once."""
        if self._is_begin_checked or self._tracks:
            return
        version = min(start.version, self._started.version)
        try:
            state = self._started
            if version != state.version:
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


def _last_version(end: SourceOffset) -> int:
    """The last version of which a micro-batch up to `end` reads files."""
    return end.version - (end.index < 0)


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
