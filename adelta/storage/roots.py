"""The stores that one table's files lie in: its own, and others that absolute paths lead to.

What a log says of paths is not trusted. A relative path stays below the table's root, whatever it
is made of. An absolute one, which shallow clones have, may lead to any object that the table's
storage options open, with one exception: only a table on the local disk leads to local files, so
that nobody who can write to a bucket can have a reader's own files read. A path that begins with
``/`` is in the same file system or bucket as the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError, InvalidTableError, UnsupportedFeatureError
from adelta.storage.object_path import check_path
from adelta.storage.resolve import is_absolute_uri, open_store, split_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["StoreRoots"]

_SHOWN = 300
_LONGEST = 8192  # characters; file systems and buckets end well below


class StoreRoots:
    """Finds the store of a file action's path; every other root is opened once."""

    def __init__(self, store: ObjectStore, options: Mapping[str, str] | None = None) -> None:
        self.store = store
        self._options = options
        self._others: dict[str, ObjectStore] = {}

    def locate(self, path: str, decoded: str) -> tuple[ObjectStore, str]:
        """The store and the path in it, for a `path` as the log has it and `decoded` once.

        Raises:
            InvalidTableError: the path names no object that the table may have.
            UnsupportedFeatureError: the path is a URI of a scheme that adelta does not read.
        """
        if is_absolute_uri(path):
            try:
                root, below = split_uri(path)
            except InvalidOptionError as error:
                raise self._unknown(path, error) from error
        elif decoded.startswith("/"):
            root, below = self._top(), decoded[1:]
        else:
            return self.store, self._checked(decoded, path)
        if root == "file:///" and not self._is_local:
            raise InvalidTableError(
                f"{self.store.uri}: the log names the local file {path[:_SHOWN]!r}, which a table "
                "in another store may not; restore the table to an earlier version, or remove the "
                "file from its log"
            )
        below = self._checked(below, path)
        if root not in self._others:
            try:
                self._others[root] = open_store(root, self._options)
            except InvalidOptionError as error:
                raise self._unknown(path, error) from error
        return self._others[root], below

    @property
    def _is_local(self) -> bool:
        return self.store.uri.startswith("file:")

    def _top(self) -> str:
        """The root of the file system or bucket that the table is in."""
        if self._is_local:
            return "file:///"
        scheme, _, rest = self.store.uri.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"

    def _unknown(self, path: str, error: InvalidOptionError) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"{self.store.uri}: the log names the file {path[:_SHOWN]!r}, which adelta cannot "
            f"open: {str(error)[:_SHOWN]}. Read the table with Spark, or copy it whole"
        )

    def _checked(self, below: str, path: str) -> str:
        if len(below) > _LONGEST:
            raise InvalidTableError(
                f"{self.store.uri}: the log names a file by {len(below):,} characters that begin "
                f"with {path[:_SHOWN]!r}; no store has such a file. Restore the table to an "
                "earlier version, or remove the file from its log"
            )
        try:
            return check_path(below)
        except InvalidOptionError as error:
            raise InvalidTableError(
                f"{self.store.uri}: the log names the file {path[:_SHOWN]!r}, which is no path of "
                "an object: it has an empty segment, '.', '..' or a zero byte. Restore the table "
                "to an earlier version, or remove the file from its log"
            ) from error

    async def aclose(self) -> None:
        """Close every store."""
        for store in (self.store, *self._others.values()):
            await store.aclose()
