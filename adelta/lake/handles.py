"""TableHandles: handles on tables of one store, with its connections, and a bound on their states.

There is one handle a table, of which others are lent: what one of them learns all know. It goes
when its state is let go of and nobody has one of these; where it has connections of its own, to a
commit owner or to what keeps writers apart, it stays until all are closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, ref

from adelta.commit.ownable_store import OwnableStore
from adelta.log.kept_states import KeptStates
from adelta.storage.forwarding_store import BorrowedStore
from adelta.storage.resolve import open_store
from adelta.table import Table, lent, table_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.commit.catalog import CatalogClient
    from adelta.log.latest import LatestState
    from adelta.storage.object_store import ObjectStore

__all__ = ["TableHandles"]


class TableHandles:
    """Handles on the tables in folders of `store`; their states take `limit` bytes at most."""

    def __init__(
        self,
        store: ObjectStore,
        options: Mapping[str, str],
        catalogs: Mapping[str, CatalogClient],
        limit: int,
    ) -> None:
        self._store = store
        self._options = options
        self._catalogs = catalogs
        self._open: WeakValueDictionary[str, Table] = WeakValueDictionary()
        self._to_close: set[Table] = set()
        self._others: dict[tuple[str, frozenset[tuple[str, str]]], ObjectStore] = {}
        self.states = KeptStates(limit, self._forgotten)

    def lend(self, name: str) -> Table:
        """A handle on the table in a folder. No I/O. Raises: InvalidOptionError."""
        table = self._open.get(name)
        if table is None:
            table = self._open[name] = self._made(name)
        return lent(table)

    def _made(self, name: str) -> Table:
        holder: ref[Table] | None = None

        def used(source: LatestState) -> None:
            table = None if holder is None else holder()
            if table is not None:
                self.states.used(source, table)

        made = table_in(
            self._store.below(name),
            self._options,
            self._catalogs.get(name),
            used=used,
            opens=self._opened,
        )
        holder = ref(made)
        return made

    def _opened(self, address: str, options: Mapping[str, str]) -> ObjectStore:
        """The store at a root outside of a table, which all tables share that lead there."""
        key = (address, frozenset(options.items()))
        if key not in self._others:
            self._others[key] = open_store(address, options)
        return BorrowedStore(self._others[key])

    def _forgotten(self, table: object) -> None:
        assert isinstance(table, Table)
        store = table.store
        if not isinstance(store, OwnableStore) or store.has_connections:
            self._to_close.add(table)

    async def aclose(self) -> None:
        """Close all handles, and those that were lent."""
        tables = {*self._open.values(), *self._to_close}
        self._to_close.clear()
        self.states.clear()
        for table in tables:
            await table.aclose()
        others, self._others = self._others, {}
        for store in others.values():
            await store.aclose()
