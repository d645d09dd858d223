"""The commits that came before an attempt: read as few at a time as the race allows.

After a first loss that is the commit that won. After more there are several asked for at once,
since a writer that takes two steps to find the end of the log is always overtaken by one that takes
one; only where these do not reach the end is the log listed. Of a table whose owner has just said
which version is the latest, they are the commits up to that one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import anyio

from adelta._concurrency import map_concurrent, together
from adelta.commit.choose import owned_of
from adelta.errors import (
    CommitConflictError,
    InvalidTableError,
    MissingCommitError,
    ObjectNotFoundError,
    StorageError,
)
from adelta.kernel.log_path import LogFileKind, commit_path
from adelta.log.commit_reader import decode_held, read_commit, read_commits
from adelta.log.listing import list_commits, list_log
from adelta.log.ownership import FollowsOwner
from adelta.log.refresh import is_in_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from adelta.kernel.commit import Commit
    from adelta.kernel.log_path import LogPath
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["Winners", "list_winners", "read_winners"]

_AHEAD = 4  # commits that are read at once, whether they are there or not
_AT_ONCE = 16
_TOGETHER = 256  # commits after which it is seen whether there are more
_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.0)  # seconds after the looks at one that is shown and denied


class Winners(NamedTuple):
    """Commits that came before an attempt.

    `follow_base` is whether the log still has the version that the attempt is based on: else they
    are another table's, or nobody knows. `damage` is what is wrong with the commit behind them, if
    one is there that cannot be read.
    """

    commits: list[Commit]
    follow_base: bool
    damage: InvalidTableError | None = None


async def read_winners(state: LogState, *, lost: int) -> Winners:
    """Commits after `state`: the next one after a first loss, all of them after more.

    Where the table has an owner, they are always all that it has told of.

    Raises:
        CommitConflictError: they have been cleaned up.
        StorageError: the store refused or failed.
    """
    if isinstance(state.store, FollowsOwner):  # who decides may be another since the last look
        await state.store.keep_to(state.configuration, state.version)
    commits: list[Commit] = []

    async def read() -> InvalidTableError | None:
        try:
            async for commit in _following(state, lost):
                commits.append(commit)  # noqa: PERF401  # those before a damaged one are kept
        except InvalidTableError as error:
            return error
        return None

    async def look() -> bool:
        managed = state.configuration.management  # its owner takes no other version
        return managed is not None or await is_in_log(state)

    stands, damage = await together(look, read)
    return Winners(commits, stands, damage)


async def list_winners(state: LogState) -> Winners:
    """All commits after `state`, by a listing: for a state that is old.

    What has been cleaned up since is missing from a listing, while its name would look free.

    Raises:
        InvalidTableError: one of them is damaged.
        StorageError: the store refused or failed.
    """
    store, version = state.store, state.version
    if isinstance(store, FollowsOwner):
        await store.keep_to(state.configuration, version)
    files = await list_log(store, version)
    later = [f for f in files if f.kind is LogFileKind.COMMIT and f.version > version]
    last = later[-1].version if later else version
    is_whole = len(later) == last - version
    checkpointed = max((f.version for f in files if f.is_checkpoint), default=version)
    if not is_whole or checkpointed > last or not await _is_based(state, files):
        return Winners([], follow_base=False)
    try:
        return Winners(await read_commits(store, later), follow_base=True)
    except MissingCommitError:  # cleaned up meanwhile
        return Winners([], follow_base=False)


async def _is_based(state: LogState, files: Sequence[LogPath]) -> bool:
    return await state.mark.stands_among(files, state.store) or await is_in_log(state)


async def _following(state: LogState, lost: int) -> AsyncIterator[Commit]:
    """The commits after `state`, up to the end of the log or to one that cannot be read.

    The end is the version that the table's owner has told of, where that is one after `state`.
    """
    store, first = state.store, state.version + 1
    owned = owned_of(store)
    told = None if owned is None else owned.told_latest
    known = 0 if told is None else max(told + 1 - first, 0)
    wanted = range(first, first + (known or (1 if lost == 1 else _AHEAD)))
    held = None if owned is None or not known else owned.log.held(wanted)
    if held is not None:  # what the owner has told of is the table's log, and all of it
        decoded, damage = await decode_held(held)
        for commit in decoded:
            yield commit
        if damage is not None:
            raise damage
        return

    async def read(version: int) -> Commit | InvalidTableError | None:
        try:
            if version == first:  # it has been met
                return await _read_shown(store, version)
            return await read_commit(store, version)
        except ObjectNotFoundError:
            return None
        except InvalidTableError as error:
            return error

    try:
        at = first
        while at < wanted.stop:  # few at a time: an owner may tell of more than there are
            some = range(at, min(at + _TOGETHER, wanted.stop))
            for found in await map_concurrent(read, some, limit=_AT_ONCE):
                if isinstance(found, InvalidTableError):
                    raise found
                if found is None and at == first:
                    raise MissingCommitError(f"the commit of version {first} is not there")
                if found is None:
                    return
                yield found
                at += 1
        if lost > 1 and not known:  # there may be many more
            files = await list_log(store, first + _AHEAD)
            commits = [file for file in files if file.kind is LogFileKind.COMMIT]
            following = [f for at, f in enumerate(commits, first + _AHEAD) if f.version == at]
            for commit in await read_commits(store, following):
                yield commit
    except MissingCommitError as error:
        raise CommitConflictError(
            f"{state.root}: commits after version {state.version}, on which this transaction is "
            "based, have been cleaned up, so nobody can tell whether they conflict with it; read "
            "the table again and repeat the work"
        ) from error


async def _read_shown(store: ObjectStore, version: int) -> Commit:
    """The commit of a version; it is read again where the store shows it, and denies it.

    Raises:
        ObjectNotFoundError: it is not there.
        InvalidTableError: it is damaged.
        StorageError: the store shows it, and says several times that it is not there.
    """
    for pause in _PAUSES:
        with suppress(ObjectNotFoundError):
            return await read_commit(store, version)
        if not any(file.version == version for file in await list_commits(store, version, version)):
            raise ObjectNotFoundError(f"{store.uri}/{commit_path(version)}")
        await anyio.sleep(pause)
    raise StorageError(
        f"{store.uri}: the store shows the commit of version {version}, and answers {len(_PAUSES)} "
        "times that it is not there; look at the store"
    )
