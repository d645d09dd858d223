"""Loading a state: the hint, a listing, and then no more of the log than opening a table needs.

That is the version's checksum, where a checkpoint would have to be read otherwise; without one the
commits after the checkpoint, and of the checkpoint the protocol and metadata alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import TableNotFoundError
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.table_features import IN_COMMIT_TIMESTAMPS_ENABLED
from adelta.log.checksum_io import usable_checksum
from adelta.log.commit_reader import read_commit
from adelta.log.listing import LogListing, list_log_back, list_log_from_hint
from adelta.log.opened_segment import open_version, plan_version
from adelta.log.state import LogState, commit_timestamp

if TYPE_CHECKING:
    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.kernel.log_segment import LogSegment
    from adelta.storage.object_store import ObjectStore

__all__ = ["load_state", "version_timestamp"]

_FEW_COMMITS = 8  # as fast to read as a checksum, and wanted later in any case


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
    return LogState.of_opened(store, opened, timestamp_ms=timestamp)


async def _state_by_checksum(
    store: ObjectStore, segment: LogSegment, stated: VersionChecksum
) -> LogState:
    """The state that a checksum states; commits and checkpoint are left for later."""
    timestamp = stated.in_commit_timestamp
    if timestamp is None or not IN_COMMIT_TIMESTAMPS_ENABLED.read(stated.metadata.configuration):
        timestamp = await version_timestamp(store, segment, None, stated.metadata)
    return LogState.of_checksum(store, segment, stated, timestamp_ms=timestamp)


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
