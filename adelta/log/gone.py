"""Whether a table has been dropped, or made anew, while something was written beside its commits.

A checkpoint that comes when the log has gone would bring the table back, without its files; and a
compaction that stays would stand for commits of the next table at that place. So whoever writes one
looks afterwards, and takes it back. A drop deletes commits first, and what else there is later on:
what came before the look is there to be deleted, or the look shows that the commit is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import ObjectNotFoundError, TableNotFoundError
from adelta.kernel.log_path import LogFileKind, commit_path
from adelta.log.commit_reader import read_commit
from adelta.log.deletion import delete_objects
from adelta.log.listing import list_log
from adelta.log.load import load_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.log_path import LogPath
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState

__all__ = ["DROPPED", "is_dropped", "take_back_if_gone"]

DROPPED = "adelta.dropped"
"""The writer's feature of a table that is being dropped: nobody has it."""


def is_dropped(configuration: TableConfiguration) -> bool:
    """Whether a drop has begun, which may have been broken off."""
    return DROPPED in (configuration.protocol.writer_features or ())


async def take_back_if_gone(state: LogState, written: Sequence[LogPath]) -> None:
    """Delete what has been written beside the commits of `state`, where these are no more.

    Raises:
        TableNotFoundError: it has been deleted.
        StorageError: the store refused or failed.
    """
    if not await _is_gone(state):
        return
    await delete_objects(state.store, written)
    raise TableNotFoundError(
        f"{state.root}: the table was dropped, or made anew, while {written[0].path} was written, "
        "which has been deleted; there is nothing to be done for the table that was"
    )


async def _is_gone(state: LogState) -> bool:
    """Whether the log says so: a commit that is merely not there may have been cleaned up.

    What has just been written does not count.
    """
    store, version = state.store, state.version
    if state.mark.path != commit_path(version) or await state.mark.stands(store):
        return False
    files = await list_log(store)
    commits = [file.version for file in files if file.kind is LogFileKind.COMMIT]
    if not commits:
        return True
    last = commits[-1]
    if last < version:
        return (await load_state(store, version=last)).metadata.id != state.metadata.id
    if version in commits:
        return not await state.mark.may_stand_among(files, store)
    try:
        protocol = (await read_commit(store, last)).protocol
    except ObjectNotFoundError:  # it has gone since
        return True
    return protocol is not None and DROPPED in (protocol.writer_features or ())
