"""SourceLog: the commits that a stream reads, in order, and what it does where some are gone."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import anyio

from adelta.changes.missing import find_late_commit
from adelta.errors import ChangesNotAvailableError, MissingCommitError, ObjectNotFoundError
from adelta.kernel.log_path import LogFileKind
from adelta.log.commit_reader import decode_listed
from adelta.log.listing import find_commit, list_commits, list_log
from adelta.log.load import load_state

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.commit import Commit
    from adelta.kernel.log_path import LogPath
    from adelta.storage.object_store import ObjectStore

__all__ = ["SourceLog"]

_AT_ONCE = 16  # commits that are fetched together
_PAUSES = (0.0, 0.05, 0.1, 0.2)  # seconds before commits that are shown and denied are read again
_KEPT_BYTES = 32 << 20  # of commits that were read: a micro-batch is cut, and then read


class SourceLog:
    """The commits of a table, as they come."""

    def __init__(self, store: ObjectStore, table_id: str, *, fail_on_data_loss: bool) -> None:
        """`table_id` is that of the table, which another one may take the place of meanwhile."""
        self._store = store
        self._table_id = table_id
        self._fails = fail_on_data_loss
        self._newest: LogPath | None = None
        self._kept: OrderedDict[int, tuple[Commit, bytes]] = OrderedDict()

    async def check_there(self, version: int) -> None:
        """Refuse to begin with a commit that has been cleaned up.

        Raises:
            ChangesNotAvailableError: it has been, and the loss of data is an error.
        """
        if self._fails and await find_commit(self._store, version) is None:
            await find_late_commit(self._store, version)

    async def commits(
        self, first: int, last: int | None = None
    ) -> AsyncGenerator[tuple[Commit, bytes], None]:
        """The commits from `first` on that are there, up to `last`, with their bytes.

        Raises:
            ChangesNotAvailableError: commits have been cleaned up, or the table is gone.
            MissingCommitError: a commit is not there, and commits before and after it are.
            InvalidTableError: a commit is damaged.
        """
        wanted = await self._listed(first, last)
        for at in range(0, len(wanted), _AT_ONCE):
            chunk = wanted[at : at + _AT_ONCE]
            for commit in await self._read([f for f in chunk if f.version not in self._kept]):
                self._keep(commit)
            for file in chunk:
                yield (
                    self._kept[file.version]
                    if file.version in self._kept
                    else (await self.read(file.version))
                )

    async def read(self, version: int) -> tuple[Commit, bytes]:
        """One commit, with its bytes.

        Raises:
            ChangesNotAvailableError: it has been cleaned up.
            MissingCommitError: it is not there, and commits before and after it are.
            InvalidTableError: it is damaged.
        """
        if version not in self._kept:
            file = await find_late_commit(self._store, version)
            for found in await self._read([file]):
                self._keep(found)
                return found
        return self._kept[version]

    async def _listed(self, first: int, last: int | None) -> list[LogPath]:
        """The commits that are there, without a gap unless the loss of data is accepted."""
        files = await list_log(self._store, max(0, first - 1), end=last)
        if not files and first:
            raise ChangesNotAvailableError(
                f"{self._store.uri}: the commit of version {first - 1}, which the stream has read, "
                "is gone, and nothing later is there: the table was dropped, or made anew; start "
                "the stream with a new checkpoint"
            )
        await self._check_same_table(files, last)
        found: list[LogPath] = []
        version = first
        for file in files:
            if file.kind is not LogFileKind.COMMIT or file.version < first:
                continue
            while file.version > version:
                late = await self._late(version)
                if late is None:
                    version = file.version
                else:
                    found.append(late)
                    version += 1
            found.append(file)
            version = file.version + 1
        return found

    async def _check_same_table(self, listed: Sequence[LogPath], last: int | None) -> None:
        """Look whose log this is, where the newest commit of the listing before is another file.

        A table that was made anew has commits of the same versions, and most of them do not say
        which table they are of.

        Raises:
            ChangesNotAvailableError: another table has taken the place of the one that is read.
        """
        commits = {file.version: file for file in listed if file.kind is LogFileKind.COMMIT}
        newest = self._newest
        if not commits or (newest is not None and last is not None and last < newest.version):
            return
        if newest is not None and commits.get(newest.version) != newest:
            found = (await load_state(self._store)).metadata.id
            if found != self._table_id:
                raise ChangesNotAvailableError(
                    f"{self._store.uri}: the table with the id {self._table_id}, which the stream "
                    f"reads, was dropped, and another one was made, with the id {found}; start the "
                    "stream with a new checkpoint"
                )
        self._newest = commits[max(commits)]

    async def _late(self, version: int) -> LogPath | None:
        """A commit that a listing left out; None where it is gone and that is accepted."""
        try:
            return await find_late_commit(self._store, version)
        except (ChangesNotAvailableError, MissingCommitError) as error:
            if self._fails:
                error.add_note("With the option failOnDataLoss=false the stream goes on after it.")
                raise
            return None

    async def _read(self, files: list[LogPath]) -> list[tuple[Commit, bytes]]:
        """Commits that the log was seen to have, with their bytes.

        Raises:
            ChangesNotAvailableError: one has been cleaned up.
            InvalidTableError: one is damaged.
            ObjectNotFoundError: the store shows it, and says several times that it is not there.
        """
        for pause in (*_PAUSES, None):
            try:
                bodies = await self._store.get_many([file.path for file in files])
                break
            except ObjectNotFoundError as error:
                await self._check_shown(files, error)
                if pause is None:
                    looks = len(_PAUSES) + 1
                    raise ObjectNotFoundError(
                        f"{self._store.uri}: the store shows the commits of the versions "
                        f"{files[0].version} to {files[-1].version}, and answers {looks} times "
                        f"that one is not there ({error}); look at the store, and start the "
                        "stream again"
                    ) from error
                await anyio.sleep(pause)
        commits = await decode_listed(self._store, files, bodies)
        return list(zip(commits, bodies, strict=True))

    async def _check_shown(self, files: Sequence[LogPath], error: ObjectNotFoundError) -> None:
        """Refuse to go on where the log does not have the commits any more."""
        first, last = files[0].version, files[-1].version
        there = {file.version for file in await list_commits(self._store, first, last)}
        if not there.issuperset(file.version for file in files):
            raise ChangesNotAvailableError(
                f"{self._store.uri}: commits that the stream was to read have been cleaned up "
                f"meanwhile ({error}); start it again"
            ) from error

    def _keep(self, found: tuple[Commit, bytes]) -> None:
        self._kept[found[0].version] = found
        while len(self._kept) > 1 and sum(len(b) for _, b in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)
