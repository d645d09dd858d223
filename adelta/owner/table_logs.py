"""The logs of the owned tables, in their stores: what the owner itself reads and writes there.

It writes commits, each under its own name, and never over one that is there; it deletes nothing.
The tables of one bucket share one store, and its connections.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._chance import new_uuid
from adelta._dataclasses import dataclass
from adelta.commit.check_then_put import check_then_put
from adelta.errors import ObjectExistsError, ObjectNotFoundError, PermissionDeniedError
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.owner.owned_table import FOLDERS
from adelta.owner.table_key import lies_below
from adelta.storage.addresses import Place
from adelta.storage.providers import LOCAL
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["TableLog", "TableLogs"]


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log of the table below `prefix` in a store, which may have no conditional puts.

    All that the owner puts where such a store has nothing is what the ledger has for the place: by
    whichever instance, the same bytes.
    """

    store: ObjectStore
    prefix: str = ""
    conditional_put: bool = True

    async def commit(self, version: int) -> bytes | None:
        """The commit of a version, as readers of the filesystem see it; None where there is none.

        Raises: StorageError.
        """
        try:
            return await self.store.get(self.prefix + commit_path(version))
        except ObjectNotFoundError:
            return None

    async def staged(self, folder: str, name: str) -> bytes | None:
        """The bytes of an un-backfilled commit, which is expected in one of the log's folders.

        None where there are none, in none of them. Raises: StorageError.
        """
        for each in sorted(FOLDERS, key=lambda other: other != folder):
            with suppress(ObjectNotFoundError):
                return await self.store.get(f"{self.prefix}{LOG_DIR}{each}{name}")
        return None

    async def staged_size(self, folder: str, name: str) -> int | None:
        """How many bytes an un-backfilled commit has, as `staged` finds it.

        Raises: StorageError.
        """
        for each in sorted(FOLDERS, key=lambda other: other != folder):
            with suppress(ObjectNotFoundError):
                return (await self.store.head(f"{self.prefix}{LOG_DIR}{each}{name}")).size
        return None

    async def stage(self, folder: str, version: int, data: bytes) -> tuple[str, int]:
        """Put a commit beside the log; its bare name, and its time in ms. Raises: StorageError."""
        name = f"{version:020d}.{new_uuid()}.json"
        made = await self.store.put(f"{self.prefix}{LOG_DIR}{folder}{name}", data)
        return name, made.last_modified_ms

    async def backfill(self, version: int, data: bytes) -> bool:
        """Put a commit into the log; False where there is another one.

        Raises:
            StorageError: the store refused or failed.
            CommitOutcomeUnknownError: it may have been put.
        """
        path = self.prefix + commit_path(version)
        try:
            if self.conditional_put:
                await self.store.put_if_absent(path, data)
            else:
                await check_then_put(self.store, path, data)
        except ObjectExistsError:
            return await self.commit(version) == data
        return True

    async def is_there(self) -> bool:
        """Whether there is anything in the log. Raises: StorageError."""
        async with aclosing(self.store.list(self.prefix + LOG_DIR)) as pages:
            async for page in pages:
                if page:
                    return True
        return False

    async def exists(self, version: int) -> bool:
        """Whether readers of the filesystem see the commit of a version. Raises: StorageError."""
        try:
            await self.store.head(self.prefix + commit_path(version))
        except ObjectNotFoundError:
            return False
        return True


class TableLogs:
    """Opens the log of any table below one of the `roots`, of any table where there are none.

    `options` are those that the stores are opened with, by `opens`. On a local disk no link is
    followed below a root.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        roots: Sequence[str] = (),
        *,
        opens: Callable[[str, Mapping[str, str]], ObjectStore] = open_store,
    ) -> None:
        self._options = dict(options)
        self._roots = tuple(roots)
        self._opens = opens
        self._logs: dict[Place, TableLog] = {}  # with no prefix, of whole buckets

    def of(self, uri: str) -> TableLog:
        """The log of the table at a root, which `root_of` has spelled. It does no I/O.

        Raises:
            PermissionDeniedError: it lies below none of the roots.
            InvalidOptionError: the options are none for its store.
        """
        above = [root for root in self._roots if lies_below(uri, root)]
        if self._roots and not above:
            raise PermissionDeniedError(
                f"this commit owner takes no tables at {uri}: it was started for those below "
                f"{', '.join(self._roots)}"
            )
        place = Place.of(uri)
        if place.provider is LOCAL:  # the store of which follows no links below its root
            root = min(above, key=len, default=uri)
            below = "" if root in ("*", uri) else place.below(Place.of(root))
            if not below:
                return TableLog(self._opens(uri, self._options), "")
            return TableLog(self._opens(root, self._options), f"{below}/")
        if place.top not in self._logs:
            store = self._opens(place.top.address, self._options)
            conditional = place.provider.has_conditional_puts(self._options)
            self._logs[place.top] = TableLog(store, conditional_put=conditional)
        return replace(self._logs[place.top], prefix=f"{place.path}/")

    async def aclose(self) -> None:
        """Give back connections."""
        for log in self._logs.values():
            await log.store.aclose()
