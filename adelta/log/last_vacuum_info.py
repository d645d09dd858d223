"""`_last_vacuum_info`: how far VACUUM has looked through the log, as Delta Spark writes it.

With it a VACUUM that reads the log alone begins where the last one ended. It is a help and no more:
one that is damaged, or is not there, counts as none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson

from adelta.errors import ObjectNotFoundError, StorageError
from adelta.kernel.log_path import LAST_VACUUM_INFO_PATH
from adelta.log.gone import take_back_if_gone

if TYPE_CHECKING:
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["read_last_vacuum", "write_last_vacuum"]

_log = logging.getLogger("adelta.log")

_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_MOST = 4096  # bytes


async def read_last_vacuum(store: ObjectStore) -> int | None:
    """The last version whose removed files a VACUUM has deleted; None where nothing tells.

    Raises:
        StorageError: the store refused or failed.
    """
    try:
        data = await store.get_range(LAST_VACUUM_INFO_PATH, 0, _MOST)
        version = orjson.loads(data)[_VERSION]
    except (ObjectNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return version if type(version) is int and version >= 0 else None


async def write_last_vacuum(state: LogState, version: int) -> None:
    """Say how far this VACUUM of the table of `state` has come, as far as the store lets us.

    Raises:
        TableNotFoundError: the table was dropped meanwhile.
    """
    store = state.store
    try:
        await store.put(LAST_VACUUM_INFO_PATH, orjson.dumps({_VERSION: version}))
        await take_back_if_gone(state, [LAST_VACUUM_INFO_PATH])
    except StorageError as error:
        _log.warning("%s: the next lite VACUUM has to read more: %s", store.uri, error)
