"""Writes version checksums: made of the one before and what has been committed since.

None is written that is not exact. Where nothing tells what the table held before, and finding out
would mean reading it, the version goes without; the next checkpoint, which sees every file, counts
anew.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from adelta._concurrency import in_thread
from adelta.errors import ObjectExistsError
from adelta.kernel.checksum.advance import MOST_DOMAINS, MOST_TRANSACTIONS, advanced
from adelta.kernel.checksum.all_files import MOST_FILES, lists_files
from adelta.kernel.checksum.file_facts import SIZE_BOUNDARIES, FileFacts, with_files
from adelta.kernel.checksum.json import encode
from adelta.kernel.checksum.summary import nothing
from adelta.kernel.log_path import checksum_path
from adelta.kernel.table_properties import TableProperties
from adelta.log.checksum_io import usable_checksum
from adelta.log.checksum_record import ChecksumRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.log.opened_segment import OpenedSegment
    from adelta.log.state import LogState
    from adelta.log.version_replay import VersionReplay

__all__ = [
    "NonFiles",
    "counted_by",
    "empty_checksum",
    "known_checksum",
    "lists_files_after_count",
    "write_checksum",
]

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
    known = None if state.checksum.written else await known_checksum(state)
    if known is None:
        return state.checksum.written
    with suppress(ObjectExistsError):  # never overwritten: it may have been read
        await state.store.put_if_absent(checksum_path(state.version), encode(known))
    state.note_checksum(replace(state.checksum, written=True))
    return True


async def known_checksum(state: LogState) -> VersionChecksum | None:
    """What the state's version holds, where that takes no reading of the table.

    One small request is made where the log has a checksum that has not been read.

    Raises:
        StorageError: the store refused or failed.
    """
    later = None if state.checksum.lost else await _carried_on(state)
    if later is not None and _describes(later, state):
        state.note_checksum(later)
        return later.counted
    # A commit did not say enough, or somebody's checksum was wrong; but the files may be at hand.
    state.note_checksum(replace(state.checksum, lost=True))
    if not state.files_loaded:
        return None
    state.note_checksum(await state.replayed(partial(_count_files, state)))
    return state.checksum.counted


async def lists_files_after_count(state: LogState) -> bool:
    """Whether the checksum of the state would list the files only after these were counted.

    The list is unknown where an earlier checksum has none, although the table is small. After a
    change of metadata the checksum is written without the list.

    Raises:
        StorageError: the store refused or failed.
    """
    if state.checksum.written or not state.newer or state.newer[-1].metadata:
        return False
    known = await known_checksum(state)
    return known is not None and _may_list_files(known) and known.all_files is None


class NonFiles(Protocol):
    """What a replay says besides files."""

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        """The latest `txn` of every application."""
        ...

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """Every domain that is not removed."""
        ...


def counted_by(
    found: VersionChecksum, state: LogState, source: OpenedSegment | None
) -> ChecksumRecord:
    """What is known of the checksum of a state, all files of which were counted in a segment."""
    written = state.checksum.written
    return ChecksumRecord(found, len(state.newer), source, written=written)


def _describes(record: ChecksumRecord, state: LogState) -> bool:
    """Whether there is a checksum of the state's protocol and metadata: it has to be right."""
    counted, stated = record.counted, (state.protocol, state.metadata)
    return counted is not None and (counted.protocol, counted.metadata) == stated


async def _carried_on(state: LogState) -> ChecksumRecord | None:
    start = state.checksum if state.checksum.counted is not None else await _start(state)
    if start is None or start.counted is None:
        return None
    commits = state.newer[start.applied :]
    few = len(commits) <= _INLINE_COMMITS and all(c.few_adds is not None for c in commits)
    count = partial(_after, start.counted, commits)
    found = count() if few else await in_thread(count)
    source = start.source
    if found is not None and commits and start.counted.all_files is None:
        found, source = await _with_listed_files(state, found, source)
    return ChecksumRecord(found, len(state.newer), source, written=state.checksum.written)


def _after(found: VersionChecksum, commits: Sequence[ActionBatch]) -> VersionChecksum | None:
    later: VersionChecksum | None = found
    for commit in commits:
        later = None if later is None else advanced(later, commit)
    return later


async def _start(state: LogState) -> ChecksumRecord | None:
    if _has_files_at_hand(state):
        return await state.replayed(partial(_count_files, state))
    if state.segment.checksum is None:
        return None
    stated = await usable_checksum(state.store, state.segment.version)
    return None if stated is None else ChecksumRecord(stated)


def _has_files_at_hand(state: LogState) -> bool:
    """Whether the live files are known without reading, or by replaying commits that are held."""
    held = state.held
    whole = held is not None and held.reader is None
    size = sum(commit.size for commit in state.segment.commits)
    return state.files_loaded or (whole and size < _AT_HAND)


def _may_list_files(checksum: VersionChecksum) -> bool:
    return checksum.num_files <= MOST_FILES and lists_files(checksum.metadata)


async def _with_listed_files(
    state: LogState, checksum: VersionChecksum, source: OpenedSegment | None
) -> tuple[VersionChecksum, OpenedSegment | None]:
    """The checksum with the list of files that it lacks, if that takes no reading.

    With it comes the segment that the checksum now depends on.
    """
    if checksum.all_files is not None or not _may_list_files(checksum):
        return checksum, source
    if not _has_files_at_hand(state):
        return checksum, source

    async def files_of(replay: VersionReplay) -> tuple[FileFacts, OpenedSegment]:
        return FileFacts.of_table((await replay.files()).table), replay.segment.opened

    files, opened = await state.replayed(files_of)
    counts = (len(files.sizes), int(files.sizes.sum()))
    if counts != (checksum.num_files, checksum.table_size_bytes):
        return checksum, source
    return replace(checksum, all_files=files.added_to({})), opened


async def _count_files(state: LogState, replay: VersionReplay) -> ChecksumRecord:
    facts = FileFacts.of_table((await replay.files()).table)
    found = await in_thread(with_files, await empty_checksum(state, replay), facts)
    return counted_by(found, state, replay.segment.opened)


async def empty_checksum(state: LogState, replay: NonFiles) -> VersionChecksum:
    """The checksum of a state as if it had no files.

    Raises:
        InvalidTableError: a checkpoint is damaged.
    """
    transactions = frozenset((await replay.set_transactions()).values())
    domains = frozenset((await replay.domain_metadata()).values())
    retention = TableProperties.set_transaction_retention_ms.text(state.metadata.configuration)
    few = len(transactions) <= MOST_TRANSACTIONS and retention is None
    last = state.newer[-1] if state.newer else None
    info = last.commit_infos.get(state.version) if last is not None else None
    empty = nothing(
        state.protocol,
        state.metadata,
        set_transactions=transactions if few else None,
        domain_metadata=domains if len(domains) <= MOST_DOMAINS else None,
        in_commit_timestamp=state.in_commit_timestamp_ms,
        transaction_id=info.txn_id if info else None,
        size_boundaries=SIZE_BOUNDARIES,
    )
    return empty if lists_files(state.metadata) else replace(empty, all_files=None)
