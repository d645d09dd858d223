"""JSON commits, read many at a time and decoded in worker threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import MissingCommitError, ObjectNotFoundError
from adelta.kernel.actions.json import VERSION_COLUMN, ActionBatch, decode_commits
from adelta.kernel.log_path import commit_path

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
    adds: pa.Table
    removes: pa.Table
    cdc: pa.Table
    batch: ActionBatch = field(repr=False)
    timestamp_ms: int | None = None


def decode_commit(version: int, data: bytes, timestamp_ms: int | None = None) -> DecodedCommit:
    """The commit file of `version` decoded.

    Raises:
        InvalidTableError: the file is damaged.
    """
    batch = decode_commits([(version, data)])
    protocols, metadata = batch.protocols, batch.metadata
    return DecodedCommit(
        version=version,
        commit_info=batch.commit_infos.get(version),
        protocol=protocols[-1][1] if protocols else None,
        metadata=metadata[-1][1] if metadata else None,
        set_transactions=tuple(txn for _, txn in batch.set_transactions),
        domain_metadata=tuple(domain for _, domain in batch.domain_metadata),
        adds=batch.adds.drop_columns([VERSION_COLUMN]),
        removes=batch.removes.drop_columns([VERSION_COLUMN]),
        cdc=batch.cdc.drop_columns([VERSION_COLUMN]),
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
    data = await store.get(commit_path(version))
    if len(data) < _INLINE_BYTES:
        return decode_commit(version, data, timestamp_ms)
    return await in_thread(decode_commit, version, data, timestamp_ms)


async def read_commits(store: ObjectStore, versions: Sequence[int]) -> list[DecodedCommit]:
    """The commits of `versions`, fetched concurrently.

    Raises:
        MissingCommitError: one of them is not there.
        InvalidTableError: a file is damaged.
    """

    async def read(chunk: list[int]) -> list[DecodedCommit]:
        pairs = list(zip(chunk, await _fetch(store, chunk), strict=True))
        return await in_thread(lambda: [decode_commit(*pair) for pair in pairs])

    chunks = _chunks(versions, [0] * len(versions))
    return [c for commits in await map_concurrent(read, chunks, limit=_BATCHES) for c in commits]


async def read_action_batches(
    store: ObjectStore, commits: Sequence[tuple[int, int]]
) -> list[ActionBatch]:
    """The commits, given as (version, size in bytes) in ascending order, as few large batches.

    Raises:
        MissingCommitError: one of them is not there.
        InvalidTableError: a file is damaged.
    """

    async def read(chunk: list[int]) -> ActionBatch:
        pairs = list(zip(chunk, await _fetch(store, chunk), strict=True))
        if sum(len(data) for _, data in pairs) < _INLINE_BYTES:
            return decode_commits(pairs)
        return await in_thread(decode_commits, pairs)

    chunks = _chunks([version for version, _ in commits], [size for _, size in commits])
    return await map_concurrent(read, chunks, limit=_BATCHES)


async def _fetch(store: ObjectStore, versions: Sequence[int]) -> list[bytes]:
    try:
        return await store.get_many([commit_path(version) for version in versions])
    except ObjectNotFoundError as error:
        raise MissingCommitError(
            f"a commit of the versions {versions[0]} to {versions[-1]} was listed and is gone "
            f"({error}); if the log was cleaned up meanwhile, open the table again"
        ) from error


def _chunks(versions: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    chunk: list[int] = []
    held = 0
    for version, size in zip(versions, sizes, strict=True):
        if chunk and (len(chunk) >= _BATCH_COMMITS or held + size > _BATCH_BYTES):
            yield chunk
            chunk, held = [], 0
        chunk.append(version)
        held += size
    if chunk:
        yield chunk
