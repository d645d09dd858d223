"""From an address to the store behind it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.storage.addresses import Place
from adelta.storage.allowed_roots import local_roots
from adelta.storage.given_options import GivenOptions
from adelta.storage.option_names import (
    CACHE_FOLDER,
    CACHE_SIZE,
    MEMORY_LIMIT,
    check_names_known,
)
from adelta.storage.providers import provider_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.disk_cache import DiskCache
    from adelta.storage.object_store import ObjectStore

__all__ = ["cache_of", "open_store"]

_CACHE = 16 << 30
_SMALLEST_CACHE = 64 << 20


def open_store(uri: str, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store whose root is at `uri`. It does no I/O before its first request.

    Options that are for stores of another scheme are ignored. `memory_limit`, such as ``4GiB``, is
    what one thing of the table's log or files is decoded in at most: half of the memory of the
    machine or its container by default. `adelta_cache_dir` has what never changes of stores behind
    HTTP kept in that folder, of `adelta_cache_size`, 16 GiB by default.

    Raises:
        InvalidOptionError: the scheme or a storage option is unknown, or an option has a wrong
            value.
    """
    options = storage_options or {}
    check_names_known(options)
    if not uri:
        raise InvalidOptionError("the address is empty: give a path or a URI")
    given = GivenOptions(options)
    limit = given.size(*MEMORY_LIMIT)
    cache = cache_of(given)
    local_roots(options)  # which are held to be right for every kind of store
    store = provider_of(uri).open(uri, Place.of(uri), options)
    store.memory_limit = limit
    return store if cache is None else _cached(store, cache)


def _cached(store: ObjectStore, cache: DiskCache) -> ObjectStore:
    """The store with a cache before it, where it is far."""
    from adelta.storage.caching_store import CachingStore
    from adelta.storage.http_store import HttpObjectStore

    return CachingStore(store, cache) if isinstance(store, HttpObjectStore) else store


def cache_of(given: GivenOptions) -> DiskCache | None:
    """The disk cache that the options want, or that the environment's ``ADELTA_CACHE_DIR`` does.

    Raises:
        InvalidOptionError: the folder is no absolute path, or the size is too small.
    """
    folder, size = given.text(CACHE_FOLDER), given.size(CACHE_SIZE)
    if folder is None:
        return None
    from adelta.storage.disk_cache import DiskCache

    folder = os.path.expanduser(folder)
    if not os.path.isabs(folder):
        raise InvalidOptionError(
            f"storage option {CACHE_FOLDER} is an absolute path, not {folder!r}: processes that "
            "share it may begin in other folders"
        )
    if size is not None and size < _SMALLEST_CACHE:
        raise InvalidOptionError(
            f"storage option {CACHE_SIZE} is at least 64MiB: less cannot hold what is read at once"
        )
    return DiskCache(folder, _CACHE if size is None else size)
