"""Creating an object in a store that has no conditional puts: look, and put where nothing is.

The look is two at once, at the name and at a listing: an object that either shows is there. (Delta
Spark's log stores ask for the name alone.) Between the look and the put another writer may put too,
and one of the two is overwritten. It is safe only where something else keeps the others out.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import together
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

__all__ = ["check_then_put", "is_shown", "is_there"]


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
    if await is_shown(store, path):
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


async def is_shown(store: ObjectStore, path: str) -> bool:
    """Whether the store has an object at `path`, by what it says of that, or by a listing.

    For what cannot be taken back: stores deny now and then, by name, what they list.
    """
    return any(await together(partial(is_there, store, path), partial(_is_listed, store, path)))


async def _is_listed(store: ObjectStore, path: str) -> bool:
    async with aclosing(store.list_unordered(path, recursive=False)) as pages:
        async for page in pages:
            if any(meta.path == path for meta in page):
                return True
    return False
