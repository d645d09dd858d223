"""The stores that one table's files lie in: its own, and those of roots that its reader allows.

What a log says of paths is not trusted: it is input from whoever may write to the table. A relative
path stays below the table's root, whatever it is made of, and so does an absolute one that leads
there. Any other, as shallow clones have them, is followed only below a root that the caller names
in the storage option `allowed_roots`, and is an error before anything is opened elsewhere.

Keys go no further than what they were given for. Another root in the table's own bucket is opened
with the table's storage options; one elsewhere with the options given beside its address, and if
there are none, as the environment says, like any table that is opened without options.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    RootNotAllowedError,
    UnsupportedFeatureError,
)
from adelta.storage.addresses import Place, is_absolute_uri, split_uri
from adelta.storage.allowed_roots import ALLOWED_ROOTS, AllowedRoot, allowed_roots, option_text
from adelta.storage.object_path import check_path
from adelta.storage.option_names import MEMORY_LIMIT, plain_name
from adelta.storage.providers import LOCAL
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["StoreRoots"]

_SHOWN = 300
_LONGEST = 8192  # characters; file systems and buckets end well below


class StoreRoots:
    """Finds the store of a file action's path; every other root is opened once."""

    def __init__(
        self,
        store: ObjectStore,
        options: Mapping[str, str] | None = None,
        *,
        opens: Callable[[str, Mapping[str, str]], ObjectStore] = open_store,
    ) -> None:
        """The roots of the table in `store`, and those that the storage options allow.

        `opens` gives the store at another root, by its address and options.

        Raises:
            InvalidOptionError: the option `allowed_roots` has a wrong value.
        """
        self.store = store
        self._opens = opens
        self._options = options or {}
        self._allowed = allowed_roots(self._options)
        self._others: dict[Place, ObjectStore] = {}

    def locate(self, path: str, decoded: str) -> tuple[ObjectStore, str]:
        """The store and the path in it, for a `path` as the log has it and `decoded` once.

        Raises:
            InvalidTableError: the path names no object.
            RootNotAllowedError: it leads out of the table, and to no root that is allowed.
            UnsupportedFeatureError: the path is a URI of a scheme that adelta does not read.
        """
        if is_absolute_uri(path):
            try:
                top, below = split_uri(path)
                place = Place.of(top)
            except InvalidOptionError as error:
                raise self._unknown(path, error) from error
        elif decoded.startswith("/"):
            own = Place.of(self.store.uri)
            place, below = own.top, decoded[1:]
        else:
            return self.store, self._checked(decoded, path)
        place = replace(place, path=self._checked(below, path))
        if (own_path := self._own_path(place)) is not None:
            return self.store, own_path
        found = [(place.below(root.place), root) for root in self._allowed]
        nearest = min(
            ((below, root) for below, root in found if below is not None),
            key=lambda each: len(each[0]),
            default=None,
        )
        if nearest is None:
            raise self._not_allowed(path, place)
        return self._opened(nearest[1]), nearest[0]

    def _own_path(self, place: Place) -> str | None:
        """The path below the table's root, None where the place lies outside."""
        own = Place.of(self.store.uri)
        path = place.below(own)
        if path is None and own.provider is place.provider is LOCAL:
            path = place.below(Place.of(os.path.realpath(own.address)))  # as other writers call it
        return path

    def _opened(self, root: AllowedRoot) -> ObjectStore:
        if root.place not in self._others:
            self._others[root.place] = self._opens(root.place.address, self._options_of(root))
        return self._others[root.place]

    def _options_of(self, root: AllowedRoot) -> Mapping[str, str]:
        if root.place.provider is LOCAL:
            return self._options  # no keys; links may lead to every root that is allowed
        if root.options is None and root.place.shares_store_with(Place.of(self.store.uri)):
            return self._options
        limits = {n: value for n, value in self._options.items() if plain_name(n) in MEMORY_LIMIT}
        return {**limits, **(root.options or {})}

    def _not_allowed(self, path: str, place: Place) -> RootNotAllowedError:
        folders = place.path.split("/")[:-1]
        while folders and "=" in folders[-1]:  # a partition of the table that it belongs to
            folders.pop()
        root = replace(place, path="/".join(folders))
        keys = ""
        option = place.provider.key_option
        if option is not None and not place.shares_store_with(Place.of(self.store.uri)):
            keys = (
                "; it is read with the keys of the environment, or with those given for it: "
                f'{ALLOWED_ROOTS}={{"{root.address}": {{"{option}": ...}}}}'
            )
        return RootNotAllowedError(
            f"{self.store.uri}: the log names {path[:_SHOWN]!r}, which is not below the table's "
            "root. Whoever writes to the table chose that path; if they may have you read there, "
            "as of a shallow clone whose origin it is, open the table with the storage option "
            f"{ALLOWED_ROOTS}={option_text(root)}{keys}"
        )

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
