"""VersionMark: by what a log is known again as the one that a state was made of.

Commits are never changed, so the commit of a state's version tells: where the table has been
dropped it is gone, and where it has been made anew another one is in its place, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, ObjectNotFoundError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.log_path import commit_path
from adelta.log.commit_provenance import read_commit_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.kernel.log_path import LogPath
    from adelta.kernel.log_segment import LogSegment
    from adelta.storage.object_store import ObjectStore

__all__ = ["VersionMark"]

_SECOND_MS = 1000
_NOTHING_SAID = CommitInfo()


@dataclass(frozen=True, slots=True)
class VersionMark:
    """The commit of `version`, or the checkpoint of it where the commit has been cleaned up.

    `info` is the commit's provenance, `size` and `modified_ms` are the file's, where that is known.
    A time alone proves nothing: a coordinator may put the file in place later, files are copied and
    restored, and some stores tell the time of a put in another way than that of a file.
    """

    version: int
    path: str
    info: CommitInfo | None = None
    size: int | None = None
    modified_ms: int | None = None

    @classmethod
    def of_segment(cls, segment: LogSegment, info: CommitInfo | None) -> VersionMark:
        """The mark of a segment's version; `info` is the provenance of it, where that is known."""
        file = segment.last_commit or (segment.commits[-1] if segment.commits else None)
        if file is None:
            assert segment.checkpoint is not None
            file, info = segment.checkpoint.files[0], None
        return cls.of_file(file, info)

    @classmethod
    def of_file(cls, file: LogPath, info: CommitInfo | None) -> VersionMark:
        """The mark of a file of the log, as a listing has it."""
        known = None if info == _NOTHING_SAID else info
        return cls(file.version, file.path, known, file.size, file.last_modified_ms or None)

    @classmethod
    def of_commit(cls, version: int, info: CommitInfo, modified_ms: int | None) -> VersionMark:
        """The mark of a commit that has been read or made."""
        known = None if info == _NOTHING_SAID else info
        return cls(version, commit_path(version), known, modified_ms=modified_ms)

    async def stands(self, store: ObjectStore) -> bool:
        """Whether what is marked is certainly still there. One small request, as a rule.

        Raises:
            StorageError: the store refused or failed.
        """
        try:
            if self.info is not None:
                return await self._tells(self.info, store)
            meta = await store.head(self.path)
            return self._describes(meta.size, meta.last_modified_ms)
        except (ObjectNotFoundError, InvalidTableError):
            return False

    async def _tells(self, known: CommitInfo, store: ObjectStore) -> bool:
        """Whether the commit of the version says of itself what is known."""
        info = await read_commit_info(store, self.version)
        if known.txn_id is not None:
            return info.txn_id == known.txn_id
        return info == known

    async def stands_among(self, files: Iterable[LogPath], store: ObjectStore) -> bool:
        """Whether what is marked is certainly still there, by a listing of its version.

        The store is asked where the listing does not tell.

        Raises:
            StorageError: the store refused or failed.
        """
        file = next((file for file in files if file.path == self.path), None)
        if file is None:
            return False
        if (file.size, file.last_modified_ms) == (self.size, self.modified_ms):
            return True
        if self.info is not None:
            return await self.stands(store)
        return self._describes(file.size, file.last_modified_ms)

    async def may_stand_among(self, files: Iterable[LogPath], store: ObjectStore) -> bool:
        """Whether a commit of the version that is there may be the marked one: nothing denies it.

        Of one that bears no provenance its size alone can deny that, and not the time, which a
        copy changes. Only what another commit says denies it, and no want of an answer.

        Raises:
            ObjectNotFoundError: the store says that it is not there, against the listing.
            InvalidTableError: it cannot be read.
            StorageError: the store refused or failed.
        """
        if self.info is not None:
            return await self._tells(self.info, store)
        file = next((file for file in files if file.path == commit_path(self.version)), None)
        return file is not None and self.size in (None, file.size)

    def _describes(self, size: int, modified_ms: int) -> bool:
        """Whether a file is the one that is marked, by what a store says of it.

        In some answers a store tells its times in whole seconds.
        """
        if self.modified_ms is None or self.size not in (None, size):
            return False
        if self.modified_ms == modified_ms:
            return True
        in_seconds = 0 in (self.modified_ms % _SECOND_MS, modified_ms % _SECOND_MS)
        return in_seconds and self.modified_ms // _SECOND_MS == modified_ms // _SECOND_MS
