"""Whether a table has been dropped, or made anew, while something was written beside its commits.

A checkpoint that comes when the log has gone would bring the table back, without its files; a
compaction, a checksum or a hint that stays would be taken for one of the next table at that place.
So whoever writes one looks afterwards, and takes it back. A drop deletes commits first, and what
else there is later on: what came before the look is there to be deleted, or the look shows that the
commit is gone. In the same way whoever deletes files of the log by names that another table would
give them too looks before.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from adelta.errors import ObjectNotFoundError, TableNotFoundError, VersionNotFoundError
from adelta.kernel.deletable import parse_dropped_path
from adelta.kernel.log_path import LogFileKind, commit_path
from adelta.log.commit_reader import read_commit
from adelta.log.deletion import delete_objects
from adelta.log.listing import list_log
from adelta.log.load import load_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState

__all__ = ["DROPPED", "is_dropped", "take_back_if_gone"]

DROPPED = "adelta.dropped"
"""The writer's feature of a table that is being dropped: nobody has it."""

_PAUSES = (0.0, 0.05, 0.1, 0.2)  # seconds after the times that a commit is listed and denied


def is_dropped(configuration: TableConfiguration) -> bool:
    """Whether a drop has begun, which may have been broken off."""
    return DROPPED in (configuration.protocol.writer_features or ())


async def take_back_if_gone(state: LogState, written: Sequence[str] = ()) -> None:
    """Delete what has been written beside the commits of `state`, where these are no more.

    Raises:
        TableNotFoundError: they are no more, and it has been deleted.
        StorageError: the store refused or failed.
    """
    if not await _is_gone(state):
        return
    doomed = [path for each in written if (path := parse_dropped_path(each)) is not None]
    await delete_objects(state.store, doomed)
    done = f"; {written[0]}, which was written meanwhile, has been deleted" if written else ""
    raise TableNotFoundError(
        f"{state.root}: the table was dropped, or made anew{done}. There is nothing to be done for "
        "the table that was"
    )


async def _is_gone(state: LogState) -> bool:
    """Whether the log says so: a commit that is merely not there may have been cleaned up.

    What has just been written does not count.
    """
    version = state.version
    if state.mark.path != commit_path(version) or await state.mark.stands(state.store):
        return False
    for pause in _PAUSES:
        with suppress(ObjectNotFoundError, VersionNotFoundError):  # what was listed has gone since
            return await _says_gone(state)
        await anyio.sleep(pause)
    return await _says_gone(state)


async def _says_gone(state: LogState) -> bool:
    """Whether a listing of the log says that the commit of `state` is not merely cleaned up.

    Raises:
        ObjectNotFoundError, VersionNotFoundError: a commit that it has is not there.
    """
    store, version = state.store, state.version
    files = await list_log(store)
    commits = [file.version for file in files if file.kind is LogFileKind.COMMIT]
    if not commits:
        return True
    last = commits[-1]
    if last < version:
        try:
            return (await load_state(store, version=last)).metadata.id != state.metadata.id
        except TableNotFoundError:
            return True
    if version in commits:
        return not await state.mark.may_stand_among(files, store)
    protocol = (await read_commit(store, last)).protocol
    return protocol is not None and DROPPED in (protocol.writer_features or ())
