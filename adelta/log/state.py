"""LogState: one version of a table, as its log says it; the heavy parts are read when asked for.

Opening reads the hint, a listing, and then the version's checksum, where a checkpoint would have to
be read otherwise; without one the commits after the checkpoint, and of the checkpoint the protocol
and metadata alone. A later state is made from an earlier one by `advance`, without reading again
what has not changed. Files are read row group by row group; a predicate reads just the columns that
it needs.
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import takewhile
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa

from adelta._concurrency import ReadAhead, in_thread, map_concurrent
from adelta.errors import (
    ChecksumMismatchError,
    InvalidTableError,
    MissingCommitError,
    ObjectNotFoundError,
    TableNotFoundError,
)
from adelta.kernel.actions.file_actions import ADD_SCHEMA, REMOVE_SCHEMA
from adelta.kernel.data_skipping.prune import skip_files
from adelta.kernel.file_set import FileSet
from adelta.kernel.log_path import LogFileKind, checksum_path
from adelta.kernel.replay import standing
from adelta.kernel.table_features import IN_COMMIT_TIMESTAMPS_ENABLED
from adelta.log.checksum_io import usable_checksum
from adelta.log.column_arena import ColumnArena
from adelta.log.commit_reader import decode_commit, read_commit
from adelta.log.listing import LogListing, list_log, list_log_back, list_log_from_hint
from adelta.log.log_base import LogBase, OpenedSegment, open_version, plan_version, reconciled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.checksum import VersionChecksum
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.log_segment import LogSegment
    from adelta.kernel.replay import ReconciledTail
    from adelta.log.checkpoint_reader import CheckpointReader
    from adelta.log.commit_reader import DecodedCommit
    from adelta.log.file_groups import FileGroup
    from adelta.storage.object_store import ObjectStore

__all__ = ["LogState", "load_state", "refresh_state", "version_timestamp"]

_MAX_TAIL = 1000  # commits carried along before a newer checkpoint is taken instead
_KEPT_WHOLE = 16 << 20  # a smaller checkpoint is read at once, and its files are kept
_MOST_CHUNKS = 64  # of the table of files
_GROUPS_AHEAD = 8
_BYTES_AHEAD = 48 << 20  # as the checkpoint's files have them
_KEPT_AHEAD = 12 << 20  # likewise where all of them is kept
_SPECULATIVE = 2  # commits asked for at once: one more than there mostly is
_FEW_COMMITS = 8  # as fast to read as a checksum, and wanted later in any case


class LogState:
    """An immutable view of one version. Safe to share between the tasks of one loop.

    Attributes:
        store: the store of the table's root.
        version: the version.
        protocol: the protocol at the version.
        metadata: the metadata at the version.
        timestamp_ms: when the version was committed: its in-commit timestamp where the table has
            these, else the modification time of its file.
    """

    def __init__(
        self,
        store: ObjectStore,
        segment: LogSegment,
        protocol: Protocol,
        metadata: Metadata,
        *,
        timestamp_ms: int,
        batches: tuple[ActionBatch, ...] | None = None,
        reader: CheckpointReader | None = None,
    ) -> None:
        """A state of what has been read; without `batches` the log is read when it is needed."""
        opened = None
        if batches is not None:
            opened = OpenedSegment(segment, reader, batches, protocol, metadata)
        self.store = store
        self.version = segment.version
        self.protocol = protocol
        self.metadata = metadata
        self.timestamp_ms = timestamp_ms
        self._base = LogBase(store, segment, opened)
        self._stated = (protocol, metadata) if opened is None else None  # to be held to the log
        self._newer: tuple[ActionBatch, ...] = ()
        self._lock = anyio.Lock()
        self._tail: ReconciledTail | None = None
        self._files: FileSet | None = None
        self._carried: tuple[FileSet, int] | None = None  # live files after so many newer batches
        self.counted: tuple[VersionChecksum, int] | None = None
        """A checksum of the version after so many of the batches in `newer`, where one is known."""
        self.count_lost = False
        """Whether a commit since then did not say enough to count on."""
        self.has_checksum = segment.checksum is not None
        """Whether the log is known to have a checksum of the version."""

    @property
    def segment(self) -> LogSegment:
        """The files of the log that the state is read from; later commits are not among them."""
        return self._base.segment

    @property
    def root(self) -> str:
        """The table's URI."""
        return self.store.uri

    @property
    def files_loaded(self) -> bool:
        """Whether `files` answers without reading."""
        return self._files is not None or self._carried is not None

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        """The version's in-commit timestamp, where the table has these."""
        in_commit = IN_COMMIT_TIMESTAMPS_ENABLED.read(self.metadata.configuration)
        return self.timestamp_ms if in_commit else None

    @property
    def newer(self) -> tuple[ActionBatch, ...]:
        """The commits after the segment's, in order."""
        return self._newer

    @property
    def held(self) -> OpenedSegment | None:
        """The segment, where it has been read."""
        return self._base.held

    @property
    def tail_length(self) -> int:
        """How many commits are read beside the checkpoint."""
        return len(self._base.segment.commits) + len(self._newer)

    async def _opened(self) -> OpenedSegment:
        """The log that the state is made of, held to what a checksum said of it.

        Raises:
            ChecksumMismatchError: the checksum that the table was opened by disagrees with the log.
        """
        opened = await self._base.opened()
        if self._stated is not None:
            protocol, metadata = self._stated
            if protocol != opened.protocol or _essence(metadata) != _essence(opened.metadata):
                raise ChecksumMismatchError(
                    f"{self.root}/{checksum_path(opened.segment.version)} states another protocol "
                    "or schema than the log; delete it, and open the table again"
                )
            self._stated = None
        return opened

    async def logged(self) -> tuple[Protocol, Metadata]:
        """Protocol and metadata as the log has them, whatever a checksum says.

        Raises:
            ChecksumMismatchError: the checksum that the table was opened by disagrees with the log.
            InvalidTableError: the log is damaged.
        """
        opened = await self._opened()
        protocol, metadata = opened.protocol, opened.metadata
        for batch in self._newer:
            protocol = batch.protocols[-1][1] if batch.protocols else protocol
            metadata = batch.metadata[-1][1] if batch.metadata else metadata
        return protocol, metadata

    async def _reconciled(self) -> ReconciledTail:
        if self._tail is None:
            await self._opened()
            tail = await self._base.reconciled()
            self._tail = await reconciled(self._newer, self.root, tail)
        return self._tail

    async def files(self) -> FileSet:
        """All live files, with every column of `ADD_SCHEMA`; kept for the next call.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        async with self._lock:
            if self._files is None:
                self._files = await self._load_files()
            return self._files

    async def _load_files(self) -> FileSet:
        if self._carried is not None:
            files, applied = self._carried
            tail = await reconciled(self._newer[applied:], self.root)
            if len(tail.keys) == 0:
                return files
            kept = await in_thread(standing, files.table, tail, self.root)
            table = FileSet(kept, self.root).union(FileSet(tail.adds, self.root)).table
            if table.num_rows and table.column(0).num_chunks > _MOST_CHUNKS:
                # One more with every commit: in the end each list would take longer than the last.
                table = await in_thread(table.combine_chunks)
            return FileSet(table, self.root)
        return FileSet(await self._gather(None, ADD_SCHEMA.names), self.root)

    async def _gather(self, skipping: Skipping | None, columns: Sequence[str]) -> pa.Table:
        while True:
            nothing = pa.schema([ADD_SCHEMA.field(column) for column in columns])
            tables = [pa.Table.from_batches([], nothing)]
            try:
                arena = ColumnArena() if skipping is None else None
                async with aclosing(self._batches(skipping, columns, arena)) as batches:
                    tables += [table async for table in batches]
            except ChecksumMismatchError:
                raise
            except InvalidTableError as error:
                await self.give_up_checkpoint(error)
            else:
                return pa.concat_tables(tables[1:] or tables)

    async def files_matching(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> FileSet:
        """The live files that `skipping` keeps, with the named columns of `ADD_SCHEMA`.

        Where all files are at hand, or soon are, they are used; else no more is read than needed.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        names = ADD_SCHEMA.names if columns is None else list(columns)
        whole = skipping is None and set(names) == set(ADD_SCHEMA.names)
        if not whole and not self.files_loaded and await self._size() > _KEPT_WHOLE:
            return FileSet(await self._gather(skipping, names), self.root)
        table = (await self.files()).table
        if skipping is not None and table.num_rows:
            table = await in_thread(skip_files, table, skipping)
        return FileSet(table.select(names), self.root)

    async def _size(self) -> int:
        """Bytes in the files of the checkpoint."""
        opened = await self._opened()
        if opened.segment.checkpoint is None or opened.reader is None:
            return 0
        sidecars = sum(sidecar.size_in_bytes or 0 for sidecar in opened.reader.sidecars)
        return sidecars + sum(file.size for file in opened.segment.checkpoint.files)

    async def file_batches(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> AsyncGenerator[pa.Table, None]:
        """The live files that `skipping` keeps, piece by piece, in the memory of a few row groups.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        names = ADD_SCHEMA.names if columns is None else list(columns)
        async with aclosing(self._batches(skipping, names)) as batches:
            async for table in batches:
                yield table

    async def _batches(
        self, skipping: Skipping | None, names: Sequence[str], arena: ColumnArena | None = None
    ) -> AsyncGenerator[pa.Table, None]:
        tail = await self._reconciled()
        if tail.adds.num_rows:
            adds = tail.adds
            if skipping is not None:
                adds = await in_thread(skip_files, adds, skipping)
            if adds.num_rows:
                yield adds.select(names)
        reader = (await self._base.opened()).reader
        if reader is None:
            return
        needed = list(
            dict.fromkeys([*names, "path", "deletion_vector"] if len(tail.keys) else names)
        )

        async def read(group: FileGroup) -> pa.Table:
            table = await group.adds(needed, skipping, arena)
            if len(tail.keys) and table.num_rows:
                table = await in_thread(standing, table, tail, self.root)
            return table.select(names)

        groups = _groups(reader, skipping)
        budget = _KEPT_AHEAD if skipping is None else _BYTES_AHEAD
        async with ReadAhead(
            read, groups, limit=_GROUPS_AHEAD, cost=_group_size, budget=budget
        ) as tables:
            async for table in tables:
                if table.num_rows:
                    yield table

    async def tombstones(self) -> pa.Table:
        """The removed files that the log still names, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        async with self._lock, aclosing(self.tombstone_batches()) as batches:
            tables = [table async for table in batches]
            return pa.concat_tables(tables or [REMOVE_SCHEMA.empty_table()])

    async def tombstone_batches(self) -> AsyncGenerator[pa.Table, None]:
        """The removed files that the log still names, piece by piece, as `file_batches`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        tail = await self._reconciled()
        if tail.tombstones.num_rows:
            yield tail.tombstones
        reader = (await self._base.opened()).reader
        if reader is None:
            return

        async def read(group: FileGroup) -> pa.Table:
            table = await group.removes()
            return await in_thread(standing, table, tail, self.root)

        async with ReadAhead(
            read, _remove_groups(reader), limit=_GROUPS_AHEAD, cost=_group_size, budget=_BYTES_AHEAD
        ) as tables:
            async for table in tables:
                if table.num_rows:
                    yield table

    async def give_up_checkpoint(self, cause: InvalidTableError) -> None:
        """Go on with an earlier checkpoint, because this one turned out to be damaged.

        Raises:
            InvalidTableError: `cause`, where no earlier one helps.
        """
        await self._base.give_up_checkpoint(cause)
        self._tail = None

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        """The latest `txn` of every application.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        found = dict(await self._base.set_transactions())
        for batch in self._newer:
            found.update({txn.app_id: txn for _, txn in batch.set_transactions})
        return found

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The configuration of every domain that is not removed.

        A checksum tells of them, where the table was opened by one and no more has been read yet.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        checksum, applied = self.counted or (None, 0)
        told = None if checksum is None or self._stated is None else checksum.domain_metadata
        newer = self._newer
        if told is not None:
            found, newer = {domain.domain: domain for domain in told}, newer[applied:]
        else:
            found = dict(await self._base.domain_metadata())
        for batch in newer:
            found.update({domain.domain: domain for _, domain in batch.domain_metadata})
        return {name: domain for name, domain in found.items() if not domain.removed}

    def advance(self, commits: Sequence[DecodedCommit]) -> LogState:
        """The state after newer commits, which follow this version without a gap. No I/O.

        Raises:
            MissingCommitError: the commits do not follow this version.
        """
        if not commits:
            return self
        later = LogState.__new__(LogState)
        later.store = self.store
        later.version = self.version
        later.protocol, later.metadata = self.protocol, self.metadata
        later.timestamp_ms = self.timestamp_ms
        for commit in commits:
            if commit.version != later.version + 1:
                raise MissingCommitError(
                    f"{self.root}: the commit of version {later.version + 1} is missing: the log "
                    f"goes on with version {commit.version}; restore the file from a backup"
                )
            later.version = commit.version
            later.protocol = commit.protocol or later.protocol
            later.metadata = commit.metadata or later.metadata
            modified = commit.timestamp_ms or later.timestamp_ms
            later.timestamp_ms = _commit_timestamp(commit.commit_info, modified)
        later._base = self._base
        later._stated = self._stated
        later._newer = (*self._newer, *(commit.batch for commit in commits))
        later._lock = anyio.Lock()
        later._tail = later._files = None
        later._carried = self._carried
        later.counted = self.counted
        later.count_lost = self.count_lost
        later.has_checksum = False
        if self._files is not None:
            later._carried = (self._files, len(self._newer))
        return later


def _essence(metadata: Metadata) -> tuple[object, ...]:
    """What of the metadata decides how a table is read."""
    return metadata.schema, metadata.partition_columns, dict(metadata.configuration)


def _group_size(group: FileGroup) -> int:
    return group.size


async def _groups(
    reader: CheckpointReader, skipping: Skipping | None
) -> AsyncGenerator[FileGroup, None]:
    async with aclosing(reader.parts()) as parts:
        async for part in parts:
            for group in await part.groups(skipping):
                yield group


async def _remove_groups(reader: CheckpointReader) -> AsyncGenerator[FileGroup, None]:
    async with aclosing(reader.parts()) as parts:
        async for part in parts:
            for group in await part.remove_groups():
                yield group


def _commit_timestamp(info: CommitInfo | None, modified_ms: int) -> int:
    if info is not None and info.in_commit_timestamp is not None:
        return info.in_commit_timestamp
    return modified_ms


async def load_state(store: ObjectStore, *, version: int | None = None) -> LogState:
    """The state of `version`, the latest one by default.

    A checkpoint that turns out to be missing or damaged is passed over for an earlier one.

    Raises:
        TableNotFoundError: there is no log.
        VersionNotFoundError: the version does not exist, or is no longer kept.
        InvalidTableError: the log is damaged and no earlier checkpoint helps.
    """
    if version is None:
        listing = await list_log_from_hint(store)
    else:
        listing = LogListing(await list_log_back(store, version))
    if not any(f.kind is LogFileKind.COMMIT or f.is_checkpoint for f in listing.files):
        raise TableNotFoundError(
            f"there is no Delta table at {store.uri}: its _delta_log has no commit; check the "
            "address, or create the table"
        )
    segment = await plan_version(store, listing.files, version)
    if segment.checksum is not None and (
        segment.checkpoint is not None or len(segment.commits) > _FEW_COMMITS
    ):
        stated = await usable_checksum(store, segment.version)
        if stated is not None:
            return await _state_by_checksum(store, segment, stated)
    opened = await open_version(store, segment, listing.opened)
    timestamp = await version_timestamp(store, opened.segment, opened.info, opened.metadata)
    return LogState(
        store,
        opened.segment,
        opened.protocol,
        opened.metadata,
        timestamp_ms=timestamp,
        batches=opened.batches,
        reader=opened.reader,
    )


async def _state_by_checksum(
    store: ObjectStore, segment: LogSegment, stated: VersionChecksum
) -> LogState:
    """The state that a checksum states; commits and checkpoint are left for later."""
    timestamp = stated.in_commit_timestamp
    if timestamp is None or not IN_COMMIT_TIMESTAMPS_ENABLED.read(stated.metadata.configuration):
        timestamp = await version_timestamp(store, segment, None, stated.metadata)
    state = LogState(store, segment, stated.protocol, stated.metadata, timestamp_ms=timestamp)
    state.counted = (stated, 0)
    return state


async def version_timestamp(
    store: ObjectStore, segment: LogSegment, info: CommitInfo | None, metadata: Metadata
) -> int:
    """When the version was committed; its commit is read where only that can tell."""
    commit = segment.last_commit
    if commit is None:
        assert segment.checkpoint is not None
        return segment.checkpoint.files[0].last_modified_ms
    if info is None and IN_COMMIT_TIMESTAMPS_ENABLED.read(metadata.configuration):
        info = (await read_commit(store, segment.version)).commit_info
    return _commit_timestamp(info, commit.last_modified_ms)


async def refresh_state(state: LogState, *, recent: bool = False) -> LogState:
    """The latest state, by reading only the commits after `state`; itself where there are none.

    A `recent` state was the latest a short while ago. Then the next commits are asked for by name,
    without a listing: an answer takes the time of one request. That a commit is not there would
    not tell an old state whether the log has been cleaned up.

    Raises:
        InvalidTableError: a new commit is damaged or missing.
        TableNotFoundError: the table is gone.
    """
    store = state.store
    found: list[DecodedCommit] = []
    if recent and state.tail_length < _MAX_TAIL:
        found = await _next_commits(store, state.version + 1)
        if len(found) < _SPECULATIVE:
            return state.advance(found)
    after = state.version + len(found)
    # With a long tail, a checkpoint of this very version is worth a fresh start too.
    start = after + 1 if state.tail_length < _MAX_TAIL else after
    files = await list_log(store, start)
    commits = [f for f in files if f.kind is LogFileKind.COMMIT and f.version > after]
    newest = max((f.version for f in files if f.is_checkpoint), default=-1)
    carried = state.tail_length + len(found) + len(commits)
    if newest >= start and (not commits or carried > _MAX_TAIL):
        return await load_state(store)
    if not commits:
        return state.advance(found)
    if commits[0].version != after + 1:
        return await load_state(store)
    data = await store.get_many([f.path for f in commits])

    def decode() -> list[DecodedCommit]:
        pairs = zip(commits, data, strict=True)
        return [decode_commit(f.version, body, f.last_modified_ms) for f, body in pairs]

    return state.advance([*found, *await in_thread(decode)])


async def _next_commits(store: ObjectStore, first: int) -> list[DecodedCommit]:
    """The commits from `first` on that are there, of the few that are asked for at once."""

    async def read(version: int) -> DecodedCommit | None:
        try:
            return await read_commit(store, version)
        except ObjectNotFoundError:
            return None

    versions = range(first, first + _SPECULATIVE)
    asked = await map_concurrent(read, versions, limit=_SPECULATIVE)
    return [commit for commit in takewhile(lambda each: each is not None, asked) if commit]
