"""A catalog that manages a table: what it has ratified survives the instances that answer for it.

A request is carried by the network like one to the store, so that it is lost before or after it
takes effect, answered late, or repeated. An instance that fails over answers nobody for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adelta.commit.owner import CommitResponse, RatifiedCommit, RatifiedCommits
from adelta.errors import StorageError
from tests.simulation.store import Request

if TYPE_CHECKING:
    from adelta.commit.owner import ProposedCommit
    from tests.simulation.store import Network
    from tests.simulation.world import World

__all__ = ["Catalog", "CatalogClient"]

_KEPT = 5  # commits that stay after they have been published
_PATH = ".catalog"


@dataclass
class Catalog:
    """What all instances of the catalog share: the latest version, and commits that are kept."""

    world: World
    latest: int = 0
    commits: dict[int, RatifiedCommit] = field(default_factory=dict)
    back_at: float = 0.0

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


class CatalogClient:
    """One process's way to the catalog."""

    permits_maintenance = True

    def __init__(self, catalog: Catalog, network: Network, *, inline: bool = False) -> None:
        self._catalog = catalog
        self._network = network
        self.takes_inline_commits = inline

    async def get_ratified_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        """What the catalog keeps."""
        assert end_version is None

        def read() -> RatifiedCommits:
            self._catalog.check_is_up()
            return self._catalog.told(start_version or 0)

        return await self._network.carry(Request("get", _PATH), read)

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        """Ratify a commit."""

        def ratify() -> CommitResponse:
            self._catalog.check_is_up()
            return self._catalog.ratify(proposed)

        return await self._network.carry(Request("create", _PATH), ratify)

    async def aclose(self) -> None:
        """There are no connections."""
