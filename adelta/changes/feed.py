"""The change data feed: which rows each commit inserted, updated and deleted.

PROTOCOL.md, "Reader Requirements for AddCDCFile": a version with `cdc` actions is read from these
alone; any other one from its adds, as inserts, and its removes, as deletes. Where a commit puts
another deletion vector on a file, the rows that the two vectors differ in have changed.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyroaring import BitMap64

from adelta._arguments import checked
from adelta._concurrency import arrow_ready, in_thread
from adelta._read_ahead import ReadAhead
from adelta._streams import stream
from adelta.changes.missing import find_late_commit
from adelta.errors import (
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidTableError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor, RemoveFile
from adelta.kernel.file_id import FileId, canonical_path
from adelta.kernel.file_set import FileSet, add_files, remove_files
from adelta.kernel.history import parse_timestamp
from adelta.kernel.position import Position
from adelta.kernel.scan_plan import ScanPlan, plan_columns
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.names import PHYSICAL_NAME_KEY
from adelta.kernel.schema.types import STRING, StructField, StructType
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import CHANGE_TYPE
from adelta.log.commit_reader import decode_listed
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.log.listing import find_commit, list_commits, list_log
from adelta.log.load import load_state
from adelta.log.time_travel import first_version_after, readable_commits, version_at_timestamp
from adelta.read.data_files import Piece, read_pieces
from adelta.table import opened, roots_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    from adelta.kernel.commit import Commit
    from adelta.kernel.log_path import LogPath
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table, TableOrAddress

__all__ = ["CHANGE_TYPE", "COMMIT_TIMESTAMP", "COMMIT_VERSION", "changes"]

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

_Bound: TypeAlias = int | datetime | str | Position

_INSERT, _DELETE = "insert", "delete"
_COMMITS_AHEAD = 16
_BATCH_ROWS = 64 * 1024
_EXTRA: tuple[pa.Field[Any], ...] = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
)


@dataclass(frozen=True, slots=True)
class _Change:
    """What the rows of a piece are: of which commit, and which change; None where they say so."""

    version: int
    timestamp_ms: int
    kind: str | None


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
            has been cleaned up; the message says which version can be started from.
        MissingCommitError: a commit is not there, and commits before and after it are.
        MissingDataFileError: a file of the range has been vacuumed.
        SchemaMismatchError: a file does not fit the last version's schema.
        InvalidOptionError: a bound is none, or `until` comes before `since`.
    """
    async with opened(table, storage_options) as handle:
        feed = await _open_feed(handle, since, until, columns)
        if feed is None:
            return
        async with aclosing(feed.batches()) as batches:
            async for batch in batches:
                yield batch


async def _open_feed(
    table: Table, since: _Bound, until: _Bound | None, columns: Sequence[str] | None
) -> _Feed | None:
    """The feed of a range; None where nothing is in the range yet."""
    store, latest = table.store, (await table.snapshot()).version
    bounds = await _bounds(table, since, until, latest)
    if bounds is None:
        return None
    first, last = bounds
    start = await _first_state(store, first)
    end = await load_state(store, version=last)
    configuration = end.configuration
    configuration.check_readable(table.uri)
    listed = {file.version: file for file in await list_commits(store, first, last)}
    files = [listed.get(v) or await find_late_commit(store, v) for v in range(first, last + 1)]
    return _Feed(roots_of(table), start, configuration, files, columns)


async def _first_state(store: ObjectStore, version: int) -> LogState:
    try:
        return await load_state(store, version=version)
    except VersionNotFoundError as error:
        readable = readable_commits(await list_log(store))
        if not readable or readable[0].version <= version:
            raise
        raise ChangesNotAvailableError(
            f"{store.uri}: the changes of version {version} have been cleaned up; start again from "
            f"version {readable[0].version}, or from a snapshot"
        ) from error


async def _bounds(
    table: Table, since: _Bound, until: _Bound | None, latest: int
) -> tuple[int, int] | None:
    """The first and the last version of a range; None where it is empty and may be."""
    _check_bound("since", since)
    if until is not None:
        _check_bound("until", until)
    store = table.store
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
            f"{latest}"
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


