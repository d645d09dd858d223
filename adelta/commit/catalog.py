"""CatalogClient: what adelta asks of the client of a catalog that manages tables.

Of a table with the feature `catalogManaged` the catalog is the owner from the table's first version
on (PROTOCOL.md, "Catalog-managed tables"). Its client is given by the user, and need not know of
changes of owners: `as_owner_client` makes a `CommitOwnerClient` of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adelta.commit.owner import CommitOwnerClient
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from typing import NoReturn

    from adelta.commit.owner import CommitResponse, ProposedCommit, RatifiedCommits

__all__ = ["CatalogClient", "as_owner_client"]


@runtime_checkable
class CatalogClient(Protocol):
    """The client of a catalog, for one table; given to `open_table` as `catalog`.

    Its methods may be called by several tasks at once. It gives the guarantees of
    `adelta.CommitOwnerClient`.
    """

    @property
    def takes_inline_commits(self) -> bool:
        """Whether `commit` gets commits that are not staged, and stores their content."""
        ...

    @property
    def permits_maintenance(self) -> bool:
        """Whether adelta may clean up the table's log, and vacuum, optimize and reorganize it."""
        ...

    async def get_ratified_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """The commits of the range that the catalog keeps, and the latest version of the table.

        Both ends are included, and all commits that it keeps are meant by default. Whatever the
        range, the latest version is the table's.

        Raises:
            TableNotFoundError: the catalog has no such table, or not yet.
            StorageError: the catalog refused or failed.
        """
        ...

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify `proposed`, if its version is the next one.

        It may be asked again of the same commit, where an answer was lost. Any exception but
        those named below is taken for a lost answer.

        Raises:
            CommitOutcomeUnknownError: it may have been ratified.
            ThrottledError: the catalog keeps as many unpublished commits as it can; adelta
                publishes them, and asks again. Nothing was ratified.
            AdeltaError: the catalog refused for another reason than that the version is taken;
                certainly nothing was ratified.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections, when a table that was opened with the client is closed.

        Other tables may be open with it: later calls make new connections.
        """
        ...


def as_owner_client(client: CatalogClient | CommitOwnerClient) -> CommitOwnerClient:
    """The client as one of a commit owner; one that is that already is returned as it is."""
    if not isinstance(client, CatalogClient):
        return client
    return _CatalogAsOwner(client)


class _CatalogAsOwner(CommitOwnerClient):
    """A catalog as a commit owner, which neither comes to own a table nor gives one up."""

    def __init__(self, catalog: CatalogClient) -> None:
        self._catalog = catalog

    def __repr__(self) -> str:
        return repr(self._catalog)

    @property
    def takes_inline_commits(self) -> bool:
        """Whether the catalog stores the content of commits."""
        return self._catalog.takes_inline_commits

    @property
    def permits_maintenance(self) -> bool:
        """Whether the catalog permits it."""
        return self._catalog.permits_maintenance

    async def get_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """What the catalog keeps. Raises: TableNotFoundError, StorageError."""
        return await self._catalog.get_ratified_commits(start_version, end_version)

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify a commit. Raises: AdeltaError."""
        return await self._catalog.commit(proposed)

    async def propose(self, proposed: ProposedCommit) -> None:
        """Refuse. Raises: InvalidUseError."""
        _refuse()

    async def accept(self, version: int) -> None:
        """Refuse. Raises: InvalidUseError."""
        _refuse()

    async def release(self, proposed: ProposedCommit) -> CommitResponse:
        """Refuse. Raises: InvalidUseError."""
        _refuse()

    async def aclose(self) -> None:
        """Give back the catalog's connections."""
        await self._catalog.aclose()


def _refuse() -> NoReturn:
    raise InvalidUseError(
        "a catalog manages its tables from their first version on, and neither takes one over nor "
        "gives one up; copy the rows to another table"
    )
