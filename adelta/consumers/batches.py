"""Batches: what a table's log brings from a position on, within limits of size and of time.

The log is read in eras, which end where a commit changes the metadata: the rows of an era have its
columns. Nothing here outlives the process: a position is all that is needed to go on.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa

from adelta.changes.announced import next_commits
from adelta.changes.same_table import check_position
from adelta.changes.source_log import SourceLog
from adelta.changes.source_offset import BEFORE_ALL, SourceOffset
from adelta.changes.source_rules import Admission
from adelta.changes.table_source import TableSource
from adelta.consumers.batch import Batch, SchemaChange
from adelta.consumers.reading import Columns, Reading
from adelta.errors import ChangesNotAvailableError, MissingDataFileError, VersionNotFoundError
from adelta.kernel.position import Position
from adelta.log.listing import list_log
from adelta.log.load import load_state
from adelta.log.time_travel import readable_commits
from adelta.table import latest_state, roots_of

if TYPE_CHECKING:
    from adelta.consumers.request import ConsumerRequest
    from adelta.kernel.commit import Commit
    from adelta.log.state import LogState
    from adelta.table import Table

__all__ = ["Batches"]

_NO_ROWS = pa.table({})


class Batches:
    """Batches of a table from `start` on, one after the other.

    With `is_new` nothing was read before, so that there are no columns that could have changed.
    """

    def __init__(
        self, table: Table, request: ConsumerRequest, start: Position, *, is_new: bool
    ) -> None:
        self._table = table
        self._request = request
        self._at = start
        self._is_new = is_new
        self._source: TableSource | None = None
        self._columns: Columns | None = None
        self._reading: Reading | None = None
        self._change: SchemaChange | None = None
        self._lost: tuple[int, int] | None = None
        self._restarted = False
        self._commits: SourceLog | None = None

    @property
    def position(self) -> Position:
        """How far what was given reaches, and what had nothing to give after it."""
        return self._at

    async def next(self) -> Batch | None:
        """The next batch; None where there is nothing to give yet.

        Raises:
            ChangesNotAvailableError: commits have been cleaned up, and that is an error; or another
                table has taken the place of this one, or its change data feed was off.
            SchemaMismatchError: the table does not have the columns any more.
            InvalidUseError: a commit deletes or changes rows, and that is an error.
            MissingDataFileError: a file has been vacuumed, and that is an error.
            InvalidTableError: the table is damaged.
        """
        try:
            while True:
                try:
                    if self._request.of == "commits":
                        return await self._next_commits()
                    return await self._next_rows()
                except VersionNotFoundError as error:
                    await self._give_up()
                    await self._pass_over_lost(error)
                except MissingDataFileError as error:
                    missing = None if self._reading is None else self._reading.next_version
                    await self._give_up()
                    await self._pass_over_vacuumed(error, missing)
        except BaseException:
            await self._give_up()
            raise

    async def wait(self, pause: float) -> None:
        """Wait for another commit, `pause` seconds at the most where nobody announces them."""
        if not self._at.in_snapshot:
            await next_commits(self._table.store, self._at.version, pause)

    async def aclose(self) -> None:
        """Give up what has been read ahead."""
        await self._give_up()

    # --------------------------------------------------------------------------------------- rows

    async def _next_rows(self) -> Batch | None:
        request, first = self._request, self._at
        admission = Admission(request.max_files, request.max_bytes)
        chunks: list[pa.Table] = []
        rows = size = 0
        at, begun = first, anyio.current_time()
        is_left = self._reading is not None  # by the batch before: its files are limited already
        while True:
            if self._reading is None:
                if not chunks and not admission.has_capacity:  # of files without a row for us
                    admission = Admission(request.max_files, request.max_bytes)
                stops = await self._begin_reading(at, admission, is_first=not chunks)
                if self._reading is None:
                    left = begun + request.max_delay - anyio.current_time()
                    if stops or not chunks or not admission.has_capacity or left <= 0:
                        break
                    await next_commits(self._table.store, at.version, min(request.poll, left))
                    continue
            reading = self._reading
            try:
                taken = await reading.take(request.max_rows - rows)
            except MissingDataFileError:
                if not chunks:
                    raise
                await self._give_up()  # what there is comes first, and then this again
                break
            at = reading.position
            if taken is None:
                self._reading = None
                if is_left and chunks:
                    break
                is_left = False
                continue
            if not chunks:
                begun = anyio.current_time()
            chunks.append(taken)
            rows, size = rows + taken.num_rows, size + taken.nbytes
            if rows >= request.max_rows or size >= request.max_bytes:
                break
        self._at, self._is_new = at, False
        change, lost, restarted = self._change, self._lost, self._restarted
        if not chunks and change is None and lost is None:
            return None
        if at == first and not chunks and lost is None:
            return None  # what changed the columns is not read yet
        assert self._columns is not None
        self._change = self._lost = None
        self._restarted = False
        data = pa.concat_tables(chunks) if chunks else self._columns.schema.empty_table()
        return Batch(first, at, data, schema_change=change, lost=lost, restarted=restarted)

    async def _begin_reading(self, at: Position, admission: Admission, *, is_first: bool) -> bool:
        """Begin to read what is there from `at` on; whether metadata change before that."""
        source = self._source or await self._open_era(at)
        while True:
            start = _offset(at)
            end = await source.latest_offset(start, admission)
            if not end.at_metadata:
                break
            if end.version > at.version or not is_first:
                if (end.version, BEFORE_ALL) > start.order:
                    end = replace(end, index=BEFORE_ALL)
                    break
                return True
            source = await self._open_next_era(source, end.version)
        if end == start:
            return False
        parts = await source.parts(start, end)
        assert self._columns is not None
        self._reading = Reading(roots_of(self._table), self._columns, parts, at, _position(end))
        return False

    async def _open_era(self, at: Position) -> TableSource:
        """The source that reads on from `at`, with the columns of the commit before it."""
        latest = await latest_state(self._table)
        await check_position(latest, at)  # the table may have been made anew since it was opened
        within = at.in_snapshot or at.index or at.row or self._is_new
        version = min(at.version if within else max(at.version - 1, 0), latest.version)
        try:
            state = latest
            if version != latest.version:
                state = await load_state(self._table.store, version=version)
        except VersionNotFoundError:
            if version == at.version or at.version > latest.version:
                raise
            state = await load_state(self._table.store, version=at.version)
        return self._opened(state)

    async def _open_next_era(self, before: TableSource, version: int) -> TableSource:
        """The source that reads on from `version`, which changes the metadata."""
        state = await load_state(self._table.store, version=version)
        old = before.configuration.schema
        had = self._columns
        source = self._opened(state)
        if state.configuration.schema != old and had is not None:
            assert self._columns is not None
            earlier = had.schema if self._change is None else self._change.before
            if earlier != self._columns.schema:
                self._change = SchemaChange(version, earlier, self._columns.schema)
        return source

    def _opened(self, state: LogState) -> TableSource:
        state.configuration.check_readable(self._table.uri)
        source = TableSource(self._table, self._request.rules, state)
        self._columns = Columns.of(source, self._request)
        self._source = source
        return source

    # ------------------------------------------------------------------------------------ commits

    async def _next_commits(self) -> Batch | None:
        request, first = self._request, self._at
        table_id = first.table_id
        if self._commits is None:
            table_id = table_id or (await latest_state(self._table)).metadata.id
            self._commits = SourceLog(self._table.store, table_id, fail_on_data_loss=True)
        found: list[Commit] = []
        at, files, size = first, 0, 0
        begun = anyio.current_time()
        while True:
            async with aclosing(self._commits.commits(at.version)) as commits:
                async for commit, data in commits:
                    table_id = table_id if commit.metadata is None else commit.metadata.id
                    found.append(replace(commit, table_id=table_id))
                    at = found[-1].position
                    files += max(1, commit.adds.num_rows + commit.removes.num_rows)
                    size += len(data)
                    if self._is_full(len(found), files, size):
                        break
            left = begun + request.max_delay - anyio.current_time()
            if not found or left <= 0 or self._is_full(len(found), files, size):
                break
            await next_commits(self._table.store, at.version, min(request.poll, left))
        if not found and self._lost is None:
            return None
        self._at = at
        lost, self._lost = self._lost, None
        return Batch(first, self._at, _NO_ROWS, tuple(found), lost=lost)

    def _is_full(self, commits: int, files: int, size: int) -> bool:
        request = self._request
        return (
            commits >= request.max_rows or files >= request.max_files or size >= request.max_bytes
        )

    # --------------------------------------------------------------------------------- what is lost

    async def _pass_over_lost(self, error: VersionNotFoundError) -> None:
        """Go on after commits that have been cleaned up, as was asked for.

        Raises:
            ChangesNotAvailableError: that is an error, or nothing was cleaned up.
        """
        at, policy = self._at, self._request.on_lost
        first = await self._first_readable(at.version)
        if first is None or (at.in_snapshot and policy == "skip"):
            raise error
        if policy == "fail":
            raise ChangesNotAvailableError(
                f"{self._table.uri}: the commits {at.version} to {first - 1} were cleaned up "
                "before the consumer has read them; with on_lost='skip' it goes on after them, "
                "with on_lost='resnapshot' it begins anew with all rows, and with hold the log is "
                "kept for it"
            ) from error
        if policy == "skip":
            self._lost = (self._lost or (at.version, 0))[0], first - 1
            self._at = Position(first, table_id=at.table_id)
        else:
            latest = await latest_state(self._table)
            self._at = Position(latest.version, in_snapshot=True, table_id=latest.metadata.id)
            self._restarted = True
        self._is_new = True

    async def _pass_over_vacuumed(self, error: MissingDataFileError, missing: int | None) -> None:
        """Go on after a commit whose files are gone, the version `missing`, as was asked for.

        Raises:
            MissingDataFileError: that is an error, or a file of the latest version is gone.
        """
        at, policy = self._at, self._request.on_lost
        if policy == "skip" and missing is not None and not at.in_snapshot:
            self._lost = (self._lost or (missing, 0))[0], missing
            self._at = Position(missing + 1, table_id=at.table_id)
        elif policy == "resnapshot":
            latest = await latest_state(self._table)
            begun = Position(latest.version, in_snapshot=True, table_id=latest.metadata.id)
            if at.in_snapshot and at.version == latest.version:
                raise error
            self._at, self._restarted = begun, True
        else:
            raise error
        self._is_new = True

    async def _first_readable(self, version: int) -> int | None:
        """The first commit that can be read, where that of `version` has been cleaned up."""
        files = await list_log(self._table.store)
        commits = readable_commits(files)
        if not commits or commits[0].version <= version:
            return None
        return commits[0].version

    async def _give_up(self) -> None:
        reading, self._reading = self._reading, None
        self._source = self._commits = None
        if reading is not None:
            await reading.aclose()


def _offset(at: Position) -> SourceOffset:
    assert at.table_id is not None
    index = at.index - 1 if at.index else BEFORE_ALL
    return SourceOffset(at.table_id, at.version, index, at.in_snapshot)


def _position(end: SourceOffset) -> Position:
    index = 0 if end.index == BEFORE_ALL else end.index + 1
    return Position(end.version, index, 0, end.is_initial, end.table_id)
