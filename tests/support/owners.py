"""Commit owners for tests: ledgers, services on sockets of their own, and what is proposed."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import orjson

from adelta.commit.owner import ProposedCommit
from adelta.owner.ledger import COMMITS_FOLDER

if TYPE_CHECKING:
    from adelta.owner.ledger import Ledger
    from adelta.owner.table_key import TableKey
    from tests.support.postgres_server import PostgresServer

__all__ = ["COMMITS", "new_database", "owned", "proposal"]

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
