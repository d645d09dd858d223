"""Refreshing a state: the latest one, by reading only the commits after it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import map_concurrent, together
from adelta.errors import (
    InvalidTableError,
    MissingCommitError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import LogFileKind
from adelta.log.commit_reader import read_commit, read_commits
from adelta.log.listing import list_log
from adelta.log.load import load_state
from adelta.log.ownership import FollowsOwner, followed

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit
    from adelta.log.state import LogState

__all__ = ["is_in_log", "later_state", "refresh_state"]

_MAX_TAIL = 1000  # commits carried along before a newer checkpoint is taken instead
_AT_ONCE = 16
_LOOKS = 3  # at a commit that is listed and cannot be read
_BY_NAME = 2  # commits asked for by name: one more than there mostly is


async def refresh_state(state: LogState, *, recent: bool = False) -> LogState:
    """The latest state, by reading only the commits after `state`; itself where there are none.

    Where the log is no longer the one that `state` was made of, since the table was dropped and
    made anew or because the log was cleaned up, the latest state is loaded. So it may be of another
    table, and of a lower version.

    A `recent` state was the latest a short while ago. Then the next commits are asked for by name,
    without a listing: an answer takes the time of one request. That a commit is not there would
    not tell an old state whether the log has been cleaned up.

    Raises:
        InvalidTableError: a new commit is damaged or missing, or the owner that the table names
            does not own it.
        TableNotFoundError: the table is gone.
    """
    store, newest = state.store, await _refresh(state, recent=recent)
    if not isinstance(store, FollowsOwner):
        return newest
    return await followed(store, newest, lambda seen: _refresh(seen, recent=True))


async def _refresh(state: LogState, *, recent: bool) -> LogState:
    store = state.store
    found: list[Commit] = []
    start = state.version
    if recent and state.tail_length < _MAX_TAIL:
        stands, found = await _next_commits(state)
        if not stands:
            return await load_state(store)
        if len(found) < _BY_NAME:
            return state.advance(found)
        start += len(found) + 1
    after = state.version + len(found)
    files = await list_log(store, start)
    if not found and not await state.mark.stands_among(files, store):
        return await load_state(store)
    commits = [f for f in files if f.kind is LogFileKind.COMMIT and f.version > after]
    newest = max((f.version for f in files if f.is_checkpoint), default=-1)
    carried = state.tail_length + len(found) + len(commits)
    # With a long tail, a checkpoint of this very version is worth a fresh start too.
    useful = after + 1 if state.tail_length < _MAX_TAIL else after
    if newest >= useful and (not commits or carried > _MAX_TAIL):
        return await load_state(store)
    if not commits:
        return state.advance(found)
    if commits[0].version != after + 1:
        return await load_state(store)
    try:
        return state.advance([*found, *await read_commits(store, commits)])
    except MissingCommitError:  # cleaned up since they were listed
        return await load_state(store)


async def later_state(state: LogState, version: int) -> LogState:
    """The state of a version that is there, mostly by reading only the commits from `state` on.

    Raises:
        InvalidTableError: a new commit is damaged.
        VersionNotFoundError: the version is no longer kept.
        StorageError: the store refused or failed.
    """
    if version == state.version:
        return state
    if state.version < version <= state.version + _MAX_TAIL:
        read = partial(read_commit, state.store)
        versions = range(state.version + 1, version + 1)
        with suppress(ObjectNotFoundError):  # cleaned up since
            return state.advance(await map_concurrent(read, versions, limit=_AT_ONCE))
    return await load_state(state.store, version=version)


async def is_in_log(state: LogState, *, to_follow: bool = False) -> bool:
    """Whether the log has the version of `state`, of the same table, whatever comes after it.

    That takes one small request, and more only where the commit has been cleaned up. With
    `to_follow` the next version has to be free as well, or just taken: a log that has later ones,
    and not this one, is being deleted, and a commit in the gap would go with it.

    Raises:
        StorageError: the store refused or failed, or denies or garbles a commit that it lists.
    """
    if await state.mark.stands(state.store):
        return True
    try:
        for _ in range(_LOOKS):
            files = await list_log(state.store, state.version)
            commits = {file.version for file in files if file.kind is LogFileKind.COMMIT}
            if state.version not in commits:
                if to_follow and max(commits, default=-1) > state.version + 1:
                    return False
                break
            with suppress(ObjectNotFoundError, InvalidTableError):  # cleaned up since, or a fault
                return await state.mark.may_stand_among(files, state.store)
        else:
            raise StorageError(
                f"{state.store.uri}: the store lists the commit of version {state.version}, and "
                "answers as if it were not there, or with something else; look at the store"
            )
        again = await load_state(state.store, version=state.version)
    except (InvalidTableError, TableNotFoundError, VersionNotFoundError):
        return False
    return again.continues(state)


async def _next_commits(state: LogState) -> tuple[bool, list[Commit]]:
    """Whether the log is the one of `state`, and the next commits, `_BY_NAME` of them at the most.

    Where nothing is new, that is two requests at once.
    """
    found: list[Commit] = []

    async def read_next() -> None:
        with suppress(ObjectNotFoundError):
            found.append(await read_commit(state.store, state.version + 1 + len(found)))

    stands, _ = await together(partial(state.mark.stands, state.store), read_next)
    if stands and found:
        await read_next()
    return stands, found
