"""The change data feed: which rows each commit inserted, updated and deleted.

PROTOCOL.md, "Reader Requirements for AddCDCFile": a version with `cdc` actions is read from these
alone; any other one from its adds, as inserts, and its removes, as deletes. Where a commit puts
another deletion vector on a file, the rows that the two vectors differ in have changed.
"""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from adelta._arguments import checked
from adelta._read_ahead import ReadAhead
from adelta._streams import stream
from adelta.changes.change_rows import change_columns, change_plan, change_rows
from adelta.changes.commit_pieces import changed_pieces
from adelta.changes.missing import find_late_commit
from adelta.changes.same_table import check_position
from adelta.errors import (
    ChangeFeedDisabledError,
    ChangesNotAvailableError,
    InvalidOptionError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.history import parse_timestamp
from adelta.kernel.position import Position
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.table_configuration import TableConfiguration
from adelta.log.commit_reader import decode_listed
from adelta.log.listing import find_commit, list_commits, list_log
from adelta.log.load import load_state
from adelta.log.time_travel import first_version_after, readable_commits, version_at_timestamp
from adelta.table import latest_state, opened, roots_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.commit import Commit
    from adelta.kernel.log_path import LogPath
    from adelta.log.state import LogState
    from adelta.read.data_files import Piece
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table, TableOrAddress

__all__ = ["ChangeFeed", "changes", "open_feed"]

_Bound: TypeAlias = int | datetime | str | Position

_COMMITS_AHEAD = 16


@checked
@stream
async def changes(
    table: TableOrAddress,
    since: int | datetime | str | Position = 0,
    until: int | datetime | str | Position | None = None,
    *,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows that the commits from `since` to `until`, both included, changed, in their order.

    The bounds are versions, times (a datetime, or ISO 8601 text) or a `Position`: from its commit
    on, or up to the one before. `until` is the latest version by default; from the version that
    comes next there are no rows yet, which is no error. To the columns of the last version, or
    those named, come ``_change_type`` (``insert``, ``update_preimage``, ``update_postimage`` or
    ``delete``), ``_commit_version`` and ``_commit_timestamp``.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the range goes beyond the table's history.
        ChangesNotAvailableError: the feed was not enabled for a version of the range, or a commit
            has been cleaned up; the message says which version can be started from; or a
            `Position` is of another table.
        MissingCommitError: a commit is not there, and commits before and after it are.
        MissingDataFileError: a file of the range has been vacuumed.
        SchemaMismatchError: a file does not fit the last version's schema.
        InvalidOptionError: a bound is none, or `until` comes before `since`.
    """
    async with opened(table, storage_options) as handle:
        bounds = await _bounds(handle, since, until, (await handle.snapshot()).version)
        if bounds is None:
            return
        feed = await open_feed(handle, *bounds, columns)
        async with aclosing(feed.batches()) as batches:
            async for batch in batches:
                yield batch


async def change_schema(
    table: TableOrAddress,
    since: int | datetime | str | Position = 0,
    until: int | datetime | str | Position | None = None,
    *,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Schema:
    """The columns of what `changes` gives for the same arguments.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the range goes beyond the table's history.
        SchemaMismatchError: there is no such column.
    """
    async with opened(table, storage_options) as handle:
        latest = (await handle.snapshot()).version
        bounds = await _bounds(handle, since, until, latest)
        last = latest if bounds is None else bounds[1]
        configuration = (await load_state(handle.store, version=last)).configuration
        configuration.check_readable(handle.uri)
        return to_arrow_schema(change_columns(change_plan(configuration, columns)))


changes.arrow_schema = change_schema  # type: ignore[attr-defined]  # for who hands rows on


async def open_feed(
    table: Table,
    first: int,
    last: int,
    columns: Sequence[str] | None = None,
    *,
    schema_of: int | None = None,
) -> ChangeFeed:
    """The feed of the commits `first` to `last`, with the columns of the version `schema_of`.

    That is `last` by default.

    Raises:
        VersionNotFoundError: there is no such version.
        ChangesNotAvailableError: a commit has been cleaned up.
        MissingCommitError: a commit is not there, and commits before and after it are.
        UnsupportedFeatureError: reading needs a table feature that adelta does not have.
    """
    store = table.store
    start = await _first_state(store, first)
    end = await load_state(store, version=last if schema_of is None else schema_of)
    configuration = end.configuration
    configuration.check_readable(table.uri)
    listed = {file.version: file for file in await list_commits(store, first, last)}
    files = [listed.get(v) or await find_late_commit(store, v) for v in range(first, last + 1)]
    return ChangeFeed(roots_of(table), start, configuration, files, columns)


async def _first_state(store: ObjectStore, version: int) -> LogState:
    try:
        return await load_state(store, version=version)
    except VersionNotFoundError as error:
        readable = readable_commits(await list_log(store))
        if not readable or readable[0].version <= version:
            raise
        raise ChangesNotAvailableError(
            f"{store.uri}: the changes of version {version} have been cleaned up; start again from "
            f"version {readable[0].version}, or from a snapshot",
            earliest_version=readable[0].version,
        ) from error


async def _bounds(
    table: Table, since: _Bound, until: _Bound | None, latest: int
) -> tuple[int, int] | None:
    """The first and the last version of a range; None where it is empty and may be."""
    _check_bound("since", since)
    if until is not None:
        _check_bound("until", until)
    store = table.store
    for bound in (since, until):
        if isinstance(bound, Position):
            await check_position(await latest_state(table), bound)
    if isinstance(since, Position):
        first = since.first_version
    elif isinstance(since, int):
        first = since
    else:
        first = await first_version_after(store, parse_timestamp(since))
    if until is None:
        last = latest
    elif isinstance(until, Position):
        last = until.first_version - 1
    elif isinstance(until, int):
        last = until
    else:
        last = await version_at_timestamp(await load_state(store), parse_timestamp(until))
    known = max(first - 1, last)
    if known > latest and await find_commit(store, known) is not None:
        latest = known  # which the listing for the latest version left out
    if first < 0 or max(first - 1, last) > latest:
        to = "on" if until is None else f"to {last}"
        raise VersionNotFoundError(
            f"{table.uri}: there are no changes from version {first} {to}; the latest version is "
            f"{latest}",
            latest_version=latest,
        )
    if first <= last:
        return first, last
    if until is None or (first == last + 1 and (isinstance(until, Position) or first > latest)):
        return None
    raise InvalidOptionError(f"the changes since {since!r} until {until!r} are an empty range")


def _check_bound(name: str, bound: object) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int | datetime | str | Position):
        raise InvalidOptionError(
            f"{name} is a version, a time or a Position; {bound!r} is none of these"
        )


class ChangeFeed:
    """The changes of some commits, read with the columns of one version.

    Attributes:
        plan: what `change_rows` makes of the pieces.
    """

    def __init__(
        self,
        roots: StoreRoots,
        start: LogState,
        configuration: TableConfiguration,
        files: Sequence[LogPath],
        columns: Sequence[str] | None,
    ) -> None:
        self._roots = roots
        self._start = start
        self._files = files
        self.plan = change_plan(configuration, columns)

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows, in the order of their commits."""
        async with aclosing(change_rows(self._roots, self.plan, self.pieces())) as batches:
            async for batch in batches:
                yield batch

    async def pieces(self) -> AsyncIterator[Piece]:
        """What is read of data files, in the order of the commits.

        Raises:
            ChangesNotAvailableError: the feed was not enabled for a version.
            InvalidTableError: the log is damaged.
        """
        partitioned = bool(self.plan.partition_columns)
        metadata, protocol = self._start.metadata, self._start.protocol
        earlier_ms = 0
        async with ReadAhead(self._read, self._files, limit=_COMMITS_AHEAD) as commits:
            async for commit in commits:
                metadata, protocol = commit.metadata or metadata, commit.protocol or protocol
                if not TableConfiguration(protocol, metadata).change_data_feed_enabled:
                    raise ChangeFeedDisabledError(
                        f"{self._roots.store.uri}: the change data feed was not enabled at version "
                        f"{commit.version}; start from a version at which it was, or enable it by "
                        "set_properties (delta.enableChangeDataFeed) for what comes after"
                    )
                earlier_ms = time_ms = max(commit.timestamp_ms or 0, earlier_ms + 1)
                found = changed_pieces(self._roots, commit, time_ms, partitioned=partitioned)
                for piece in await found:
                    yield piece

    async def _read(self, file: LogPath) -> Commit:
        store = self._roots.store
        try:
            data = await store.get(file.path)
        except ObjectNotFoundError:
            file = await find_late_commit(store, file.version)
            data = await store.get(file.path)
        (commit,) = await decode_listed(store, [file], [data])
        return commit
