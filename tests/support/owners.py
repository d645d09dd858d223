"""Commit owners for tests: ledgers, services on sockets of their own, and what is proposed."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from adelta.commit.owner import ManagedTable, ProposedCommit
from adelta.commit.owner_client import AdeltaOwnerClient
from adelta.kernel.log_path import commit_path
from adelta.owner.access import Right
from adelta.owner.owned_table import COMMITS_FOLDER
from adelta.owner.parts import Settings
from adelta.owner.server import running_owner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.owner.ledger import Ledger
    from adelta.owner.server import RunningOwner
    from adelta.owner.table_key import TableKey
    from tests.support.postgres_server import PostgresServer

__all__ = ["COMMITS", "Owner", "new_database", "owned", "proposal", "running"]

COMMITS = COMMITS_FOLDER
_numbers = itertools.count()


def proposal(
    version: int, transaction_id: str, *, staged_file: str | None = None, padding: int = 0
) -> ProposedCommit:
    """A commit that says no more than whose it is."""
    info = {"inCommitTimestamp": 1000 + version, "txnId": transaction_id, "x": "x" * padding}
    content = orjson.dumps({"commitInfo": info}) + b"\n"
    return ProposedCommit(
        version,
        content,
        1000 + version,
        transaction_id,
        staged_file=staged_file,
        size=len(content),
    )


async def owned(ledger: Ledger, table: TableKey, version: int = 0) -> None:
    """Let the ledger own a table, up to a version."""
    await ledger.promise(table, COMMITS, proposal(version, "first"))
    await ledger.keep_promise(table, version)


async def new_database(server: PostgresServer) -> str:
    """The address of a database of its own in the session's PostgreSQL server."""
    name = f"owner_{os.getpid()}_{next(_numbers)}"
    connection = await server.connect()
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return f"{server.address.rpartition('/')[0]}/{name}"


@dataclass
class Owner:
    """A service that runs, whose tables lie in `folder`."""

    service: RunningOwner
    folder: Path
    clients: list[AdeltaOwnerClient] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return self.service.endpoint

    async def token(self, right: Right = Right.OWN, prefix: str | None = None) -> str:
        prefix = str(self.folder) if prefix is None else prefix
        return (await self.service.parts.tokens.create(right, prefix))[0]

    async def client(
        self, name: str = "orders", token: str | None = None, **more: Any
    ) -> AdeltaOwnerClient:
        """The client for the table of a name."""
        table = ManagedTable((self.folder / name).as_uri(), f"id-of-{name}".replace("/", "-"))
        token = await self.token() if token is None else token
        made = AdeltaOwnerClient(table, self.endpoint, token, **more)
        self.clients.append(made)
        return made

    async def adopted(
        self, name: str = "orders", token: str | None = None, **more: Any
    ) -> AdeltaOwnerClient:
        """The client for a table of a name, whose log has the commit by which it is owned."""
        client = await self.client(name, token, **more)
        first = proposal(0, f"first-of-{name}")
        await client.propose(first)
        path = self.folder / name / commit_path(0)
        path.parent.mkdir(parents=True)
        path.write_bytes(first.content)
        await client.accept(0)
        return client

    def asked(self) -> Counter[str]:
        """How many requests there have been, by route."""
        (family,) = self.service.parts.metrics.requests.collect()
        samples = [sample for sample in family.samples if sample.name.endswith("_total")]
        counts: Counter[str] = Counter()
        for sample in samples:
            counts[sample.labels["route"]] += int(sample.value)
        return counts

    def log(self, name: str = "orders") -> dict[int, bytes]:
        """The commits that a reader of the filesystem sees."""
        files = (self.folder / name / "_delta_log").glob("*.json")
        return {int(file.stem): file.read_bytes() for file in sorted(files)}


@asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[Owner]:
    """A service on a free port, on a new database of SQLite unless another is given."""
    given = {"database": str(folder / "owner.db"), "port": 0, "sweep_seconds": 0.2, **settings}
    async with running_owner(Settings(**given)) as service:
        owner = Owner(service, folder)
        try:
            yield owner
        finally:
            for client in owner.clients:
                await client.aclose()
