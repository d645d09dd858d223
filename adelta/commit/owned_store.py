"""OwnedStore: the store of a managed table, in which the log is as the table's owner has it.

The owner is asked first, and the store for the rest (PROTOCOL.md, "Reading Catalog-managed
Tables"): a commit that is published between the two is in the listing. One that the owner keeps,
staged or inline, is found under the name that it will be published by, also where it has been
published already; and of versions after the owner's latest there is nothing to be found, whatever
lies in the folder. Versions that were seen in the log before are the table's, whatever the owner
says: one that has ratified nothing yet may not know them.

Where the owner does not know the table, or no longer, the store is as the filesystem has it, and
`lost` says why: what the log says then of who the owner is now is for `OwnableStore` to follow. A
catalog's word is not doubted like that.
"""

from __future__ import annotations

from collections import deque
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from adelta._concurrency import map_concurrent, together
from adelta.commit.catalog import as_owner_client
from adelta.commit.coordinated_store import CoordinatedStore, may_list_commits
from adelta.commit.owner_commit import OwnerCoordinator
from adelta.commit.owner_log import OwnerLog
from adelta.errors import MissingCommitError, ObjectNotFoundError, TableNotFoundError
from adelta.kernel.log_path import (
    LOG_DIR,
    MAX_VERSION,
    LogFileKind,
    commit_path,
    parse_log_path,
)
from adelta.storage.object_store import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from adelta.commit.catalog import CatalogClient
    from adelta.commit.filesystem import Create
    from adelta.commit.owner import CommitOwnerClient, RatifiedCommit
    from adelta.kernel.table_features import ManagementKind
    from adelta.storage.object_store import ObjectStore

__all__ = ["OwnedStore", "owned_store"]

R = TypeVar("R")
Page = list[ObjectMeta]

_LAST = "\U0010ffff"  # sorts after all that the names of objects have


def owned_store(
    inner: ObjectStore,
    client: CatalogClient | CommitOwnerClient,
    create: Create,
    *,
    kind: ManagementKind,
    published: int = -1,
    conditional_put: bool = True,
) -> OwnedStore:
    """The store `inner` of a table of a `kind` that has an owner, seen through the `client`.

    `create` is put-if-absent on `inner`, or the best that there is. All versions up to `published`
    have been seen in the log.
    """
    owner = as_owner_client(client)
    log = OwnerLog(owner, inner.uri, published)
    coordinator = OwnerCoordinator(inner, owner, log, create, kind)
    return OwnedStore(inner, coordinator, log, kind, conditional_put=conditional_put)


