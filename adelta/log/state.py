"""LogState: one version of a table, as its log says it; the heavy parts are read when asked for.

A state is a value. A later one is made from an earlier one by `advance`, without reading again what
has not changed: both have one `SharedSegment`, which holds what is read. What is derived of it is
kept in a replay that belongs to that very segment, and every answer comes from one replay. Where
a checkpoint turns out to be damaged, the shared segment is replaced, and each state derives anew.
"""

from __future__ import annotations

import math
from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from adelta._dataclasses import dataclass
from adelta.errors import ChecksumMismatchError, InvalidTableError, MissingCommitError
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import IN_COMMIT_TIMESTAMPS_ENABLED
from adelta.log.checksum_record import ChecksumRecord
from adelta.log.shared_segment import SharedSegment
from adelta.log.version_mark import VersionMark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.kernel.commit import Commit
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.log_segment import LogSegment
    from adelta.log.opened_segment import OpenedSegment
    from adelta.log.version_replay import VersionReplay
    from adelta.storage.object_store import ObjectStore

    T = TypeVar("T")

__all__ = ["LogState", "commit_timestamp"]

# Bytes of memory, about: of a state by itself, of a commit, of a character of the schema.
_LEAST_BYTES, _FILE_BYTES, _SCHEMA_BYTES = 10_000, 3_000, 8


@dataclass(slots=True)
class _Learnt:
    """What has been found out about one state since it was made, each by a value of its own."""

    replay: VersionReplay | None = None
    checksum: ChecksumRecord = field(default_factory=ChecksumRecord)
    newest_at: float = -math.inf


