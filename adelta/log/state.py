"""LogState: one version of a table; the heavy parts are read when first asked for.

Opening reads the hint, one listing, the commits after the checkpoint, and of the checkpoint the
protocol and metadata alone. A later state is made from an earlier one by `advance`, without reading
again what has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa

from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import (
    InvalidTableError,
    MissingCommitError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.actions.file_actions import ADD_SCHEMA
from adelta.kernel.file_set import FileSet
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path
from adelta.kernel.log_segment import CheckpointFiles, LogSegment, plan_log_segment
from adelta.kernel.replay import ReconciledTail, reconcile, survivors
from adelta.kernel.table_features import IN_COMMIT_TIMESTAMPS_ENABLED
from adelta.log.checkpoint_reader import CheckpointReader, FilePart
from adelta.log.commit_reader import DecodedCommit, decode_commit, read_action_batches, read_commit
from adelta.log.listing import LogListing, list_log, list_log_from_hint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.storage.object_store import ObjectStore

__all__ = ["LogState", "load_state", "refresh_state"]

_MAX_TAIL = 1000  # commits carried along before a newer checkpoint is taken instead


@dataclass(slots=True)
class _Loaded:
    """What has been read so far; every field is written once, under the lock."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    reader: CheckpointReader | None = None
    files: FileSet | None = None
    transactions: dict[str, SetTransaction] | None = None
    domains: dict[str, DomainMetadata] | None = None


