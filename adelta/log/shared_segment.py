"""SharedSegment: what of the log the states of several versions share, so that it is read once.

It has a single reference, to the replay of the segment in use, and whoever reads holds on to the
replay that it began with. Giving up a damaged checkpoint puts another replay in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from adelta.errors import ChecksumMismatchError, InvalidTableError
from adelta.kernel.log_path import checksum_path
from adelta.log.opened_segment import open_earlier, open_version
from adelta.log.segment_replay import SegmentReplay

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.log_segment import LogSegment
    from adelta.log.opened_segment import OpenedSegment
    from adelta.storage.object_store import ObjectStore

__all__ = ["SharedSegment"]


class SharedSegment:
    """The log up to the version of `segment`. Safe to share between the tasks of one loop.

    `protocol` and `metadata` are the version's as the table was opened by them: whatever segment is
    read, it has to say the same.
    """

    def __init__(
        self, store: ObjectStore, segment: LogSegment, protocol: Protocol, metadata: Metadata
    ) -> None:
        self._store = store
        self._planned = segment
        self._protocol = protocol
        self._metadata = metadata
        self._lock = anyio.Lock()
        self._held: SegmentReplay | None = None
        self._contradicted = False

    @classmethod
    def of_opened(cls, store: ObjectStore, opened: OpenedSegment) -> SharedSegment:
        """The log up to the version of a segment that has been read."""
        base = cls(store, opened.segment, opened.protocol, opened.metadata)
        base._held = SegmentReplay(opened, store.uri)
        return base

    @property
    def segment(self) -> LogSegment:
        """The files of the log that are read."""
        return self._planned if self._held is None else self._held.opened.segment

    @property
    def held(self) -> SegmentReplay | None:
        """The replay in use, where the segment has been read."""
        return self._held

    async def replay(self) -> SegmentReplay:
        """The replay in use; the segment is read where it has not been.

        Raises:
            ChecksumMismatchError: the checksum that the table was opened by disagrees with the log.
            InvalidTableError: the log is damaged and no earlier checkpoint helps.
        """
        async with self._lock:
            if self._held is None:
                opened = await open_version(self._store, self._planned)
                self._held = SegmentReplay(opened, self._store.uri)
                self._contradicted = not self._agrees(opened)
            if self._contradicted:
                raise ChecksumMismatchError(
                    f"{self._store.uri}/{checksum_path(self._planned.version)} states another "
                    "protocol or schema than the log; delete it, and open the table again"
                )
            return self._held

    async def give_up_checkpoint(self, damaged: SegmentReplay, cause: InvalidTableError) -> None:
        """Go on with an earlier checkpoint than that of `damaged`.

        Where another task has done so already, there is nothing to do.

        Raises:
            InvalidTableError: `cause`, where no earlier one helps.
        """
        async with self._lock:
            if self._held is not damaged:
                return
            given_up = damaged.opened.segment.checkpoint
            if given_up is None:
                raise cause
            unusable = damaged.opened.passed_over | {file.path for file in given_up.files}
            opened = await open_earlier(self._store, self._planned.version, unusable, cause)
            if not self._agrees(opened):
                raise InvalidTableError(
                    f"{self._store.uri}/{given_up.files[0].path} is damaged, and states another "
                    "protocol or schema than the log before it; delete it, and open the table again"
                ) from cause
            self._held = SegmentReplay(opened, self._store.uri)

    def _agrees(self, opened: OpenedSegment) -> bool:
        same = opened.protocol == self._protocol
        return same and _essence(opened.metadata) == _essence(self._metadata)


def _essence(metadata: Metadata) -> tuple[object, ...]:
    """What of the metadata decides how a table is read."""
    return metadata.schema, metadata.partition_columns, dict(metadata.configuration)
