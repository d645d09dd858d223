"""A catalog that manages tables, in an SQLite database that several processes can share.

It does what PROTOCOL.md asks of a catalog and no more: it keeps which commit a version is until it
is told that the version is published. A process finds its catalog by the pseudo-option
``test_catalog=DATABASE`` among storage options (`open_managed`).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.commit.owner import CommitResponse, RatifiedCommit, RatifiedCommits
from adelta.errors import CommitOutcomeUnknownError, StorageError, TableNotFoundError
from adelta.operations import create_table
from adelta.table import Table, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.commit.owner import ProposedCommit
    from adelta.operations.create import ArrowSchema

__all__ = ["CATALOG_OPTION", "MANAGED", "SqliteCatalog", "create_managed", "open_managed"]

CATALOG_OPTION = "test_catalog"
MANAGED = {"delta.feature.catalogManaged": "supported"}
_SCHEMA = """
create table if not exists tables (name text primary key, latest integer not null);
create table if not exists commits (name text, version integer, staged text, content blob,
    size integer, modified integer, primary key (name, version));
"""


@dataclass
class SqliteCatalog:
    """The client of the catalog for one table.

    `asked` names its requests in order, and `proposals` are the commits among them. `lost` makes
    that many answers to `commit` get lost, the next ones, after they took effect; `unheard` as many
    requests, before they do. With `forgets` false it keeps commits that have been published. With
    `tells` it tells the latest commits with a conflict.
    """

    database: str
    name: str = "t"
    inline: bool = False
    permits: bool = False
    forgets: bool = True
    tells: bool = True
    lost: int = 0
    unheard: int = 0
    asked: list[str] = field(default_factory=list)
    proposals: list[ProposedCommit] = field(default_factory=list)

    @property
    def takes_inline_commits(self) -> bool:
        return self.inline

    @property
    def permits_maintenance(self) -> bool:
        return self.permits

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.database, timeout=60, isolation_level=None)) as base:
            base.executescript(_SCHEMA)
            base.execute("begin immediate")
            yield base
            base.execute("commit")

    def register(self, latest: int = 0) -> None:
        """Take the table into the catalog (B13-11)."""
        with self._writing() as base:
            base.execute("insert into tables values (?, ?)", (self.name, latest))

    def ratify(self, commit: RatifiedCommit) -> None:
        """Ratify a commit without being asked by adelta."""
        with self._writing() as base:
            self._insert(base, commit)

    def _insert(self, base: sqlite3.Connection, commit: RatifiedCommit) -> None:
        row = (self.name, commit.version, commit.staged_file, commit.content)
        row += (commit.size, commit.modified_ms)
        base.execute("insert into commits values (?, ?, ?, ?, ?, ?)", row)
        base.execute("update tables set latest = ? where name = ?", (commit.version, self.name))

    def _told(self, base: sqlite3.Connection, start: int = 0) -> RatifiedCommits:
        found = base.execute("select latest from tables where name = ?", (self.name,)).fetchone()
        if found is None:
            raise TableNotFoundError(f"the catalog has no table {self.name}")
        rows = base.execute(
            "select version, staged, content, size, modified from commits "
            "where name = ? and version >= ? order by version",
            (self.name, start),
        )
        return RatifiedCommits(found[0], tuple(RatifiedCommit(*row) for row in rows))

    async def get_ratified_commits(
        self, start_version: int | None = None, end_version: int | None = None
    ) -> RatifiedCommits:
        assert end_version is None

        def read() -> RatifiedCommits:
            with self._writing() as base:
                return self._told(base, start_version or 0)

        self.asked.append("get")
        return await in_thread(read)

    async def commit(self, proposed: ProposedCommit) -> CommitResponse:
        self.asked.append("commit")
        self.proposals.append(proposed)
        if self.unheard:
            self.unheard -= 1
            raise TimeoutError("nobody heard")
        response = await in_thread(self._commit, proposed)
        if self.lost:
            self.lost -= 1
            raise CommitOutcomeUnknownError("the answer got lost")
        return response

    def _commit(self, proposed: ProposedCommit) -> CommitResponse:
        with self._writing() as base:
            latest = self._told(base).latest_version
            if proposed.version > latest + 1:
                raise StorageError(f"version {latest + 1} comes next, not {proposed.version}")
            if proposed.version <= latest:
                return CommitResponse(False, self._told(base) if self.tells else None)
            inline = proposed.staged_file is None
            self._insert(
                base,
                RatifiedCommit(
                    proposed.version,
                    proposed.staged_file,
                    proposed.content if inline else None,
                    proposed.size,
                    proposed.modified_ms,
                ),
            )
            if self.forgets and proposed.published_version is not None:
                row = (self.name, proposed.published_version)
                base.execute("delete from commits where name = ? and version <= ?", row)
            return CommitResponse(True)

    async def aclose(self) -> None:
        """There is nothing to give back."""


def _split(options: Mapping[str, str] | None) -> tuple[dict[str, str], SqliteCatalog | None]:
    rest = dict(options or {})
    database = rest.pop(CATALOG_OPTION, None)
    return rest, None if database is None else SqliteCatalog(database)


def open_managed(uri: str, options: Mapping[str, str] | None = None) -> Table:
    """The table at `uri`, with the catalog that the pseudo-option names."""
    rest, catalog = _split(options)
    return open_table(uri, rest, catalog=catalog)


async def create_managed(
    uri: str,
    schema: ArrowSchema,
    options: Mapping[str, str] | None = None,
    *,
    properties: Mapping[str, str] | None = None,
    partition_by: tuple[str, ...] = (),
) -> None:
    """Create a table; with the pseudo-option as a catalog does, and register it there."""
    rest, catalog = _split(options)
    asked = {**(properties or {}), **(MANAGED if catalog else {})}
    table = await create_table(
        uri,
        schema,
        partition_by=partition_by,
        properties=asked,
        storage_options=rest,
        catalog=catalog,
    )
    await table.aclose()
    if catalog is not None:
        catalog.register()
