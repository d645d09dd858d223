"""A table of DynamoDB, as its coordinator uses one: conditional writes and consistent reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.store import Request

if TYPE_CHECKING:
    from adelta.storage.dynamodb import Item
    from tests.simulation.store import Bucket, Network

__all__ = ["SimulatedDynamoTable"]

_FOLDER = ".dynamodb/"


class SimulatedDynamoTable:
    """One process's way to the items, which lie in the bucket beside the objects, out of sight."""

    name = "delta_log"

    def __init__(self, bucket: Bucket, network: Network, items: dict[str, Item]) -> None:
        self._bucket = bucket
        self._network = network
        self._items = items

    def _changed(self, key: str) -> None:
        self._bucket.put(_FOLDER + key, repr(sorted(self._items[key].items())).encode())

    async def get(self, *keys: str) -> Item | None:
        """The item of the key."""
        key = "|".join(keys)
        request = Request("get", _FOLDER + key)
        return await self._network.carry(request, lambda: self._items.get(key))

    async def last(self, partition: str) -> Item | None:
        """The item of the partition whose sort key is the highest."""

        def find() -> Item | None:
            keys = [key for key in self._items if key.startswith(f"{partition}|")]
            return self._items[max(keys)] if keys else None

        return await self._network.carry(Request("list", f"{_FOLDER}{partition}|"), find)

    async def put_new(self, item: Item) -> bool:
        """Put the item if there is none with its key."""
        key = f"{item['tablePath']}|{item['fileName']}"

        def put() -> bool:
            if key in self._items:
                return False
            self._items[key] = dict(item)
            self._changed(key)
            return True

        return await self._network.carry(Request("create", _FOLDER + key), put)

    async def update(self, item: Item, *, where: Item) -> bool:
        """Set the other attributes of the item with this key, if it has those of `where`."""
        key = f"{item['tablePath']}|{item['fileName']}"

        def change() -> bool:
            found = self._items.get(key)
            if found is None or any(found.get(name) != where[name] for name in where):
                return False
            self._items[key] = {**found, **item}
            self._changed(key)
            return True

        return await self._network.carry(Request("put", _FOLDER + key), change)

    async def aclose(self) -> None:
        """There are no connections."""