class _Feed:
    """The changes of some commits, read with the schema of the last one."""

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
        self._plan = _plan(configuration, columns)
        self._schema = to_arrow_schema(self._plan.output)

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(read_pieces(self._roots, self._plan, self._pieces())) as pieces:
            async for piece, table in pieces:
                labelled = await in_thread(self._label, piece, table)
                for batch in labelled.to_batches(max_chunksize=_BATCH_ROWS):
                    if batch.num_rows:
                        yield batch

    def _label(self, piece: Piece, table: pa.Table) -> pa.Table:
        change = piece.tag
        assert isinstance(change, _Change)
        rows = table.num_rows
        kinds: Any = table.column(CHANGE_TYPE)
        if change.kind is not None:
            kinds = pa.repeat(pa.scalar(change.kind), rows)
        time = pa.scalar(change.timestamp_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        version = pa.scalar(change.version, pa.int64())
        table = table.drop_columns([CHANGE_TYPE])
        repeat: Any = pa.repeat  # the stubs do not know all scalars
        columns = (kinds, repeat(version, rows), repeat(time, rows))
        for field, values in zip(_EXTRA, columns, strict=True):
            table = table.append_column(field, values)
        return table

    async def _pieces(self) -> AsyncIterator[Piece]:
        metadata, protocol = self._start.metadata, self._start.protocol
        earlier_ms = 0
        await arrow_ready()
        async with ReadAhead(self._read, self._files, limit=_COMMITS_AHEAD) as commits:
            async for commit in commits:
                metadata, protocol = commit.metadata or metadata, commit.protocol or protocol
                if not TableConfiguration(protocol, metadata).change_data_feed_enabled:
                    raise ChangesNotAvailableError(
                        f"{self._roots.store.uri}: the change data feed was not enabled at version "
                        f"{commit.version}; start from the version that set "
                        "delta.enableChangeDataFeed"
                    )
                earlier_ms = time_ms = max(commit.timestamp_ms or 0, earlier_ms + 1)
                for piece in await self._of(commit, time_ms):
                    yield piece

    async def _read(self, file: LogPath) -> Commit:
        store = self._roots.store
        try:
            data = await store.get(file.path)
        except ObjectNotFoundError:
            file = await find_late_commit(store, file.version)
            data = await store.get(file.path)
        (commit,) = await decode_listed([file], [data])
        return commit

    async def _of(self, commit: Commit, time_ms: int) -> list[Piece]:
        said = _Change(commit.version, time_ms, None)
        found = await in_thread(_found, commit, said, self._roots.store.uri)
        pieces = found.pieces
        for add, remove in found.replaced:
            before = await self._vector(remove.deletion_vector, add.path)
            after = await self._vector(add.deletion_vector, add.path)
            for rows, kind in ((after - before, _DELETE), (before - after, _INSERT)):
                if rows:
                    pieces.append(Piece(add, only=rows, tag=replace(said, kind=kind)))
        if not found.removed:
            return pieces
        deleted = replace(said, kind=_DELETE)
        return [Piece(f, tag=deleted) for f in await self._gone(commit, found.removed)] + pieces

    async def _vector(self, descriptor: DeletionVectorDescriptor | None, path: str) -> BitMap64:
        if descriptor is None:
            return BitMap64()
        return await read_deletion_vector(
            self._roots, descriptor, f"{self._roots.store.uri}: {path}"
        )

    async def _gone(self, commit: Commit, removes: Sequence[RemoveFile]) -> list[AddFile]:
        """Removed files as they were, from the version before where removes say too little."""
        if not self._plan.partition_columns:
            return [_as_add(remove, {}) for remove in removes]
        bare = [r for r in removes if r.partition_values is None]
        known = [_as_add(r, r.partition_values) for r in removes if r.partition_values is not None]
        if not bare:
            return known
        before = await load_state(self._roots.store, version=commit.version - 1)
        root = self._roots.store.uri
        files = {FileId.of(f, root): f for f in FileSet((await before.files()).table).rows()}
        for remove in bare:
            found = files.get(FileId.of(remove, root))
            if found is None:
                raise InvalidTableError(
                    f"{self._roots.store.uri}: version {commit.version} removes {remove.path}, "
                    "which was not in the table; the log is damaged: fsck says in what"
                )
            known.append(found)
        return known


def _plan(configuration: TableConfiguration, columns: Sequence[str] | None) -> ScanPlan:
    """The plan of the columns asked for, and of the change type, which some files hold."""
    named = {PHYSICAL_NAME_KEY: CHANGE_TYPE}  # files call it so, whatever they call the others
    kind = StructField(CHANGE_TYPE, STRING, metadata=named)
    schema = StructType((*configuration.schema.fields, kind))
    wanted = configuration.schema.names if columns is None else tuple(columns)
    if CHANGE_TYPE in wanted and configuration.schema.field(CHANGE_TYPE) is None:
        raise InvalidOptionError(
            f"{CHANGE_TYPE!r} is no column of the table; name the table's own: what a change is, "
            "and when it was, comes with every row"
        )
    return plan_columns(
        schema,
        columns=(*wanted, CHANGE_TYPE),
        where=None,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What a commit changes: rows of whole files, files under another vector, files removed."""

    pieces: list[Piece]
    replaced: Sequence[tuple[AddFile, RemoveFile]] = ()
    removed: Sequence[RemoveFile] = ()


def _found(commit: Commit, said: _Change, root: str) -> _Found:
    """The changes of a commit. CPU-heavy: there may be very many files."""
    if commit.cdc.num_rows:
        return _Found([Piece(file, tag=said) for file in _cdc_files(commit.cdc)])
    inserted = replace(said, kind=_INSERT)
    removes = {canonical_path(r.path, root): r for r in remove_files(commit.removes)}
    removes = {path: r for path, r in removes.items() if r.data_change}
    pieces: list[Piece] = []
    replaced: list[tuple[AddFile, RemoveFile]] = []
    for add in add_files(commit.adds):
        if not add.data_change:
            continue
        remove = removes.pop(canonical_path(add.path, root), None)
        if remove is None:
            pieces.append(Piece(add, tag=inserted))
        else:
            replaced.append((add, remove))
    return _Found(pieces, replaced, tuple(removes.values()))


def _cdc_files(table: pa.Table) -> list[AddFile]:
    return [
        AddFile(row["path"], dict(row["partition_values"] or ()), row["size"] or 0, 0)
        for row in table.to_pylist()
    ]


def _as_add(remove: RemoveFile, partition_values: object) -> AddFile:
    return AddFile(
        path=remove.path,
        partition_values=dict(partition_values or {}),  # type: ignore[call-overload]
        size=remove.size or 0,
        modification_time=0,
        deletion_vector=remove.deletion_vector,
    )
