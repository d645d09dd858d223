"""Creating an object in a store that has no conditional puts: look, and put where nothing is.

Between the look and the put another writer may put too, and one of the two is overwritten. It is
safe only where something else keeps the others out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import (
    CommitOutcomeUnknownError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = ["check_then_put", "is_there"]


async def check_then_put(
    store: ObjectStore,
    path: str,
    data: bytes,
    *,
    alone: Callable[[], Awaitable[None]] | None = None,
) -> ObjectMeta:
    """Put the object if there is none; `alone` raises where others are no longer kept out.

    Raises:
        ObjectExistsError: an object is there.
        CommitOutcomeUnknownError: the put failed, perhaps after it took effect.
        StorageError: the store refused; certainly nothing was written.
    """
    if await is_there(store, path):
        raise ObjectExistsError(f"there is an object {store.uri}/{path}")
    if alone is not None:
        await alone()
    try:
        return await store.put(path, data)
    except PermissionDeniedError:
        raise
    except StorageError as error:
        raise CommitOutcomeUnknownError(
            f"{store.uri}/{path} may or may not have been put: {error}"
        ) from error


async def is_there(store: ObjectStore, path: str) -> bool:
    """Whether there is an object at `path`."""
    try:
        await store.head(path)
    except ObjectNotFoundError:
        return False
    return True
