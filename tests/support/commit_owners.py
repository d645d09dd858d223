"""A commit owner in this process: the port's contract and nothing beyond it.

It keeps what it promised and ratified in memory, for any number of tables, and forgets a table that
it has given up. Clients are made by `register`, under a name; `MemoryOwner.asked` names what they
asked, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from adelta.commit.owner import (
    CommitOwnerClient,
    CommitResponse,
    ManagedTable,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
)
from adelta.commit.owner_registry import register_commit_owner
from adelta.errors import CommitOutcomeUnknownError, StorageError, TableNotFoundError
from adelta.kernel.log_path import COMMITS_DIR, commit_path
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["MemoryOwner", "OwnedTable"]


@dataclass
class OwnedTable:
    """What the owner keeps of a table: promises by version, ratified commits, and the latest."""

    promised: dict[int, set[str]] = field(default_factory=dict)
    latest: int | None = None
    first: int = 0
    commits: dict[int, RatifiedCommit] = field(default_factory=dict)
    released: bool = False


@dataclass
class MemoryOwner:
    """The owner.

    With `inline` it takes commits inline, and with `backfills` it publishes by itself, but not
    before it is asked. `refuses` makes it refuse to own or to give up. With `hears_accept` false it
    is never told that a table has become its own. It publishes no version after `stops_after`, and
    does not answer who asks for one. `lost` makes that many answers to the next
    requests for a commit get lost. `hook` runs before each request, given its name.
    """

    name: str
    inline: bool = False
    backfills: bool = False
    refuses: bool = False
    hears_accept: bool = True
    stops_after: int | None = None
    lost: int = 0
    tables: dict[str, OwnedTable] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    made: list[ManagedTable] = field(default_factory=list)
    stores: dict[str, ObjectStore] = field(default_factory=dict)
    hook: Callable[[str], Awaitable[None]] | None = None

    def register(self) -> MemoryOwner:
        """Make it known by its name."""
        register_commit_owner(self.name, self.client)
        return self

    def client(self, table: ManagedTable, options: Mapping[str, str]) -> MemoryOwnerClient:
        """A client of it, for a table."""
        self.made.append(table)
        return MemoryOwnerClient(self, table, self.stores.get(table.uri))


@dataclass
class MemoryOwnerClient(CommitOwnerClient):
    of: MemoryOwner
    table: ManagedTable
    store: ObjectStore | None = None

    @property
    def takes_inline_commits(self) -> bool:
        return self.of.inline

    @property
    def permits_maintenance(self) -> bool:
        return True

    @property
    def backfills(self) -> bool:
        return self.of.backfills

    async def _asked(self, what: str) -> OwnedTable:
        self.of.asked.append(what)
        if self.of.hook is not None:
            await self.of.hook(what)
        return self.of.tables.setdefault(self.table.table_id, OwnedTable())

    def _own(self, kept: OwnedTable) -> int:
        if kept.latest is None or kept.released:
            raise TableNotFoundError(f"{self.of.name} does not own {self.table.table_id}")
        return kept.latest

    async def get_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        kept = await self._asked("get")
        given_up = kept.latest if kept.released and not self.of.backfills else None
        latest = self._own(kept) if given_up is None else given_up
        commits = [kept.commits[v] for v in sorted(kept.commits) if v >= (start_version or 0)]
        told = -1 if latest < kept.first else latest  # nothing ratified yet
        return RatifiedCommits(told, tuple(commits))

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        kept = await self._asked("commit")
        return self._ratify(kept, proposed)

    def _ratify(self, kept: OwnedTable, proposed: ProposedCommit) -> CommitResponse:
        latest = self._own(kept)
        if proposed.version > latest + 1:
            raise StorageError(f"{latest + 1} comes next")
        if proposed.version <= latest:
            return CommitResponse(False)
        inline = proposed.content if proposed.staged_file is None else None
        kept.commits[proposed.version] = RatifiedCommit(
            proposed.version, proposed.staged_file, inline, proposed.size, proposed.modified_ms
        )
        kept.latest = proposed.version
        if proposed.published_version is not None and not self.backfills:
            done = proposed.published_version
            kept.commits = {v: c for v, c in kept.commits.items() if v > done}
        if self.of.lost:
            self.of.lost -= 1
            raise CommitOutcomeUnknownError("the answer got lost")
        return CommitResponse(True)

    async def backfill_to_version(self, version: int | None = None) -> None:
        kept = await self._asked("backfill")
        self._own(kept)
        await self._publish(kept, version)

    async def _publish(self, kept: OwnedTable, last: int | None = None) -> None:
        store = self.store or open_store(self.table.uri, {})
        for at in sorted(kept.commits):
            if last is not None and at > last:
                break
            if self.of.stops_after is not None and at > self.of.stops_after:
                await anyio.sleep_forever()
            commit = kept.commits[at]
            data = commit.content
            if data is None:
                data = await store.get(f"{COMMITS_DIR}{commit.staged_file}")
            await store.put(commit_path(at), data)
            del kept.commits[at]

    async def propose(self, proposed: ProposedCommit) -> None:
        kept = await self._asked("propose")
        if self.of.refuses:
            raise StorageError(f"{self.of.name} takes no more tables")
        kept.promised.setdefault(proposed.version, set()).add(proposed.transaction_id)

    async def accept(self, version: int) -> None:
        kept = await self._asked("accept")
        if not self.of.hears_accept:
            raise TableNotFoundError("nobody heard")
        if kept.latest is not None and not kept.released:
            return
        promised = max((each for each in kept.promised if each <= version), default=None)
        if promised is None:
            raise StorageError(f"{self.of.name} has promised nothing for version {version}")
        kept.latest, kept.first, kept.released = promised, promised + 1, False
        kept.promised.clear()

    async def release(self, proposed: ProposedCommit) -> CommitResponse:
        kept = await self._asked("release")
        if self.of.refuses:
            raise StorageError(f"{self.of.name} gives no table up")
        response = self._ratify(kept, proposed)
        if response.ratified:
            kept.released = True
            if self.of.backfills:
                await self._publish(kept)
        return response

    async def aclose(self) -> None:
        """There is nothing to give back."""
