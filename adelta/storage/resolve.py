"""From an address to the store behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.storage.addresses import Place
from adelta.storage.allowed_roots import local_roots
from adelta.storage.given_options import GivenOptions
from adelta.storage.option_names import MEMORY_LIMIT, check_names_known
from adelta.storage.providers import provider_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["open_store"]


def open_store(uri: str, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store whose root is at `uri`. It does no I/O before its first request.

    Options that are for stores of another scheme are ignored. `memory_limit`, such as ``4GiB``, is
    what one thing of the table's log or files is decoded in at most: half of the memory of the
    machine or its container by default.

    Raises:
        InvalidOptionError: the scheme or a storage option is unknown, or an option has a wrong
            value.
    """
    options = storage_options or {}
    check_names_known(options)
    if not uri:
        raise InvalidOptionError("the address is empty: give a path or a URI")
    limit = GivenOptions(options).size(*MEMORY_LIMIT)
    local_roots(options)  # which are held to be right for every kind of store
    store = provider_of(uri).open(uri, Place.of(uri), options)
    store.memory_limit = limit
    return store
