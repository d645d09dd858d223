"""OwnableStore: the store of a table that names in its log who decides on its commits.

Who that is cannot be known before the log has been read, and it can change: a table of the
filesystem may come to have an owner, get another one, or have none again. So every table has such a
store. It passes all on: to the table's own store, as long as the filesystem decides, else to an
`OwnedStore` with the client of the owner. `follow` is told what the newest version that the store
shows says of its owner; whoever loads a version tells it.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._secrets import without_secrets
from adelta.commit.check_then_put import is_there
from adelta.commit.coordinated_store import CoordinatedStore
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.commit.owned_store import OwnedStore, owned_store
from adelta.commit.owner import ManagedTable
from adelta.commit.owner_commit import not_owned
from adelta.commit.owner_registry import ENTRY_POINTS, OwnerNotNamedError, find_commit_owner
from adelta.errors import (
    AdeltaError,
    InvalidOptionError,
    PermissionDeniedError,
    StorageError,
)
from adelta.kernel.log_path import commit_path
from adelta.storage.forwarding_store import ForwardingStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from adelta.commit.coordinator import CommitCoordinator
    from adelta.commit.filesystem import Create
    from adelta.errors import TableNotFoundError
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.kernel.table_features import Management
    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = ["OwnableStore"]

_log = logging.getLogger("adelta.log")

_Who = tuple[str, "Management"]  # the table's id, and who decides on its commits


class OwnableStore(ForwardingStore):
    """The store `plain` of a table, seen through whoever decides on the table's commits.

    `raw` is the same without what keeps writers of the filesystem apart, and `create` is
    put-if-absent on it, or the best that there is.
    """

    def __init__(
        self,
        plain: ObjectStore,
        raw: ObjectStore,
        create: Create,
        options: Mapping[str, str],
        *,
        conditional_put: bool,
    ) -> None:
        super().__init__(plain)
        self.plain = plain
        self._raw = raw
        self._create = create
        self._options = options
        self._conditional_put = conditional_put
        self._followed: tuple[str, int] | None = None  # the table's id and version
        self._who: _Who | None = None
        self._owned: dict[_Who, OwnedStore] = {}

    def __repr__(self) -> str:
        return f"OwnableStore({self.inner!r})"

    @property
    def owned(self) -> OwnedStore | None:
        """The table as its owner has it; None where the filesystem decides, or is all there is."""
        return self.inner if isinstance(self.inner, OwnedStore) else None

    @property
    def has_connections(self) -> bool:
        """Whether closing it gives back more than connections of the table's own store."""
        return bool(self._owned) or self.plain is not self._raw

    @property
    def is_followed(self) -> bool:
        """Whether it is known who decides on the table's commits."""
        return self._followed is not None

    @property
    def on_filesystem(self) -> CommitCoordinator:
        """Who claims versions of the table as long as the filesystem decides.

        Raises:
            InvalidOptionError: nobody does, so it must not be written to.
        """
        if isinstance(self.plain, CoordinatedStore):
            return self.plain.coordinator
        return FilesystemCoordinator(self.plain)

    def owned_by(self, configuration: TableConfiguration, version: int = -1) -> OwnedStore:
        """The table as the owner has it that its configuration names.

        All versions up to `version` are known to have been published.

        Raises:
            InvalidOptionError: no such owner is known.
        """
        found = self._store_for(configuration, version)
        if found is None:
            management = configuration.management
            assert management is not None
            raise InvalidOptionError(
                f"{self.uri} has the commit owner {management.owner!r:.100}, which alone decides "
                "on its commits, and nothing here speaks to such an owner; install the package "
                f"that does (entry points {ENTRY_POINTS}), or call register_commit_owner"
            )
        return found

    def _store_for(self, configuration: TableConfiguration, version: int) -> OwnedStore | None:
        management = configuration.management
        if management is None or management.owner is None:
            return None
        who = (configuration.metadata.id, management)
        if who not in self._owned:
            factory = find_commit_owner(management.owner)
            if factory is None:
                return None
            table = ManagedTable(
                self.uri, configuration.metadata.id, management.conf, management.table_conf
            )
            self._owned[who] = owned_store(
                self._raw,
                factory(table, self._options),
                self._create,
                kind=management.kind,
                published=version,
                conditional_put=self._conditional_put,
            )
        return self._owned[who]

    async def keep_to(self, configuration: TableConfiguration, version: int) -> None:
        """Go by what a version says of the table's owner, unless a later one has been looked at.

        Raises: as `follow`.
        """
        management = configuration.management
        who = None if management is None else (configuration.metadata.id, management)
        if self._followed is not None and who != self._who:
            await self.follow(configuration, version)

    async def follow(self, configuration: TableConfiguration, version: int) -> bool:
        """Go by what the table says of its owner at `version`, the latest one that is shown.

        Whether the store may show more now, so that it has to be looked at again.

        Raises:
            InvalidTableError: the owner that the table names says that it does not own it.
            MissingCommitError: it has ratified a later commit, which is nowhere.
            StorageError: a commit of the owner before could not be published.
        """
        id = configuration.metadata.id
        if self._followed is not None and self._followed[0] == id and version < self._followed[1]:
            return False  # an earlier look, which took longer
        management = configuration.management
        who = None if management is None else (id, management)
        before = self.owned
        if who == self._who and self._followed is not None:
            self._followed = (id, version)
            if before is None:
                return False
            if before.lost is not None:
                return await self._found_again(before, before.lost, version)
            return await before.finds_missing(version)
        known = before is not None and before.lost is None
        if before is not None and known and not await is_there(self._raw, commit_path(version)):
            await before.claims.recover()  # all up to here has to be in the log
        found, reason = None, ""
        try:
            found = self._store_for(configuration, version)
        except OwnerNotNamedError as error:
            reason = f" ({error})"
        if management is not None and found is None:
            _log.warning(
                "%s: its owner, %.100r, decides on its commits, and nothing here speaks to it: the "
                "table is read as far as the filesystem shows it%s",
                without_secrets(self.uri),
                management.owner or management.kind.feature,
                without_secrets(reason),
            )
        self.inner = found or self.plain
        self._who = who
        first, self._followed = self._followed is None, (id, version)
        return found is not None or not first

    async def _found_again(
        self, owned: OwnedStore, error: TableNotFoundError, version: int
    ) -> bool:
        """Whether an owner that did not know the table has been told that the table names it.

        Raises:
            InvalidTableError: it does not own the table.
            StorageError: it failed.
        """
        owned.lost = None
        try:
            await owned.client.accept(version)
        except AdeltaError as refused:
            if isinstance(refused, StorageError) and not isinstance(refused, PermissionDeniedError):
                raise
            if await is_there(self._raw, commit_path(version + 1)):
                return True  # by which the owner has given it up meanwhile
            raise not_owned(self.uri, error) from refused
        return True

    async def list_unordered(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncGenerator[list[ObjectMeta], None]:
        """Pages of the objects whose path starts with `prefix`, as the store gives them."""
        pages = self.inner.list_unordered(prefix, start_after=start_after, recursive=recursive)
        async with aclosing(pages):
            async for page in pages:
                yield page

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        for owned in self._owned.values():
            await owned.client.aclose()
        await self.plain.aclose()
