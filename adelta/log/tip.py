"""LogTip: the end of a table's log, as one listing tells it, without reading the log.

It is for those who watch many tables: what is kept of each is a few numbers, and to ask for news is
one request, a listing that begins at the version known. The newest file is known again by its size,
time and entity tag; one that is there under the same name and is another shows another table.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.log_path import (
    COMMITS_DIR,
    LOG_DIR,
    STAGED_DIR,
    LogFileKind,
    parse_log_path,
    version_prefix,
)
from adelta.log.listing import read_hint

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from adelta.storage.object_store import FolderPage, ObjectMeta, ObjectStore

__all__ = ["LogTip", "read_tip"]

_generations = count(1)
_LONG = 900  # files of a page after which there may be many more


@dataclass(frozen=True, slots=True)
class LogTip:
    """The newest version that the folder of the log shows, and the file that shows it.

    Attributes:
        version: the version.
        is_commit: whether the file is its commit, and not a checkpoint whose commit is gone.
        size: of the file, in bytes.
        modified_ms: when it was written, in milliseconds since the Unix epoch.
        etag: its entity tag, where the store has them.
        checkpoint: the version of the newest checkpoint that has been seen.
        may_be_owned: whether others than the filesystem may know of later versions.
        generation: a number of this process's, another one where another table is in its place.
    """

    version: int
    is_commit: bool
    size: int
    modified_ms: int
    etag: str | None
    checkpoint: int | None
    may_be_owned: bool
    generation: int = field(default_factory=partial(next, _generations))

    def describes(self, other: LogTip) -> bool:
        """Whether both are of one file."""
        mine = (self.version, self.is_commit, self.size, self.modified_ms)
        return mine == (other.version, other.is_commit, other.size, other.modified_ms) and (
            None in (self.etag, other.etag) or self.etag == other.etag
        )


async def read_tip(store: ObjectStore, name: str, before: LogTip | None = None) -> LogTip | None:
    """The end of the log of the table at `name` in `store`; None where no table is there.

    With `before`, which was its end some time ago, that is one request as a rule, and the very same
    value where nothing is new.

    Raises:
        StorageError: the store refused or failed.
    """
    if before is None:
        return await _look(store, name)
    found = await _look_after(store, name, before)
    if found is not None:
        return found
    found = await _look(store, name)
    if found is None or await _is_another(store, name, before, found):
        return found
    return replace(found, generation=before.generation)


async def _look_after(store: ObjectStore, name: str, before: LogTip) -> LogTip | None:
    """The end, where the end before is still there; None where it is not."""
    here, after = version_prefix(before.version), version_prefix(before.version + 1)
    whole = store.lists_from_anywhere or not store.lists_prefixes
    if whole:
        pages = store.list_folder(f"{name}/{LOG_DIR}", start_after=f"{name}/{here}")
    else:
        pages = store.list_folder(f"{name}/{_common(here, after)}")
    seen = _Seen(name)
    stands = False
    async with aclosing(pages):
        async for page in pages:
            seen.add(page)
            stands = stands or any(before.describes(tip) for tip in seen.tips(page.objects, before))
    if not stands or seen.newest is None:
        return None
    if seen.newest.version == before.version:
        return before if before.may_be_owned or not seen.staged else seen.tip(before)
    if whole:
        return seen.tip(before)
    found = await _look(store, name)
    return None if found is None else replace(found, generation=before.generation)


async def _look(store: ObjectStore, name: str) -> LogTip | None:
    """The end, by a look at the whole log, or at what comes after its last checkpoint."""
    seen = _Seen(name)
    pages = store.list_folder(f"{name}/{LOG_DIR}")
    async with aclosing(pages):
        async for page in pages:
            seen.add(page)
            if len(page.objects) >= _LONG and seen.pages == 1 and store.lists_from_anywhere:
                hint = await read_hint(store.below(name))
                if hint is not None and (seen.newest is None or hint.version > seen.newest.version):
                    found = await _look_from(store, name, hint.version, seen)
                    if found is not None:
                        return found
    return seen.tip(None)


async def _look_from(store: ObjectStore, name: str, version: int, first: _Seen) -> LogTip | None:
    """The end, by what comes from a version on; None where there is nothing."""
    start = f"{name}/{version_prefix(version)}"
    seen = _Seen(name)
    pages: AsyncGenerator[FolderPage, None] = store.list_folder(
        f"{name}/{LOG_DIR}", start_after=start
    )
    async with aclosing(pages):
        async for page in pages:
            seen.add(page)
    seen.staged = seen.staged or first.staged
    return seen.tip(None)


async def _is_another(store: ObjectStore, name: str, before: LogTip, found: LogTip) -> bool:
    """Whether the table is another one, as far as its log tells: it may have been cleaned up."""
    if found.version <= before.version:
        return found.version < before.version or found.is_commit
    pages = store.list_folder(f"{name}/{version_prefix(before.version)}")
    seen = _Seen(name)
    async with aclosing(pages):
        async for page in pages:
            seen.add(page)
    return seen.newest is not None and seen.newest.is_commit  # it is there, and not the one before


def _common(first: str, second: str) -> str:
    """How both texts begin, which are of one length."""
    same = 0
    while same < len(first) and first[same] == second[same]:
        same += 1
    return first[:same]


class _Seen:
    """What pages of a log's folder have shown."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.newest: LogTip | None = None
        self.checkpoint: int | None = None
        self.staged = False
        self.pages = 0

    def add(self, page: FolderPage) -> None:
        """Take note of a page."""
        self.pages += 1
        for folder in page.folders:
            below = folder[len(self._name) + 1 :]
            self.staged = self.staged or below in (STAGED_DIR, COMMITS_DIR)
        for tip in self.tips(page.objects):
            if not tip.is_commit and (self.checkpoint is None or tip.version > self.checkpoint):
                self.checkpoint = tip.version
            newest = self.newest
            if newest is None or (tip.version, tip.is_commit) > (newest.version, newest.is_commit):
                self.newest = tip

    def tips(self, objects: Iterable[ObjectMeta], of: LogTip | None = None) -> Iterable[LogTip]:
        """The files that show a version, or that of another tip, as if each were the newest."""
        for meta in objects:
            file = parse_log_path(meta.path[len(self._name) + 1 :])
            if file is None or not (file.kind is LogFileKind.COMMIT or file.is_checkpoint):
                continue
            if of is None or file.version == of.version:
                is_commit = file.kind is LogFileKind.COMMIT
                yield LogTip(
                    file.version,
                    is_commit,
                    meta.size,
                    meta.last_modified_ms,
                    meta.etag,
                    checkpoint=None,
                    may_be_owned=False,
                    generation=0,
                )

    def tip(self, before: LogTip | None) -> LogTip | None:
        """The newest, with what is known beside it."""
        if self.newest is None:
            return None
        checkpoint = self.checkpoint
        if before is not None and before.checkpoint is not None:
            checkpoint = max(before.checkpoint, -1 if checkpoint is None else checkpoint)
        staged = self.staged or (before is not None and before.may_be_owned)
        return replace(
            self.newest,
            checkpoint=checkpoint,
            may_be_owned=staged,
            generation=next(_generations) if before is None else before.generation,
        )
