"""The stores that one table's files lie in: its own, and others that absolute paths lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.storage.resolve import is_absolute_uri, open_store, split_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["StoreRoots"]


class StoreRoots:
    """Finds the store of a file action's path; every other root is opened once."""

    def __init__(self, store: ObjectStore, options: Mapping[str, str] | None = None) -> None:
        self.store = store
        self._options = options
        self._others: dict[str, ObjectStore] = {}

    def locate(self, path: str, decoded: str) -> tuple[ObjectStore, str]:
        """The store and the path in it, for a `path` as the log has it and `decoded` once.

        Raises:
            InvalidOptionError: the path is a URI of an unknown scheme.
        """
        if is_absolute_uri(path):
            root, below = split_uri(path)
        elif decoded.startswith("/"):
            root, below = "file:///", decoded.lstrip("/")
        else:
            return self.store, decoded
        if root not in self._others:
            self._others[root] = open_store(root, self._options)
        return self._others[root], below

    async def aclose(self) -> None:
        """Close every store."""
        for store in (self.store, *self._others.values()):
            await store.aclose()
