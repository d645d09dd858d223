"""When a disk cache is not gone by: where its bytes turn out damaged, or the store is checked.

An object of which only a part was fetched is held to no checksum of the store's. What became
damaged on its way would be answered with for as long as a cache has it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from adelta._concurrency import in_io_thread
from adelta.errors import InvalidTableError, OutOfMemoryError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from adelta.errors import AdeltaError
    from adelta.storage.object_store import ObjectStore

__all__ = ["distrust", "distrusting", "is_past_cache", "past_cache", "sound"]

_OF_DAMAGE = (InvalidTableError, OutOfMemoryError, UnsupportedFeatureError)
"""What damaged bytes make: a length or a codec is damaged as soon as a value."""

_past_cache: ContextVar[bool] = ContextVar("adelta: past the cache", default=False)


@contextmanager
def distrusting(store: ObjectStore, *paths: str) -> Iterator[None]:
    """Have a disk cache forget the objects where what is made of them fails. For worker threads."""
    try:
        yield
    except _OF_DAMAGE as error:
        distrust(store, paths, error)
        raise


@asynccontextmanager
async def sound(store: ObjectStore, *paths: str) -> AsyncIterator[None]:
    """As `distrusting`, on the event loop."""
    try:
        yield
    except _OF_DAMAGE as error:
        await in_io_thread(distrust, store, paths, error)
        raise


def distrust(store: ObjectStore, paths: tuple[str, ...], error: AdeltaError) -> None:
    """Have a disk cache forget the objects, of which `error` is then told so. Blocks."""
    nearby = None if _past_cache.get() else store.nearby
    forgotten = [] if nearby is None else [nearby.distrust(path) for path in paths]
    if any(forgotten):
        error.add_note("What the disk cache had of it has been deleted: read it once more.")


@contextmanager
def past_cache() -> Iterator[None]:
    """Inside, everything is read from the store itself, whatever a disk cache has of it."""
    before = _past_cache.set(True)
    try:
        yield
    finally:
        _past_cache.reset(before)


def is_past_cache() -> bool:
    """Whether the caller is inside of `past_cache`."""
    return _past_cache.get()
