"""JSON commits, read many at a time and decoded in worker threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import MissingCommitError, ObjectNotFoundError
from adelta.kernel.actions.json import VERSION_COLUMN, ActionBatch, decode_actions, decode_commits
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.storage.object_store import ObjectStore

__all__ = ["DecodedCommit", "decode_commit", "read_action_batches", "read_commit", "read_commits"]

_BATCHES = 2  # one is decoded while the next is fetched
_BATCH_COMMITS = 512
_BATCH_BYTES = 16 * 1024 * 1024
_LARGE = 4 * 1024 * 1024  # bytes of a commit
_INLINE_BYTES = 16 * 1024  # decoding less than this costs less than a thread's hop


@dataclass(frozen=True, slots=True)
class DecodedCommit:
    """One commit. `adds`, `removes` and `cdc` are Arrow tables as in `ActionBatch`.

    `timestamp_ms` is the commit file's modification time, where it is known.
    """

    version: int
    commit_info: CommitInfo | None
    protocol: Protocol | None
    metadata: Metadata | None
    set_transactions: tuple[SetTransaction, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    batch: ActionBatch = field(repr=False)
    timestamp_ms: int | None = None

    @property
    def adds(self) -> pa.Table:
        """The files added."""
        return self.batch.adds.drop_columns([VERSION_COLUMN])

    @property
    def removes(self) -> pa.Table:
        """The files removed."""
        return self.batch.removes.drop_columns([VERSION_COLUMN])

    @property
    def cdc(self) -> pa.Table:
        """The files of row changes."""
        return self.batch.cdc.drop_columns([VERSION_COLUMN])


def decode_commit(version: int, data: bytes, timestamp_ms: int | None = None) -> DecodedCommit:
    """The commit file of `version` decoded.

    Raises:
        InvalidTableError: the file is damaged.
    """
    batch = decode_commits([(version, data)], lazily=True)
    protocols, metadata = batch.protocols, batch.metadata
    return DecodedCommit(
        version=version,
        commit_info=batch.commit_infos.get(version),
        protocol=protocols[-1][1] if protocols else None,
        metadata=metadata[-1][1] if metadata else None,
        set_transactions=tuple(txn for _, txn in batch.set_transactions),
        domain_metadata=tuple(domain for _, domain in batch.domain_metadata),
        batch=batch,
        timestamp_ms=timestamp_ms,
    )


async def read_commit(
    store: ObjectStore, version: int, timestamp_ms: int | None = None
) -> DecodedCommit:
    """The commit of `version`.

    Raises:
        ObjectNotFoundError: there is no such commit.
        InvalidTableError: its file is damaged.
    """
    data, meta = await store.get_with_meta(commit_path(version))
    timestamp_ms = meta.last_modified_ms if timestamp_ms is None else timestamp_ms
    if len(data) < _INLINE_BYTES:
        return decode_commit(version, data, timestamp_ms)
    return await in_thread(decode_commit, version, data, timestamp_ms)


async def read_commits(store: ObjectStore, versions: Sequence[int]) -> list[DecodedCommit]:
    """The commits of `versions`, fetched concurrently.

    Raises:
        MissingCommitError: one of them is not there.
        InvalidTableError: a file is damaged.
    """

    async def read(chunk: list[LogPath]) -> list[DecodedCommit]:
        data = await _fetch(store, chunk)
        pairs = list(zip(chunk, data, strict=True))
        return await in_thread(lambda: [decode_commit(file.version, body) for file, body in pairs])

    files = [LogPath(commit_path(v), LogFileKind.COMMIT, v) for v in versions]
    chunks = _chunks(files)
    return [c for commits in await map_concurrent(read, chunks, limit=_BATCHES) for c in commits]


async def read_action_batches(store: ObjectStore, files: Sequence[LogPath]) -> list[ActionBatch]:
    """Commits and log compactions, in ascending order of version, as few large batches.

    Raises:
        MissingCommitError: one of them is not there.
        InvalidTableError: a file is damaged.
    """
    one_decodes = anyio.Lock()  # two would fight for the interpreter's lock, and keep the loop out

    async def read(chunk: list[LogPath]) -> list[ActionBatch]:
        data = await _fetch(store, chunk)
        size = sum(map(len, data))
        if size < _INLINE_BYTES:
            return _decode(chunk, data)
        if size > _LARGE * len(chunk):  # mostly decoded without that lock
            return await in_thread(_decode, chunk, data)
        async with one_decodes:
            return await in_thread(_decode, chunk, data)

    batches = await map_concurrent(read, _chunks(files), limit=_BATCHES)
    return [batch for several in batches for batch in several]


def _decode(files: Sequence[LogPath], data: Sequence[bytes]) -> list[ActionBatch]:
    """Runs of commits as one batch each, every compaction as one of its own."""
    batches = []
    pairs = zip(files, data, strict=True)
    for kind, run in groupby(pairs, key=lambda pair: pair[0].kind):
        if kind is LogFileKind.COMMIT:
            batches.append(
                decode_commits([(file.version, body) for file, body in run], lazily=True)
            )
        else:
            batches += [decode_actions(body, file.version, file.path) for file, body in run]
    return batches


async def _fetch(store: ObjectStore, files: Sequence[LogPath]) -> list[bytes]:
    try:
        return await store.get_many([file.path for file in files])
    except ObjectNotFoundError as error:
        raise MissingCommitError(
            f"{store.uri}: a commit of the versions {files[0].version} to {files[-1].version} was "
            f"listed and is gone ({error}); if the log was cleaned up meanwhile, open the table "
            "again"
        ) from error


def _chunks(files: Sequence[LogPath]) -> Iterator[list[LogPath]]:
    chunk: list[LogPath] = []
    held = 0
    for file in files:
        if chunk and (len(chunk) >= _BATCH_COMMITS or held + file.size > _BATCH_BYTES):
            yield chunk
            chunk, held = [], 0
        chunk.append(file)
        held += file.size
    if chunk:
        yield chunk
