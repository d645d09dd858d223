"""A catalog that manages tables, and commits to several of them together.

What it has ratified survives the instances that answer for it. A request is carried by the network
like one to the store, so that it is lost before or after it takes effect, answered late, or
repeated. An instance that fails over answers nobody for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adelta.commit.owner import (
    CommitOwnerClient,
    CommitResponse,
    RatifiedCommit,
    RatifiedCommits,
)
from adelta.errors import StorageError
from tests.simulation.store import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.commit.owner import ProposedCommit
    from tests.simulation.store import Network
    from tests.simulation.world import World

__all__ = ["Catalog", "CatalogClient"]

_KEPT = 5  # commits that stay after they have been published
_PATH = ".catalog"


@dataclass
class Catalog:
    """What all instances of the catalog share: the latest version, and commits that are kept.

    One that is `torn` ratifies each of the commits by itself that it was to ratify together.
    """

    world: World
    latest: int = 0
    commits: dict[int, RatifiedCommit] = field(default_factory=dict)
    back_at: float = 0.0
    torn: bool = False

    def fail_over(self, seconds: float) -> None:
        """Answer nobody for so long."""
        self.back_at = self.world.loop.time() + seconds
        self.world.note("the catalog fails over")

    def check_is_up(self) -> None:
        """Raises: StorageError."""
        if self.world.loop.time() < self.back_at:
            raise StorageError("the catalog has no instance that answers")

    def told(self, start: int) -> RatifiedCommits:
        """The latest version, and the commits from `start` on."""
        kept = (self.commits[version] for version in sorted(self.commits) if version >= start)
        return RatifiedCommits(self.latest, tuple(kept))

    def ratify(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify the next version, and forget what has been published long ago."""
        if proposed.version > self.latest + 1:
            raise StorageError(f"version {self.latest + 1} comes next, not {proposed.version}")
        if proposed.version <= self.latest:
            return CommitResponse(False, self.told(0))
        self.latest = proposed.version
        self.commits[self.latest] = RatifiedCommit(
            proposed.version,
            proposed.staged_file,
            proposed.content if proposed.staged_file is None else None,
            proposed.size,
            proposed.modified_ms,
        )
        if proposed.published_version is not None:
            for version in [v for v in self.commits if v <= proposed.published_version - _KEPT]:
                del self.commits[version]
        return CommitResponse(True)


class CatalogClient(CommitOwnerClient):
    """One process's way to what the catalog has of one table."""

    permits_maintenance = True
    takes_inline_commits = False

    def __init__(self, catalog: Catalog, network: Network) -> None:
        self.catalog = catalog
        self.network = network

    @property
    def owner(self) -> _Together:
        """Who commits over several tables: the catalog has all of them."""
        return _Together()

    async def get_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """What the catalog keeps."""
        assert end_version is None

        def read() -> RatifiedCommits:
            self.catalog.check_is_up()
            return self.catalog.told(start_version or 0)

        return await self.network.carry(Request("get", _PATH), read)

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify a commit."""

        def ratify() -> CommitResponse:
            self.catalog.check_is_up()
            return self.catalog.ratify(proposed)

        return await self.network.carry(Request("create", _PATH), ratify)

    async def aclose(self) -> None:
        """There are no connections."""


@dataclass(frozen=True)
class _Together:
    """Commits to several tables at once: all of them or none."""

    async def commit_together(
        self, proposals: Sequence[tuple[CommitOwnerClient, ProposedCommit]]
    ) -> tuple[CommitResponse, ...]:
        """Ratify all, or none of them."""
        asked = [(_own(client), proposed) for client, proposed in proposals]

        def ratify() -> tuple[CommitResponse, ...]:
            for client, _ in asked:
                client.catalog.check_is_up()
            if all(
                proposed.version == c.catalog.latest + 1 or c.catalog.torn for c, proposed in asked
            ):
                return tuple(client.catalog.ratify(proposed) for client, proposed in asked)
            return tuple(CommitResponse(False, client.catalog.told(0)) for client, _ in asked)

        return await asked[0][0].network.carry(Request("create", _PATH), ratify)

    async def get_commits_together(
        self, tables: Sequence[tuple[CommitOwnerClient, int | None]]
    ) -> tuple[RatifiedCommits, ...]:
        """What the catalog has of each at one moment."""
        asked = [(_own(client).catalog, start or 0) for client, start in tables]

        def read() -> tuple[RatifiedCommits, ...]:
            for catalog, _ in asked:
                catalog.check_is_up()
            return tuple(catalog.told(start) for catalog, start in asked)

        return await _own(tables[0][0]).network.carry(Request("get", _PATH), read)


def _own(client: CommitOwnerClient) -> CatalogClient:
    assert isinstance(client, CatalogClient)
    return client