class LogState:
    """An immutable view of one version. Safe to share between the tasks of one loop.

    Attributes:
        store: the store of the table's root.
        segment: the files of the log that make the version.
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
        batches: tuple[ActionBatch, ...],
        reader: CheckpointReader | None = None,
    ) -> None:
        self.store = store
        self.segment = segment
        self.protocol = protocol
        self.metadata = metadata
        self.timestamp_ms = timestamp_ms
        self._batches = batches
        self._loaded = _Loaded(reader=reader)
        self._carried: tuple[FileSet, int] | None = None  # live files after so many batches

    @property
    def version(self) -> int:
        """The version."""
        return self.segment.version

    @property
    def root(self) -> str:
        """The table's URI."""
        return self.store.uri

    @property
    def commit_info(self) -> CommitInfo | None:
        """The provenance of this version, where its commit has been read."""
        return self._batches[-1].commit_infos.get(self.version) if self._batches else None

    @property
    def files_loaded(self) -> bool:
        """Whether `files` answers without reading."""
        return self._loaded.files is not None or self._carried is not None

    async def files(self) -> FileSet:
        """The live files, with every column of `ADD_SCHEMA`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        async with self._loaded.lock:
            if self._loaded.files is None:
                self._loaded.files = await self._load_files()
            return self._loaded.files

    async def _load_files(self) -> FileSet:
        if self._carried is not None:
            files, applied = self._carried
            tail = await self._reconciled(self._batches[applied:])
            if len(tail.keys) == 0:
                return files
            mask = await in_thread(survivors, files.table, tail, self.root)
            kept = files if mask is None else FileSet(files.table.filter(mask), self.root)
            return kept.union(FileSet(tail.adds, self.root))
        tail = await self._reconciled(self._batches)
        tables = [tail.adds]
        if self.segment.checkpoint is not None:
            parts = await (await self._checkpoint_reader()).parts()

            async def read(part: FilePart) -> pa.Table:
                table = await part.adds(ADD_SCHEMA.names)
                mask = await in_thread(survivors, table, tail, self.root)
                return table if mask is None else table.filter(mask)

            tables += await map_concurrent(read, parts, limit=self.store.concurrency)
        return FileSet(pa.concat_tables([t for t in tables if t.num_rows] or tables[:1]), self.root)

    async def _reconciled(self, batches: Sequence[ActionBatch]) -> ReconciledTail:
        if not any(batch.adds.num_rows or batch.removes.num_rows for batch in batches):
            return ReconciledTail.nothing()
        return await in_thread(reconcile, batches, self.root)

    async def _checkpoint_reader(self) -> CheckpointReader:
        if self._loaded.reader is None:
            if self.segment.checkpoint is None:
                raise InvalidTableError(f"{self.root}: version {self.version} has no checkpoint")
            self._loaded.reader = await CheckpointReader.open(self.store, self.segment.checkpoint)
        return self._loaded.reader

    async def tombstones(self) -> pa.Table:
        """The removed files that the log still names, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        async with self._loaded.lock:
            tail = await self._reconciled(self._batches)
            tables = [tail.tombstones]
            if self.segment.checkpoint is not None:
                parts = await (await self._checkpoint_reader()).parts()

                async def read(part: FilePart) -> pa.Table:
                    table = await part.removes()
                    mask = await in_thread(survivors, table, tail, self.root)
                    return table if mask is None else table.filter(mask)

                tables += await map_concurrent(read, parts, limit=self.store.concurrency)
            return pa.concat_tables(tables)

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        """The latest `txn` of every application.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        async with self._loaded.lock:
            if self._loaded.transactions is None:
                found: dict[str, SetTransaction] = {}
                if self.segment.checkpoint is not None:
                    reader = await self._checkpoint_reader()
                    found = {txn.app_id: txn for txn in await reader.set_transactions()}
                for batch in self._batches:
                    found.update({txn.app_id: txn for _, txn in batch.set_transactions})
                self._loaded.transactions = found
            return self._loaded.transactions

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The configuration of every domain that is not removed.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        async with self._loaded.lock:
            if self._loaded.domains is None:
                found: dict[str, DomainMetadata] = {}
                if self.segment.checkpoint is not None:
                    reader = await self._checkpoint_reader()
                    found = {domain.domain: domain for domain in await reader.domain_metadata()}
                for batch in self._batches:
                    found.update({domain.domain: domain for _, domain in batch.domain_metadata})
                self._loaded.domains = {k: v for k, v in found.items() if not v.removed}
            return self._loaded.domains

    def advance(self, commits: Sequence[DecodedCommit]) -> LogState:
        """The state after newer commits, which follow this version without a gap. No I/O.

        Raises:
            MissingCommitError: the commits do not follow this version.
        """
        if not commits:
            return self
        protocol, metadata, timestamp = self.protocol, self.metadata, self.timestamp_ms
        for commit in commits:
            protocol = commit.protocol or protocol
            metadata = commit.metadata or metadata
            timestamp = _commit_timestamp(commit.commit_info, commit.timestamp_ms or timestamp)
        paths = [LogPath(commit_path(c.version), LogFileKind.COMMIT, c.version) for c in commits]
        segment = LogSegment(
            commits[-1].version,
            self.segment.checkpoint,
            (*self.segment.commits, *paths),
            last_commit=paths[-1],
        )
        later = LogState(
            self.store,
            segment,
            protocol,
            metadata,
            timestamp_ms=timestamp,
            batches=(*self._batches, *(c.batch for c in commits)),
            reader=self._loaded.reader,
        )
        loaded = self._loaded
        later._carried = self._carried
        if loaded.files is not None:
            later._carried = (loaded.files, len(self._batches))
        if loaded.transactions is not None:
            newer = {txn.app_id: txn for c in commits for txn in c.set_transactions}
            later._loaded.transactions = loaded.transactions | newer
        if loaded.domains is not None:
            domains = loaded.domains | {d.domain: d for c in commits for d in c.domain_metadata}
            later._loaded.domains = {k: v for k, v in domains.items() if not v.removed}
        return later


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
    listing = await list_log_from_hint(store)
    if version is not None and version < listing.start:
        listing = LogListing(await list_log(store, end=version))
    if not any(f.kind is LogFileKind.COMMIT or f.is_checkpoint for f in listing.files):
        raise TableNotFoundError(
            f"there is no Delta table at {store.uri}: its _delta_log has no commit; check the "
            "address, or create the table"
        )
    unusable: frozenset[str] = frozenset()
    first_failure: InvalidTableError | None = None
    while True:
        try:
            segment = plan_log_segment(listing.files, version=version, unusable=unusable)
        except (MissingCommitError, VersionNotFoundError) as error:
            raise first_failure or _named(error, store) from error
        try:
            return await _read_state(store, segment)
        except _CheckpointDamaged as error:
            first_failure = first_failure or error.cause
            unusable |= error.paths
            if listing.start > 0:
                listing = LogListing(await list_log(store, end=version))


def _named(error: InvalidTableError | VersionNotFoundError, store: ObjectStore) -> Exception:
    return type(error)(f"{store.uri}: {error}")


class _CheckpointDamaged(Exception):
    """A checkpoint could not be used; an earlier one may."""

    def __init__(self, checkpoint: CheckpointFiles, cause: InvalidTableError) -> None:
        super().__init__(str(cause))
        self.paths = frozenset(file.path for file in checkpoint.files)
        self.cause = cause


async def _read_state(store: ObjectStore, segment: LogSegment) -> LogState:
    reader: CheckpointReader | None = None
    based: tuple[Protocol | None, Metadata | None] = (None, None)
    batches: list[ActionBatch] = []

    async def read_checkpoint() -> None:
        nonlocal reader, based
        if segment.checkpoint is None:
            return
        try:
            reader = await CheckpointReader.open(store, segment.checkpoint)
            based = await reader.protocol_and_metadata()
        except InvalidTableError as error:
            raise _CheckpointDamaged(segment.checkpoint, error) from error

    async def read_tail() -> None:
        batches.extend(
            await read_action_batches(store, [(c.version, c.size) for c in segment.commits])
        )

    await map_concurrent(_call, (read_checkpoint, read_tail), limit=2)
    protocol, metadata = based
    for batch in batches:
        protocol = batch.protocols[-1][1] if batch.protocols else protocol
        metadata = batch.metadata[-1][1] if batch.metadata else metadata
    if protocol is None or metadata is None:
        what = "protocol" if protocol is None else "metaData"
        failure = InvalidTableError(
            f"{store.uri}: no {what} action up to version {segment.version}; the log is damaged"
        )
        if segment.checkpoint is not None:
            raise _CheckpointDamaged(segment.checkpoint, failure)
        raise failure
    timestamp = await _timestamp(store, segment, batches, metadata)
    return LogState(
        store,
        segment,
        protocol,
        metadata,
        timestamp_ms=timestamp,
        batches=tuple(batches),
        reader=reader,
    )


async def _timestamp(
    store: ObjectStore, segment: LogSegment, batches: Sequence[ActionBatch], metadata: Metadata
) -> int:
    """When the version was committed; its commit is read where only that can tell."""
    commit = segment.last_commit
    if commit is None:
        assert segment.checkpoint is not None
        return segment.checkpoint.files[0].last_modified_ms
    if segment.commits:
        info = batches[-1].commit_infos.get(segment.version)
    elif IN_COMMIT_TIMESTAMPS_ENABLED.read(metadata.configuration):
        info = (await read_commit(store, segment.version)).commit_info
    else:
        info = None
    return _commit_timestamp(info, commit.last_modified_ms)


async def _call(fetch: Callable[[], Awaitable[None]]) -> None:
    await fetch()


async def refresh_state(state: LogState) -> LogState:
    """The latest state, reading only commits after `state`, which it is if there are none.

    Raises:
        InvalidTableError: a new commit is damaged or missing.
        TableNotFoundError: the table is gone.
    """
    store = state.store
    files = await list_log(store, state.version + 1)
    commits = [f for f in files if f.kind is LogFileKind.COMMIT]
    newest = max((f.version for f in files if f.is_checkpoint), default=-1)
    if not commits:
        return state if newest <= state.version else await load_state(store)
    carried = len(state.segment.commits) + len(commits)
    if commits[0].version != state.version + 1 or (carried > _MAX_TAIL and newest > state.version):
        return await load_state(store)
    data = await store.get_many([f.path for f in commits])
    decoded = await in_thread(
        lambda: [
            decode_commit(f.version, body, f.last_modified_ms)
            for f, body in zip(commits, data, strict=True)
        ]
    )
    return state.advance(decoded)
