"""Tailing a table's log: every commit once, in order, and then those that are still to come.

A poll is one listing from the next version on. Pauses double from a tenth of the longest pause up
to it while nothing comes, and start again small when something does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import anyio

from adelta._concurrency import in_thread
from adelta.changes.position import Position
from adelta.errors import (
    ChangesNotAvailableError,
    InvalidOptionError,
    MissingCommitError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.history import from_ms
from adelta.kernel.log_path import LogFileKind, LogPath
from adelta.log.commit_reader import DecodedCommit, decode_commit
from adelta.log.listing import list_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table

__all__ = ["Commit", "tail"]

_AT_ONCE = 64  # commits fetched together when far behind


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table.

    `timestamp` is its in-commit timestamp where it has one, else its file's modification time.
    `adds`, `removes` and `cdc` are Arrow tables of its file actions; the column ``path`` is
    percent-encoded, as the log has it.
    """

    version: int
    timestamp: datetime
    info: CommitInfo
    adds: pa.Table = field(repr=False, compare=False)
    removes: pa.Table = field(repr=False, compare=False)
    cdc: pa.Table = field(repr=False, compare=False)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    set_transactions: tuple[SetTransaction, ...] = ()
    domain_metadata: tuple[DomainMetadata, ...] = ()

    @property
    def position(self) -> Position:
        """Where to go on after this commit."""
        return Position(self.version + 1)


async def tail(
    table: Table, since: int | Position | Literal["latest"] = 0, *, poll: float = 1.0
) -> AsyncIterator[Commit]:
    """Every commit from `since` on, once and in order; then the new ones as they come, for ever.

    `since` is the first version wanted, a `Position` kept from an earlier run, or ``"latest"`` for
    only what is committed from now on. `poll` is the longest pause between two looks, in seconds.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: `since` lies beyond the next version.
        ChangesNotAvailableError: the next commit has been cleaned up; the message says which one
            can be started from.
        InvalidTableError: a commit is damaged or missing.
    """
    if poll <= 0:
        raise InvalidOptionError(f"poll is the longest pause in seconds; {poll} is none")
    start = await _start(table, since)
    async for commit in _follow(table, start, poll):
        yield commit


async def _start(table: Table, since: int | Position | str) -> int:
    if isinstance(since, Position):
        return since.version
    if since == "latest":
        return (await table.snapshot()).version + 1
    if isinstance(since, bool) or not isinstance(since, int) or since < 0:
        raise InvalidOptionError(
            f"since is a version, a Position or 'latest'; {since!r} is none of these"
        )
    return since


async def _follow(table: Table, start: int, poll: float) -> AsyncIterator[Commit]:
    store, version, pause = table.store, start, poll / 10
    looked = False
    while True:
        commits = [f for f in await list_log(store, version) if f.kind is LogFileKind.COMMIT]
        if commits:
            _check_follows(store, version, commits)
            for at in range(0, len(commits), _AT_ONCE):
                for commit in await _read(store, commits[at : at + _AT_ONCE]):
                    yield commit
            version, pause = commits[-1].version + 1, poll / 10
        else:
            if not looked:
                await _check_in_reach(table, version)
            await anyio.sleep(pause)
            pause = min(poll, pause * 2)
        looked = True


def _check_follows(store: ObjectStore, version: int, commits: Sequence[LogPath]) -> None:
    first = commits[0].version
    if first != version:
        raise ChangesNotAvailableError(
            f"{store.uri}: the commits {version} to {first - 1} have been cleaned up before they "
            f"were read; start again from version {first}, or from a snapshot"
        )
    if commits[-1].version - first + 1 != len(commits):
        have = {commit.version for commit in commits}
        missing = next(v for v in range(first, commits[-1].version) if v not in have)
        raise MissingCommitError(
            f"{store.uri}: the commit of version {missing} is missing from the log; restore the "
            "file from a backup"
        )


async def _check_in_reach(table: Table, version: int) -> None:
    """Nothing is there from `version` on: it must be the one that comes next."""
    latest = (await table.snapshot()).version
    if version > latest + 1:
        raise VersionNotFoundError(
            f"{table.uri}: the next version is {latest + 1}; {version} lies beyond it"
        )
    if version <= latest:
        raise ChangesNotAvailableError(
            f"{table.uri}: the commits {version} to {latest} have been cleaned up before they were "
            f"read; start again from version {latest + 1}, or from a snapshot"
        )


async def _read(store: ObjectStore, commits: Sequence[LogPath]) -> list[Commit]:
    try:
        data = await store.get_many([commit.path for commit in commits])
    except ObjectNotFoundError as error:
        raise ChangesNotAvailableError(
            f"{store.uri}: a commit of the versions {commits[0].version} to {commits[-1].version} "
            f"was cleaned up while it was being read ({error}); start again from a later version"
        ) from error
    return await in_thread(
        lambda: [
            _commit(decode_commit(file.version, body, file.last_modified_ms))
            for file, body in zip(commits, data, strict=True)
        ]
    )


def _commit(decoded: DecodedCommit) -> Commit:
    info = decoded.commit_info or CommitInfo()
    return Commit(
        version=decoded.version,
        timestamp=from_ms(info.in_commit_timestamp or decoded.timestamp_ms or 0),
        info=info,
        adds=decoded.adds,
        removes=decoded.removes,
        cdc=decoded.cdc,
        protocol=decoded.protocol,
        metadata=decoded.metadata,
        set_transactions=decoded.set_transactions,
        domain_metadata=decoded.domain_metadata,
    )
