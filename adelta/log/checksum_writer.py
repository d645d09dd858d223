"""Writes version checksums: made of the one before and what has been committed since.

None is written that is not exact. Where nothing tells what the table held before, and finding out
would mean reading it, the version goes without; the next checkpoint, which sees every file, counts
anew.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.errors import ObjectExistsError
from adelta.kernel import checksum
from adelta.kernel.log_path import checksum_path
from adelta.kernel.table_properties import TableProperties
from adelta.log.checksum_io import usable_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.checksum import VersionChecksum
    from adelta.log.state import LogState

__all__ = ["count_files", "empty_checksum", "known_checksum", "remember", "write_checksum"]

_AT_HAND = 16 << 20  # bytes of commits read without a checkpoint: counting their files is quick
_INLINE_COMMITS = 4  # counting these costs less than a thread's hop


async def write_checksum(state: LogState) -> bool:
    """Write the checksum of the state's version; whether one is there now.

    A checksum that another writer has put there stays. A table may be without them, by its property
    `adelta.writeChecksum`.

    Raises:
        StorageError: the store refused or failed.
    """
    if not TableProperties.parse(state.metadata.configuration).write_checksum:
        return False
    known = None if state.has_checksum else await known_checksum(state)
    if known is None:
        return state.has_checksum
    with suppress(ObjectExistsError):  # never overwritten: it may have been read
        await state.store.put_if_absent(checksum_path(state.version), checksum.encode(known))
    state.has_checksum = True
    return True


async def known_checksum(state: LogState) -> VersionChecksum | None:
    """What the state's version holds, where that takes no reading of the table.

    One small request is made where the log has a checksum that has not been read.

    Raises:
        StorageError: the store refused or failed.
    """
    later = None if state.count_lost else await _carried_on(state)
    if later is not None and (later.protocol, later.metadata) != (state.protocol, state.metadata):
        later = None  # somebody's checksum was wrong; what is opened by one has to be right
    if later is None:  # a commit did not say enough, but the files may be at hand
        state.count_lost = True
        if not state.files_loaded:
            return None
        later = await count_files(state)
    remember(state, later)
    return later


def remember(state: LogState, found: VersionChecksum) -> None:
    """Take note of the checksum of a state, for those of later versions."""
    state.counted, state.count_lost = (found, len(state.newer)), False


async def _carried_on(state: LogState) -> VersionChecksum | None:
    start = state.counted or await _start(state)
    if start is None:
        return None
    found, applied = start
    commits = state.newer[applied:]
    few = len(commits) <= _INLINE_COMMITS and all(c.few_adds is not None for c in commits)
    return _after(found, commits) if few else await in_thread(_after, found, commits)


def _after(found: VersionChecksum, commits: Sequence[ActionBatch]) -> VersionChecksum | None:
    later: VersionChecksum | None = found
    for commit in commits:
        later = None if later is None else checksum.advanced(later, commit)
    return later


async def _start(state: LogState) -> tuple[VersionChecksum, int] | None:
    held = state.held
    whole = held is not None and held.reader is None
    if state.files_loaded or (whole and sum(c.size for c in state.segment.commits) < _AT_HAND):
        return await count_files(state), len(state.newer)
    if state.segment.checksum is None:
        return None
    stated = await usable_checksum(state.store, state.segment.version)
    return None if stated is None else (stated, 0)


async def count_files(state: LogState) -> VersionChecksum:
    """The checksum of a state, of its files themselves.

    Raises:
        InvalidTableError: a checkpoint is damaged.
    """
    files = (await state.files_matching(columns=("size", "deletion_vector"))).table
    return await in_thread(
        checksum.with_files, await empty_checksum(state), checksum.FileFacts.of_table(files)
    )


async def empty_checksum(state: LogState) -> VersionChecksum:
    """The checksum of a state as if it had no files.

    Raises:
        InvalidTableError: a checkpoint is damaged.
    """
    transactions = frozenset((await state.set_transactions()).values())
    domains = frozenset((await state.domain_metadata()).values())
    retention = TableProperties.set_transaction_retention_ms.text(state.metadata.configuration)
    few = len(transactions) <= checksum.MOST_TRANSACTIONS and retention is None
    last = state.newer[-1] if state.newer else None
    info = last.commit_infos.get(state.version) if last is not None else None
    return checksum.nothing(
        state.protocol,
        state.metadata,
        set_transactions=transactions if few else None,
        domain_metadata=domains if len(domains) <= checksum.MOST_DOMAINS else None,
        in_commit_timestamp=state.in_commit_timestamp_ms,
        transaction_id=info.txn_id if info else None,
        size_boundaries=checksum.SIZE_BOUNDARIES,
    )