@dataclass(frozen=True, slots=True, eq=False)
class LogState:
    """An immutable view of one version. Safe to share between the tasks of one loop.

    Attributes:
        store: the store of the table's root.
        version: the version.
        protocol: the protocol at the version.
        metadata: the metadata at the version.
        timestamp_ms: when the version was committed: its in-commit timestamp where the table has
            these, else the modification time of its file.
        mark: by what the log is known to be the one that the state was made of.
        newer: the commits after the segment's, in order.
    """

    store: ObjectStore
    version: int
    protocol: Protocol
    metadata: Metadata
    timestamp_ms: int
    mark: VersionMark = field(repr=False)
    _shared: SharedSegment = field(repr=False)
    newer: tuple[ActionBatch, ...] = field(default=(), repr=False)
    _learnt: _Learnt = field(default_factory=_Learnt, repr=False)

    @classmethod
    def of_opened(cls, store: ObjectStore, opened: OpenedSegment, *, timestamp_ms: int) -> LogState:
        """The state that a segment makes, which has been read."""
        return cls(
            store,
            opened.segment.version,
            opened.protocol,
            opened.metadata,
            timestamp_ms,
            VersionMark.of_segment(opened.segment, opened.info),
            SharedSegment.of_opened(store, opened),
            _learnt=_Learnt(None, ChecksumRecord(written=opened.segment.checksum is not None)),
        )

    @classmethod
    def of_checksum(
        cls,
        store: ObjectStore,
        segment: LogSegment,
        stated: VersionChecksum,
        info: CommitInfo | None,
        *,
        timestamp_ms: int,
    ) -> LogState:
        """The state that a version checksum states; the segment is left for later.

        `info` is the provenance of the version's commit, where that has been read.
        """
        protocol, metadata = stated.protocol, stated.metadata
        return cls(
            store,
            segment.version,
            protocol,
            metadata,
            timestamp_ms,
            VersionMark.of_segment(segment, info),
            SharedSegment(store, segment, protocol, metadata),
            _learnt=_Learnt(None, ChecksumRecord(stated, written=True)),
        )

    @property
    def segment(self) -> LogSegment:
        """The files of the log that the state is read from; later commits are not among them."""
        return self._shared.segment

    @property
    def root(self) -> str:
        """The table's URI."""
        return self.store.uri

    @property
    def files_loaded(self) -> bool:
        """Whether `files` answers without reading."""
        replay = self._learnt.replay
        return replay is not None and replay.segment is self._shared.held and replay.files_loaded

    @property
    def configuration(self) -> TableConfiguration:
        """How the version is to be read and written."""
        return TableConfiguration(self.protocol, self.metadata)

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        """The version's in-commit timestamp, where the table has these."""
        in_commit = IN_COMMIT_TIMESTAMPS_ENABLED.read(self.metadata.configuration)
        return self.timestamp_ms if in_commit else None

    @property
    def held(self) -> OpenedSegment | None:
        """The segment, where it has been read."""
        return None if self._shared.held is None else self._shared.held.opened

    @property
    def tail_length(self) -> int:
        """How many commits are read beside the checkpoint."""
        return len(self._shared.segment.commits) + len(self.newer)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, about, in bytes: with what it shares with other states."""
        replay, held = self._learnt.replay, self._shared.held
        files = len(self._shared.segment.commits) + len(self.newer)
        return (
            _LEAST_BYTES
            + _FILE_BYTES * files
            + _SCHEMA_BYTES * len(self.metadata.schema_string)
            + sum(batch.nbytes for batch in self.newer)
            + (0 if held is None else held.nbytes)
            + _FILE_BYTES * self._num_listed_files
            + (0 if replay is None else replay.nbytes)
        )

    @property
    def _num_listed_files(self) -> int:
        counted = self._learnt.checksum.counted
        return 0 if counted is None else len(counted.all_files or ())

    @property
    def checksum(self) -> ChecksumRecord:
        """What is known of the version's checksum, but what a given-up checkpoint has told."""
        record = self._learnt.checksum
        if record.source is None or record.source is self.held:
            return record
        return ChecksumRecord(written=record.written)

    def note_checksum(self, record: ChecksumRecord) -> None:
        """Take note of what is now known of the version's checksum."""
        self._learnt.checksum = record

    def newest_since(self, moment: float) -> bool:
        """Whether a look at the log that began since then, by `monotonic`, found it the newest."""
        return self._learnt.newest_at >= moment

    def note_newest(self, asked_at: float) -> None:
        """Take note that a look at the log that began then, by `monotonic`, found none newer.

        An answer may be late: it tells what was there when it was asked for.
        """
        self._learnt.newest_at = max(self._learnt.newest_at, asked_at)

    def continues(self, earlier: LogState) -> bool:
        """Whether it is a later state of the same table, or the same state.

        One that was made by `advance` is, whatever its commits say; of others their ids tell.
        """
        same_table = self._shared is earlier._shared or self.metadata.id == earlier.metadata.id
        return same_table and self.version >= earlier.version

    async def _replay(self) -> VersionReplay:
        """The replay of the segment in use, which is read where it has not been.

        Raises:
            ChecksumMismatchError: the checksum that the table was opened by disagrees with the log.
            InvalidTableError: the log is damaged and no earlier checkpoint helps.
        """
        segment = await self._shared.replay()
        found = self._learnt.replay
        if found is None or found.segment is not segment:
            from adelta.log.version_replay import VersionReplay

            found = self._learnt.replay = VersionReplay(segment, self.newer)
        return found

    async def replayed(self, read: Callable[[VersionReplay], Awaitable[T]]) -> T:
        """What `read` gives, which begins anew where the checkpoint that it reads is damaged.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        while True:
            replay = await self._replay()
            try:
                return await read(replay)
            except ChecksumMismatchError:
                raise
            except InvalidTableError as error:
                await self._shared.give_up_checkpoint(replay.segment, error)

    async def logged(self) -> tuple[Protocol, Metadata]:
        """Protocol and metadata as the log has them, whatever a checksum says.

        Raises:
            ChecksumMismatchError: the checksum that the table was opened by disagrees with the log.
            InvalidTableError: the log is damaged.
        """
        return (await self._replay()).logged()

    async def files(self) -> FileSet:
        """All live files, with every column of `ADD_SCHEMA`; kept for the next call.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        return await self.replayed(lambda replay: replay.files())

    async def about_files(self) -> int:
        """How many live files there are, about, without a look at them.

        A checksum tells, where there is one; else what the checkpoint says of its size.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        if self.checksum.counted is not None:
            return self.checksum.counted.num_files

        async def about(replay: VersionReplay) -> int:
            return replay.about_files

        return await self.replayed(about)

    @property
    def counted(self) -> VersionChecksum | None:
        """What is counted of this very version; None where no checksum tells."""
        return self.checksum.counted if self.checksum.applied == len(self.newer) else None

    async def known_file_count(self) -> int | None:
        """How many live files there are, where that can be told without reading more of the log.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        if self.files_loaded:
            return (await self.files()).num_files
        return None if self.counted is None else self.counted.num_files

    async def files_matching(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> FileSet:
        """The live files that `skipping` keeps, with the named columns of `ADD_SCHEMA`.

        Where all files are at hand, or soon are, they are used; else no more is read than needed.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        return await self.replayed(lambda replay: replay.files_matching(skipping, columns))

    async def file_batches(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> AsyncGenerator[pa.Table, None]:
        """The live files that `skipping` keeps, piece by piece, in the memory of a few row groups.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        replay = await self._replay()
        async with aclosing(replay.file_batches(skipping, columns)) as batches:
            async for table in batches:
                yield table

    async def tombstones(self) -> pa.Table:
        """The removed files that the log still names, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        return await self.replayed(lambda replay: replay.tombstones())

    async def tombstone_batches(self) -> AsyncGenerator[pa.Table, None]:
        """The removed files that the log still names, piece by piece, as `file_batches`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        replay = await self._replay()
        async with aclosing(replay.tombstone_batches()) as batches:
            async for table in batches:
                yield table

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        """The latest `txn` of every application.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        return await self.replayed(lambda replay: replay.set_transactions())

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The configuration of every domain that is not removed.

        A checksum tells of them, where the table was opened by one and no more has been read yet.

        Raises:
            InvalidTableError: a checkpoint is damaged, and no earlier one helps.
        """
        counted = self.checksum.counted
        replayed = counted is None or self._shared.held is not None
        recorded = None if counted is None or replayed else counted.domain_metadata
        if recorded is None:
            return await self.replayed(lambda replay: replay.domain_metadata())
        found = {domain.domain: domain for domain in recorded}
        for batch in self.newer[self.checksum.applied :]:
            found.update({domain.domain: domain for _, domain in batch.domain_metadata})
        return {name: domain for name, domain in found.items() if not domain.removed}

    def advance(self, commits: Sequence[Commit]) -> LogState:
        """The state after newer commits, which follow this version without a gap. No I/O.

        Raises:
            MissingCommitError: the commits do not follow this version.
        """
        if not commits:
            return self
        version, timestamp_ms = self.version, self.timestamp_ms
        protocol, metadata = self.protocol, self.metadata
        for commit in commits:
            if commit.version != version + 1:
                raise MissingCommitError(
                    f"{self.root}: the commit of version {version + 1} is missing: the log "
                    f"goes on with version {commit.version}; restore the file from a backup"
                )
            version = commit.version
            protocol = commit.protocol or protocol
            metadata = commit.metadata or metadata
            timestamp_ms = timestamp_ms if commit.timestamp_ms is None else commit.timestamp_ms
        newer = (*self.newer, *(commit.actions for commit in commits))
        replay = self._learnt.replay
        carried = None if replay is None else replay.advanced(newer)
        return LogState(
            self.store,
            version,
            protocol,
            metadata,
            timestamp_ms,
            VersionMark.of_commit(version, commits[-1].info, commits[-1].modified_ms),
            self._shared,
            newer,
            _Learnt(carried, self.checksum.advanced()),
        )

    def at(self, version: int) -> LogState | None:
        """The state of an earlier version, as far as the commits at hand tell of it. No I/O.

        None where they do not: it is not after the segment, something later has changed protocol
        or metadata, or its commit does not say when it was made.
        """
        count = version - self._shared.segment.version
        newer, later = self.newer[:count], self.newer[count:]
        if count <= 0 or len(newer) < count or newer[-1].versions != (version,):
            return None
        info = newer[-1].commit_infos.get(version)
        if info is None or info.in_commit_timestamp is None:
            return None
        if any(batch.protocols or batch.metadata for batch in later):
            return None
        known = self.checksum
        return LogState(
            self.store,
            version,
            self.protocol,
            self.metadata,
            info.in_commit_timestamp,
            VersionMark.of_commit(version, info, None),
            self._shared,
            newer,
            _Learnt(checksum=known.advanced() if known.applied <= count else ChecksumRecord()),
        )


def commit_timestamp(info: CommitInfo | None, modified_ms: int) -> int:
    """When a commit was made, by its provenance where that says so."""
    if info is not None and info.in_commit_timestamp is not None:
        return info.in_commit_timestamp
    return modified_ms
