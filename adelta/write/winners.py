"""The commits that came before an attempt: read as few at a time as the race allows.

After a first loss that is the commit that won. After more there are several asked for at once,
since a writer that takes two steps to find the end of the log is always overtaken by one that takes
one; only where these do not reach the end is the log listed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from adelta._concurrency import map_concurrent, run_all
from adelta.errors import CommitConflictError, MissingCommitError, ObjectNotFoundError
from adelta.kernel.log_path import LogFileKind
from adelta.log.commit_reader import read_commit, read_commits
from adelta.log.listing import list_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from adelta.kernel.commit import Commit
    from adelta.log.state import LogState

__all__ = ["Winners", "read_winners"]

_AHEAD = 4  # commits that are read at once, whether they are there or not


class Winners(NamedTuple):
    """Commits that came before an attempt.

    `follow_base` is whether the log still has the version that the attempt is based on: else they
    are another table's, or nobody knows. `asked_at` is when they were asked for, by
    `time.monotonic`.
    """

    commits: list[Commit]
    follow_base: bool
    asked_at: float


async def read_winners(state: LogState, *, lost: int) -> Winners:
    """Commits after `state`: the next one after a first loss, all of them after more.

    Raises:
        CommitConflictError: they have been cleaned up.
        InvalidTableError: one of them is damaged.
        StorageError: the store refused or failed.
    """
    asked_at = time.monotonic()
    commits: list[Commit] = []
    stands = False

    async def read() -> None:
        commits.extend(await _read(state, 1 if lost == 1 else _AHEAD))

    async def look() -> None:
        nonlocal stands
        managed = state.configuration.catalog_managed  # the catalog takes no other version
        stands = managed or await state.look_again()

    await run_all(look, read)
    return Winners(commits, stands, asked_at)


async def _read(state: LogState, ahead: int) -> list[Commit]:
    store, first = state.store, state.version + 1

    async def read(version: int) -> Commit | None:
        try:
            return await read_commit(store, version)
        except ObjectNotFoundError:
            return None

    read_ahead = await map_concurrent(read, range(first, first + ahead), limit=ahead)
    winners = list(_until_missing(read_ahead))
    try:
        if not winners:
            raise MissingCommitError(f"the commit of version {first} is not there")
        if len(winners) == _AHEAD:  # there may be many more
            files = await list_log(store, first + _AHEAD)
            commits = [file for file in files if file.kind is LogFileKind.COMMIT]
            following = [f for at, f in enumerate(commits, first + _AHEAD) if f.version == at]
            winners += await read_commits(store, following)
    except MissingCommitError as error:
        raise CommitConflictError(
            f"{state.root}: commits after version {state.version}, on which this transaction is "
            "based, have been cleaned up, so nobody can tell whether they conflict with it; read "
            "the table again and repeat the work"
        ) from error
    return winners


def _until_missing(commits: Iterable[Commit | None]) -> Iterator[Commit]:
    for commit in commits:
        if commit is None:
            return
        yield commit
