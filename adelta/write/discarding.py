"""Data files that no commit will add, deleted again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import to_the_end
from adelta.errors import StorageError
from adelta.kernel.deletable import parse_written_path
from adelta.log.deletion import delete_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.storage.object_store import ObjectStore

__all__ = ["discard_data_files"]

_log = logging.getLogger("adelta.write")

_DISCARD_SECONDS = 30.0


async def discard_data_files(store: ObjectStore, paths: Iterable[str]) -> None:
    """Delete files that no commit will ever add, as far as the store lets us in reasonable time.

    Paths that adelta writes nothing to are left. What is left behind harms nobody: no log names it,
    and vacuum removes it.
    """
    # The caller may be cancelled, once and more often, and still has to clean up after itself.
    await to_the_end(_discard(store, list(paths)))


async def _discard(store: ObjectStore, paths: list[str]) -> None:
    written = [file for path in paths if (file := parse_written_path(path)) is not None]
    with anyio.move_on_after(_DISCARD_SECONDS):
        try:
            await delete_objects(store, written)
        except StorageError as error:
            _log.warning("%s: uncommitted data files were left behind: %s", store.uri, error)
