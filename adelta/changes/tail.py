"""Tailing a table's log: every commit once, in order, and then those that are still to come.

A poll is one listing, which shows too that the last commit read is still there: a table that was
dropped, or made anew, is not the one that was followed. Pauses double from a tenth of the longest
pause up to it while nothing comes, and start again small when something does. Where the table's
owner announces commits, they are waited for instead, and read without a listing. A commit that the
listing leaves out, though there are later ones, is asked for by name.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import anyio

from adelta._arguments import checked
from adelta._clock import monotonic
from adelta._streams import stream
from adelta.changes.announced import next_commits
from adelta.changes.missing import find_late_commit
from adelta.changes.same_table import check_position
from adelta.commit.coordinator import LOOK_HOLDS
from adelta.errors import (
    AdeltaError,
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidTableError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import LogFileKind, LogPath
from adelta.kernel.position import Position
from adelta.log.commit_provenance import read_commit_info
from adelta.log.commit_reader import decode_sound
from adelta.log.listing import find_commit, list_log
from adelta.log.version_mark import VersionMark
from adelta.table import latest_state, opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    from adelta.kernel.commit import Commit
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table, TableOrAddress

__all__ = ["tail"]

_AT_ONCE = 64  # commits fetched together when far behind
_DENIALS = 5  # of a commit that is there
_PAUSE = 0.05  # seconds, and so many more after each of them


@checked
@stream
async def tail(
    table: TableOrAddress,
    since: int | Position | Literal["latest"] = 0,
    *,
    poll: float = 1.0,
    storage_options: Mapping[str, str] | None = None,
) -> AsyncGenerator[Commit, None]:
    """Every commit from `since` on, once and in order; then the new ones as they come, for ever.

    `since` is the first version wanted, a `Position` kept from an earlier run, or ``"latest"`` for
    only what is committed from now on. `poll` is the longest pause between two looks, in seconds;
    of a table whose commit owner announces commits, they come as soon as they are announced.
    A commit that is there and that a listing leaves out is waited for; where one cannot be read,
    those before it come first, and the error then. The commits' positions say which table they are
    of: one that was made anew is not read on from there.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: `since` lies beyond the next version.
        ChangesNotAvailableError: the next commit has been cleaned up, and the message says which
            one can be started from; or the table was dropped, or made anew, also before.
        MissingCommitError: the next commit is not there, and commits before and after it are.
        InvalidTableError: a commit is damaged.
        StorageError: the store refused or failed.
    """
    if poll <= 0:
        raise InvalidOptionError(f"poll is the longest pause in seconds; {poll} is none")
    async with opened(table, storage_options) as handle:
        start, table_id = await _start(handle, since)
        async with aclosing(_follow(handle, start, poll)) as commits:
            async for commit in commits:
                table_id = table_id if commit.metadata is None else commit.metadata.id
                yield replace(commit, table_id=table_id)


async def _start(table: Table, since: int | Position | str) -> tuple[int, str | None]:
    """The first version, and the id of the table, which the first commit of all tells itself."""
    if not isinstance(since, Position) and since != "latest":
        if isinstance(since, bool) or not isinstance(since, int) or since < 0:
            raise InvalidOptionError(
                f"since is a version, a Position or 'latest'; {since!r} is none of these: the text "
                "of a position becomes one by Position.parse(...)"
            )
        if since == 0:
            return 0, None
    first = since.first_version if isinstance(since, Position) else since
    latest = await latest_state(table)
    if isinstance(since, Position):
        await check_position(latest, since)
    return latest.version + 1 if isinstance(first, str) else first, latest.metadata.id


async def _follow(table: Table, start: int, poll: float) -> AsyncGenerator[Commit, None]:
    store, version, pause = table.store, start, poll / 10
    in_reach = late = owner_known = False
    denied = 0  # times that the next commit was there and could not be had
    looked_at = monotonic()
    last = await _mark_before(store, start)
    announced: Sequence[LogPath] = ()
    while True:
        files = announced
        if not late and not announced:
            looked_at = monotonic()
            files = await list_log(store, version if last is None else last.version)
            if last is not None:
                await _check_followed(store, last, files)
        commits, by_owner = _unbroken(files, version), bool(announced)
        announced = ()
        if not commits:
            if not owner_known and not late:  # whoever decides on commits may tell of more
                owner_known = True
                if await _shows_more(table, version):
                    continue
            late = late or _tell_of(files, version)
            if late or (not in_reach and await _is_known(table, version)):
                commits = [await find_late_commit(store, version)]
        in_reach, late = True, False
        for at in range(0, len(commits), _AT_ONCE):
            wanted = commits[at : at + _AT_ONCE]
            there, failure = await _read(store, wanted)
            if there and not by_owner and monotonic() - looked_at > LOOK_HOLDS:
                looked_at = monotonic()
                await _check_same(store, last, wanted, there)
            for commit in there:
                owner_known = owner_known and commit.metadata is None
                yield commit
            if failure is not None:
                raise failure
            version += len(there)
            last = _mark(wanted, there) or last
            denied = 0 if there else denied + 1
            if len(there) < len(wanted):
                late = True
                break
        if denied:
            await _stay_patient(store, version, denied)
        if commits:
            pause = poll / 10
        if not commits or (by_owner and not late):
            announced = await next_commits(store, version, pause)
        if not commits:
            pause = min(poll, pause * 2)


async def _stay_patient(store: ObjectStore, version: int, denied: int) -> None:
    """Wait before a commit is asked for again that the store has shown and denied.

    Raises:
        ObjectNotFoundError: it has done so too often.
    """
    if denied >= _DENIALS:
        raise ObjectNotFoundError(
            f"{store.uri}: the store shows the commit of version {version}, and answers {denied} "
            "times that it is not there; look at the store, and go on from that version"
        )
    await anyio.sleep(_PAUSE * denied)


async def _shows_more(table: Table, version: int) -> bool:
    """Whether `version` is there, as whoever decides now on the table's commits has it.

    Who that is the log says: it is known when the latest version has been loaded.
    """
    with suppress(TableNotFoundError):
        return (await table.snapshot()).version >= version
    return False


async def _mark_before(store: ObjectStore, version: int) -> VersionMark | None:
    """By what the commit before `version`, which is not read, is known again; None without one."""
    file = await find_commit(store, version - 1) if version else None
    if file is None:
        return None
    with suppress(ObjectNotFoundError, InvalidTableError):
        return VersionMark.of_file(file, await read_commit_info(store, file.version))
    return None


def _mark(files: Sequence[LogPath], commits: Sequence[Commit]) -> VersionMark | None:
    """By what the last of the commits that were read is known again."""
    if not commits:
        return None
    return VersionMark.of_file(files[len(commits) - 1], commits[-1].info)


async def _check_followed(store: ObjectStore, last: VersionMark, files: Sequence[LogPath]) -> None:
    """Refuse a log that does not have the commit that was read last.

    Raises:
        ChangesNotAvailableError: it is of another table, or the table is gone.
    """
    if await last.stands_among(files, store):
        return
    if await find_commit(store, last.version) is None and _tell_of(files, last.version + 1):
        return  # it has been cleaned up, with all that came before
    if await last.stands(store):
        return
    raise _another(store, last.version)


async def _check_same(
    store: ObjectStore,
    last: VersionMark | None,
    files: Sequence[LogPath],
    commits: Sequence[Commit],
) -> None:
    """Refuse commits some of which may be of a table that was made anew since they were listed.

    Raises:
        ChangesNotAvailableError: there is another one in the place of one of them, or of `last`.
    """
    pairs = zip(files, commits, strict=False)  # of some files there may be none
    marks = [VersionMark.of_file(file, commit.info) for file, commit in pairs]
    marks = marks if last is None else [last, *marks]
    now = await list_log(store, marks[0].version, end=marks[-1].version)
    for mark in marks:
        if not any(file.path == mark.path for file in now):
            continue  # it has been cleaned up, or the table is gone: nothing is in its place
        if not await mark.stands_among(now, store) and not await mark.stands(store):
            raise _another(store, mark.version)


def _another(store: ObjectStore, version: int) -> ChangesNotAvailableError:
    return ChangesNotAvailableError(
        f"{store.uri}: the commit of version {version}, which was read last, is gone or is "
        "another one: the table was dropped, or made anew; read the table that is there now from "
        "its first version"
    )


def _unbroken(files: Iterable[LogPath], version: int) -> list[LogPath]:
    """The commits from `version` on, up to the first one that is not among the files."""
    commits: list[LogPath] = []
    for file in files:
        if file.kind is LogFileKind.COMMIT and file.version >= version:
            if file.version != version + len(commits):
                break
            commits.append(file)
    return commits


def _tell_of(files: Iterable[LogPath], version: int) -> bool:
    """Whether the files are of a log that goes as far as `version`, which has to be there then."""
    return any(
        file.kind is LogFileKind.COMMIT or file.is_checkpoint
        for file in files
        if file.version >= version
    )


async def _is_known(table: Table, version: int) -> bool:
    """Whether `version` is there already; if not, it must be the one that comes next."""
    latest = (await table.snapshot()).version
    if version > latest + 1 and await find_commit(table.store, version - 1) is None:
        raise VersionNotFoundError(
            f"{table.uri}: the next version is {latest + 1}; {version} lies beyond it",
            latest_version=latest,
        )
    return version <= latest


async def _read(
    store: ObjectStore, files: Sequence[LogPath]
) -> tuple[list[Commit], AdeltaError | None]:
    """The commits, up to the first one that cannot be read; and why that is.

    There is no reason where that one is gone: it is then looked for anew.
    """
    failure: AdeltaError | None = None
    try:
        data = await store.get_many([file.path for file in files])
    except StorageError as error:
        if len(files) == 1 and not isinstance(error, ObjectNotFoundError):
            return [], error
        data, failure = await _read_as_far_as_possible(store, files)
    commits, damage = await decode_sound(store, files, data)
    return commits, damage or failure


async def _read_as_far_as_possible(
    store: ObjectStore, files: Sequence[LogPath]
) -> tuple[list[bytes], StorageError | None]:
    data: list[bytes] = []
    for file in files:
        try:
            data.append(await store.get(file.path))
        except ObjectNotFoundError:
            break
        except StorageError as error:
            return data, error
    return data, None
