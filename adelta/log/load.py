"""Loading a state: the hint, a listing, and then no more of the log than opening a table needs.

That is the version's checksum, where a checkpoint would have to be read otherwise; without one the
commits after the checkpoint, and of the checkpoint the protocol and metadata alone.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import together
from adelta._secrets import without_secrets
from adelta.errors import (
    InvalidTableError,
    ObjectNotFoundError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.table_features import IN_COMMIT_TIMESTAMPS_ENABLED
from adelta.log.commit_provenance import read_commit_info
from adelta.log.commit_reader import read_commit
from adelta.log.listing import LogListing, list_log_back, list_log_from_hint
from adelta.log.opened_segment import open_version, plan_version
from adelta.log.ownership import FollowsOwner, followed
from adelta.log.state import LogState, commit_timestamp

if TYPE_CHECKING:
    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.kernel.log_segment import LogSegment
    from adelta.storage.object_store import ObjectStore

__all__ = ["load_state", "version_timestamp"]

_log = logging.getLogger("adelta.log")

_FEW_COMMITS = 8  # as fast to read as a checksum, and wanted later in any case


async def load_state(store: ObjectStore, *, version: int | None = None) -> LogState:
    """The state of `version`, the latest one by default.

    A checkpoint that turns out to be missing or damaged is passed over for an earlier one.

    Raises:
        TableNotFoundError: there is no log.
        VersionNotFoundError: the version does not exist, or is no longer kept.
        InvalidTableError: the log is damaged and no earlier checkpoint helps.
    """
    if not isinstance(store, FollowsOwner):
        return await _load(store, version)
    if version is None:
        state = await _load(store, None)
        return await followed(store, state, lambda _: _load(store, None))
    try:
        return await _load(store, version)
    except VersionNotFoundError:
        if store.is_followed:
            raise
    await load_state(store)  # the version may be known to the table's owner alone
    return await _load(store, version)


async def _load(store: ObjectStore, version: int | None) -> LogState:
    """The state, whatever is cleaned up between a listing and the reading of what was listed."""
    listing = await _listed(store, version)
    while True:
        try:
            return await _state_of(store, listing, version)
        except InvalidTableError:
            listed, listing = listing, await _listed(store, version)
            if {file.path for file in listed.files} <= {file.path for file in listing.files}:
                raise


async def _listed(store: ObjectStore, version: int | None) -> LogListing:
    if version is None:
        return await list_log_from_hint(store)
    return LogListing(await list_log_back(store, version))


async def _state_of(store: ObjectStore, listing: LogListing, version: int | None) -> LogState:
    if not any(f.kind is LogFileKind.COMMIT or f.is_checkpoint for f in listing.files):
        raise TableNotFoundError(
            f"there is no Delta table at {store.uri}: its _delta_log has no commit; check the "
            "address, or create the table"
        )
    segment = await plan_version(store, listing.files, version)
    _log_segment(store, segment)
    if segment.checksum is not None and (
        segment.checkpoint is not None or len(segment.commits) > _FEW_COMMITS
    ):
        state = await _state_by_checksum(store, segment)
        if state is not None:
            return state
    opened = await open_version(store, segment, listing.opened)
    timestamp = await version_timestamp(store, opened.segment, opened.info, opened.metadata)
    return LogState.of_opened(store, opened, timestamp_ms=timestamp)


def _log_segment(store: ObjectStore, segment: LogSegment) -> None:
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug(
            "%s: version %d is made of the checkpoint of %s, %d compactions and %d commits",
            without_secrets(store.uri),
            segment.version,
            "none" if segment.checkpoint is None else segment.checkpoint.version,
            len(segment.compactions),
            len(segment.commits),
        )


async def _state_by_checksum(store: ObjectStore, segment: LogSegment) -> LogState | None:
    """The state that the version's checksum states; commits and checkpoint are left for later.

    None where it has none that can be read, or that of another commit: a table that was here before
    may have left it.
    """
    from adelta.log.checksum_io import usable_checksum

    async def read_info() -> CommitInfo | None:
        if segment.last_commit is not None:
            with suppress(ObjectNotFoundError, InvalidTableError):
                return await read_commit_info(store, segment.version)
        return None

    read_checksum = partial(usable_checksum, store, segment.version)
    stated, info = await together(read_checksum, read_info)
    if stated is None or (info is not None and not _is_of(stated, info)):
        return None
    timestamp = stated.in_commit_timestamp
    if timestamp is None or not IN_COMMIT_TIMESTAMPS_ENABLED.read(stated.metadata.configuration):
        timestamp = await version_timestamp(store, segment, info, stated.metadata)
    return LogState.of_checksum(store, segment, stated, info, timestamp_ms=timestamp)


def _is_of(stated: VersionChecksum, info: CommitInfo) -> bool:
    """Whether a checksum may be that of the commit with this provenance."""
    return None in (stated.transaction_id, info.txn_id) or stated.transaction_id == info.txn_id


async def version_timestamp(
    store: ObjectStore, segment: LogSegment, info: CommitInfo | None, metadata: Metadata
) -> int:
    """When the version was committed; its commit is read where only that can tell."""
    commit = segment.last_commit
    if commit is None:
        assert segment.checkpoint is not None
        return segment.checkpoint.files[0].last_modified_ms
    if info is None and IN_COMMIT_TIMESTAMPS_ENABLED.read(metadata.configuration):
        info = (await read_commit(store, segment.version)).info
    return commit_timestamp(info, commit.last_modified_ms)
