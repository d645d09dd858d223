"""CoordinatedStore: the store of a table whose commits are claimed elsewhere than in its log.

It is the table's own store, and adds what a coordinator needs of reading. Before the log is listed,
and where a commit that is asked for by name is not there, commits that are made but whose files are
missing are put in place; so every reader of the log sees every commit. A table without such a
coordinator keeps its plain store, and pays nothing.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from adelta.commit.check_then_put import check_then_put
from adelta.errors import InvalidOptionError, InvalidUseError, ObjectNotFoundError
from adelta.kernel.log_path import LOG_DIR, commit_version
from adelta.storage.forwarding_store import ForwardingStore
from adelta.storage.object_store import ObjectStore, SuffixRead
from adelta.storage.providers import provider_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from adelta.commit.coordinator import CommitCoordinator
    from adelta.storage.object_store import ObjectMeta

__all__ = ["CoordinatedStore", "may_list_commits"]

R = TypeVar("R")


class CoordinatedStore(ForwardingStore):
    """An `ObjectStore` that passes all on to `inner`, with `coordinator` to look after the log.

    Without a coordinator the table can be read, and not be written to. `conditional_put` says
    whether `inner` has conditional puts; where it has none, what is put if absent (never a commit)
    may be put twice.
    """

    def __init__(
        self, inner: ObjectStore, coordinator: CommitCoordinator | None, *, conditional_put: bool
    ) -> None:
        super().__init__(inner)
        self._coordinator = coordinator
        self._conditional_put = conditional_put

    def __repr__(self) -> str:
        return f"CoordinatedStore({self.inner!r}, {self._coordinator!r})"

    @property
    def coordinator(self) -> CommitCoordinator:
        """Who claims the versions of the table.

        Raises:
            InvalidOptionError: nobody does, so it must not be written to.
        """
        if self._coordinator is None:
            in_s3 = provider_of(self.uri).locks_by_dynamodb
            raise InvalidOptionError(
                f"{self.uri} must not be written to: its store has no conditional puts"
                f"{' (aws_conditional_put=disabled)' if in_s3 else ''}, so of two writers of one "
                "version the first would lose its commit. Set the storage option "
                f"{'aws_s3_locking_provider=dynamodb or ' if in_s3 else ''}"
                "adelta_commit_lock=postgresql://... for all of them; or, where there is certainly "
                "one alone, unsafe_single_writer=true"
            )
        return self._coordinator

    async def _recover(self) -> int | None:
        return None if self._coordinator is None else await self._coordinator.recover()

    async def _or_recovered(self, read: Callable[[], Awaitable[R]], paths: Iterable[str]) -> R:
        """The result of `read`, which is run again if a commit was missing and no longer is.

        Whoever else has put it there, since it was missing, counts as well.
        """
        try:
            return await read()
        except ObjectNotFoundError:
            versions = [version for path in paths if (version := commit_version(path)) is not None]
            last = await self._recover() if versions else None
            if last is not None and last >= min(versions):
                return await read()
            raise

    async def get(self, path: str) -> bytes:
        """The whole object. Raises: ObjectNotFoundError."""
        return await self._or_recovered(lambda: self.inner.get(path), (path,))

    async def get_with_meta(self, path: str) -> tuple[bytes, ObjectMeta]:
        """The whole object and what the store says of it. Raises: ObjectNotFoundError."""
        return await self._or_recovered(lambda: self.inner.get_with_meta(path), (path,))

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Whole objects, in the order asked. Raises: ObjectNotFoundError."""
        return await self._or_recovered(lambda: self.inner.get_many(paths), paths)

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``. Raises: ObjectNotFoundError."""
        return await self._or_recovered(lambda: self.inner.get_range(path, start, end), (path,))

    async def get_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Bytes of every range, in the order asked. Raises: ObjectNotFoundError."""
        if _is_commit(path):
            return await ObjectStore.get_ranges(self, path, ranges)
        return await self.inner.get_ranges(path, ranges)

    async def get_suffix(self, path: str, length: int) -> SuffixRead:
        """The last `length` bytes. Raises: ObjectNotFoundError."""
        if not _is_commit(path):
            return await self.inner.get_suffix(path, length)
        data = await self.get(path)
        return SuffixRead(data[-length:], len(data))

    async def head(self, path: str) -> ObjectMeta:
        """What the store says of the object. Raises: ObjectNotFoundError."""
        return await self._or_recovered(lambda: self.inner.head(path), (path,))

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        """Create the object.

        Raises:
            ObjectExistsError: another object is there.
            CommitOutcomeUnknownError: it may have been created.
            InvalidUseError: it is a commit, and these are for the coordinator to make.
        """
        if _is_commit(path):
            raise InvalidUseError(f"{self.uri}/{path} can only be made by the table's coordinator")
        if self._conditional_put:
            return await self.inner.put_if_absent(path, data)
        return await check_then_put(self.inner, path, data)

    async def _recovered(
        self, pages: AsyncGenerator[list[ObjectMeta], None], *, has_commits: bool
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        async with aclosing(pages):
            if has_commits:
                await self._recover()
            async for page in pages:
                yield page

    def list_unordered(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, as the store gives them."""
        pages = self.inner.list_unordered(prefix, start_after=start_after, recursive=recursive)
        return self._recovered(pages, has_commits=may_list_commits(prefix, recursive=recursive))

    def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, in order."""
        pages = self.inner.list(prefix, start_after=start_after, recursive=recursive)
        return self._recovered(pages, has_commits=may_list_commits(prefix, recursive=recursive))

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        if self._coordinator is not None:
            await self._coordinator.aclose()
        await self.inner.aclose()


def may_list_commits(prefix: str, *, recursive: bool) -> bool:
    """Whether a listing of `prefix` can hold commits."""
    if prefix.startswith(LOG_DIR):
        return "/" not in prefix[len(LOG_DIR) :]
    return recursive and LOG_DIR.startswith(prefix)


def _is_commit(path: str) -> bool:
    return commit_version(path) is not None