class OwnedStore(CoordinatedStore):
    """The store `inner`, whose commits are those of the `log` that the table's owner has.

    Attributes:
        client: who is asked.
        kind: how the table is managed.
        claims: who claims versions.
        log: what is known of the commits that the owner has ratified.
        lost: why the owner is not asked any more; None where it is.
    """

    def __init__(
        self,
        inner: ObjectStore,
        coordinator: OwnerCoordinator,
        log: OwnerLog,
        kind: ManagementKind,
        *,
        conditional_put: bool,
    ) -> None:
        self.client = log.client
        self.kind = kind
        self.claims = coordinator
        self.lost: TableNotFoundError | None = None
        self.log = log
        super().__init__(inner, coordinator, conditional_put=conditional_put)

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        return await self._read(path, self.inner.get, lambda commit: commit.content or b"")

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object and what the store says of it. Raises: ObjectNotFoundError."""
        data, meta = await self._read(path, self.inner.get_with_meta, _content_with_meta)
        return data, replace(meta, path=path)

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, in the order asked. Raises: ObjectNotFoundError."""
        versions = {path: _version_of(path) for path in paths}
        kept = [path for path, version in versions.items() if version in self.log.commits]
        held = {*kept}
        latest = max((version for version in versions.values() if version is not None), default=-1)
        if latest > self._latest:
            return await map_concurrent(self.get, paths, limit=self.concurrency)
        published = [path for path in versions if path not in held]
        bodies, kept_bodies = await together(
            partial(self.inner.get_many, published),
            partial(map_concurrent, self.get, kept, limit=self.concurrency),
        )
        found = dict(zip((*published, *kept), (*bodies, *kept_bodies), strict=True))
        return [found[path] for path in paths]

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError."""
        return await self._read(
            path,
            lambda at: self.inner.get_range(at, start, end),
            lambda commit: (commit.content or b"")[start:end],
        )

    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""
        return replace(await self._read(path, self.inner.head, _meta), path=path)

    async def _read(
        self,
        path: str,
        stored: Callable[[str], Awaitable[R]],
        inline: Callable[[RatifiedCommit], R],
    ) -> R:
        """What `stored` reads, given where it is; or `inline` of a commit that the owner holds.

        Raises:
            ObjectNotFoundError: there is nothing at `path`, or it is a commit that does not count.
        """
        version = _version_of(path)
        if version is None:
            return await stored(path)
        if version > self._latest:
            await self._ask()
        if version > self._latest:
            raise ObjectNotFoundError(
                f"{self.uri}: its owner has ratified the versions up to {self._latest}"
            )
        kept = self.log.commits.get(version)
        if kept is None:
            return await stored(path)
        if kept.staged_file is None:
            return inline(kept)
        for folder in self.kind.folders:
            with suppress(ObjectNotFoundError):
                return await stored(folder + kept.staged_file)
        return await stored(path)  # somebody has published it meanwhile, and cleaned up

    async def _ask(self, *, anew: bool = False) -> None:
        """Learn what the owner says, or that it does not own the table.

        Raises:
            TableNotFoundError: a catalog has no such table.
            InvalidTableError: the owner contradicts itself.
            StorageError: it refused or failed.
        """
        try:
            await self.log.ask(anew=anew)
        except TableNotFoundError as error:
            if self.kind.owner_key is None:
                raise
            self.lost = error

    async def finds_missing(self, version: int) -> bool:
        """Whether a ratified commit that the log lacks after `version`, the last shown, is kept.

        Raises:
            MissingCommitError: there is one that is nowhere.
            StorageError: store or owner refused or failed.
        """
        latest = self.log.latest
        if latest is None or latest <= version:
            return False
        with suppress(ObjectNotFoundError):  # mostly it has come meanwhile
            await self.head(commit_path(version + 1))
            return False
        told = await self.client.get_commits(version + 1)
        if not told.commits or told.commits[0].version != version + 1:
            raise MissingCommitError(
                f"{self.uri}: its owner has ratified version {latest}, and the log has no commit "
                f"after version {version}; restore the files of the others from a backup"
            )
        self.log.learn(told, version + 1)
        return True

    @property
    def _latest(self) -> int:
        """The latest version that may be there; -1 before the owner has been asked."""
        if self.lost is not None:
            return MAX_VERSION
        return -1 if self.log.latest is None else self.log.latest

    @property
    def told_latest(self) -> int | None:
        """The latest version by what the owner has said last; None where it is not known."""
        return None if self.lost is not None else self.log.latest

    def list_unordered(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of what `list` gives, which goes by the order of commits."""
        return self.list(prefix, start_after=start_after, recursive=recursive)

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        after = start_after or ""
        if not may_list_commits(prefix, recursive=recursive):
            async with aclosing(self._inner_pages(prefix, after, recursive)) as pages:
                async for page in pages:
                    yield page
            return
        if self.lost is None:
            await self._ask(anew=True)
        if self.lost is not None:
            async with aclosing(self._inner_pages(prefix, after, recursive)) as pages:
                async for page in pages:
                    yield page
            return
        parts = [self._listed_log(prefix, after, recursive)]
        if not prefix.startswith(LOG_DIR):  # what comes before the log, and what comes after it
            before = self._inner_pages(prefix, after, recursive)
            rest = self._inner_pages(prefix, max(after, LOG_DIR + _LAST), recursive)
            parts = [_until(LOG_DIR, before), *parts, rest]
        for part in parts:
            async with aclosing(part):
                async for page in part:
                    yield page

    def _inner_pages(self, prefix: str, after: str, recursive: bool) -> AsyncGenerator[Page, None]:
        return self.inner.list(prefix, start_after=after or None, recursive=recursive)

    async def _listed_log(
        self, prefix: str, after: str, recursive: bool
    ) -> AsyncGenerator[Page, None]:
        async with aclosing(self._inner_pages(LOG_DIR, after, recursive)) as pages:
            async for page in self._log_pages(pages, after):
                if found := [meta for meta in page if meta.path.startswith(prefix)]:
                    yield found

    async def _log_pages(self, pages: AsyncIterator[Page], start_after: str) -> AsyncIterator[Page]:
        """`pages` of the log with the commits that the owner keeps, and without later files.

        Commits are published in order. So one that the owner keeps and that is not there, though
        a later one is, has been cleaned up.
        """
        latest, seen = self._latest, -1
        first = min(self.log.commits, default=None)
        kept = [_meta(self.log.commits[version]) for version in sorted(self.log.commits)]
        waiting = deque(meta for meta in kept if meta.path > start_after)
        held: Page = []  # other files after the last commit
        async for page in pages:
            found: Page = []
            for meta in page:
                file = parse_log_path(meta.path)
                if file is not None and file.version > latest:
                    continue
                if file is None or file.kind is not LogFileKind.COMMIT:
                    held.append(meta)
                    continue
                while waiting and waiting[0].path < meta.path:
                    waiting.popleft()  # published before this one, and cleaned up since
                own = waiting.popleft() if waiting and waiting[0].path == meta.path else meta
                found += (*held, own)
                held, seen = [], file.version
            if seen >= 0:
                self.log.note_listed(seen)
            if found:
                yield found
        last = latest if first is None else first - 1  # those after it the owner keeps
        if seen < last:
            before = commit_path(seen) if seen >= 0 else ""
            waiting.extendleft(reversed(await self._left_out(last, max(before, start_after))))
        if held or waiting:
            yield sorted((*held, *waiting), key=_path)

    async def _left_out(self, latest: int, after: str) -> Page:
        """The published commits up to `latest` that a listing has left out after a path, in order.

        The operating system may leave the newest files out while others write to the folder. Where
        there is no commit of that version, it has been cleaned up, and nothing is missing.
        """
        found: Page = []
        for version in range(latest, -1, -1):
            path = commit_path(version)
            if path <= after:
                break
            try:
                found.append(await self.inner.head(path))
            except ObjectNotFoundError:
                break
        found.reverse()
        return found

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        await super().aclose()
        await self.client.aclose()


async def _until(end: str, pages: AsyncGenerator[Page, None]) -> AsyncGenerator[Page, None]:
    """The objects whose path sorts before `end`."""
    async with aclosing(pages):
        async for page in pages:
            if found := [meta for meta in page if meta.path < end]:
                yield found
            if len(found) < len(page):
                return


def _version_of(path: str) -> int | None:
    """The version of the commit that `path` is published as; None where it is something else."""
    parsed = parse_log_path(path)
    if parsed is None or parsed.kind is not LogFileKind.COMMIT:
        return None
    return parsed.version


def _path(meta: ObjectMeta) -> str:
    return meta.path


def _meta(commit: RatifiedCommit) -> ObjectMeta:
    size = commit.size if commit.content is None else len(commit.content)
    return ObjectMeta(commit_path(commit.version), size, commit.modified_ms)


def _content_with_meta(commit: RatifiedCommit) -> tuple[bytes, ObjectMeta]:
    return commit.content or b"", _meta(commit)
