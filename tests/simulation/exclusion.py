"""What keeps the writers of a simulated table from overwriting each other, and their handles."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from adelta.commit.check_then_put import check_then_put
from adelta.commit.coordinated_store import CoordinatedStore
from adelta.commit.dynamodb import DynamoDbCoordinator
from adelta.commit.ownable_store import OwnableStore
from adelta.table import Table
from tests.simulation.catalog import Catalog, CatalogClient
from tests.simulation.dynamo import SimulatedDynamoTable
from tests.simulation.owner import SimulatedOwner
from tests.simulation.postgres import LockServer, SimulatedLock
from tests.simulation.store import Bucket, SimulatedStore
from tests.simulation.weather import CALM
from tests.support.catalogs import MANAGED

if TYPE_CHECKING:
    from adelta.storage.dynamodb import DynamoTable, Item
    from tests.simulation.store import Network
    from tests.simulation.weather import Weather
    from tests.simulation.world import World

__all__ = ["EXCLUDES", "FOLDER", "Exclusion", "drawn_exclusion"]

EXCLUDES = ("store", "postgres", "dynamodb", "catalog", "owner", "owner-dynamodb")
"""What `Exclusion` has."""
FOLDER = "table/"
"""Where the table is in the bucket."""
_URI = "s3://simulated/table"
_INSTANCES = 2
_DRAWN = ("store", "store", *EXCLUDES[2:])
_LOCKED = 0.3


def drawn_exclusion(draw: random.Random, seed: int) -> str:
    """What excludes writers in the run of a seed, the store more often than others."""
    drawn = draw.choice(_DRAWN)
    has_lock = random.Random(f"lock {seed}").random() < _LOCKED
    return "postgres" if drawn == "store" and has_lock else drawn


class Exclusion:
    """A bucket, and what excludes writers of the table that is there.

    That is the store's conditional puts, or, on a store that has none, a lock in PostgreSQL or
    entries in DynamoDB; a catalog that manages the table, or two instances of adelta's own commit
    owner, to which a table of entries in DynamoDB may belong, too (owner-dynamodb). Nothing does
    where they are `overwriting`.
    """

    def __init__(
        self, world: World, excludes: str, *, overwriting: bool = False, page: int = 1000
    ) -> None:
        conditional = excludes not in ("dynamodb", "postgres") and not overwriting
        self.world = world
        self.bucket = Bucket(world, conditional=conditional, page_size=page)
        self.by_entries = "dynamodb" in excludes
        self.items: dict[str, Item] = {}
        self.catalog = Catalog(world) if excludes == "catalog" else None
        self.locks = LockServer(world) if excludes == "postgres" else None
        self.owner: SimulatedOwner | None = None
        if excludes.startswith("owner"):
            self.owner = SimulatedOwner(world, self.bucket, CALM)

    def table(self, bucket: Bucket, network: Network) -> Table:
        """A handle over a network on the table that a bucket has, which may be a copy of this."""
        store = SimulatedStore(bucket, network, _URI, FOLDER)
        if self.catalog is not None:
            return Table(store.uri, store=store, catalog=CatalogClient(self.catalog, network))
        if bucket is not self.bucket:
            return Table(store.uri, store=store)
        if self.locks is not None:
            lock = SimulatedLock(store, self.locks, network)
            return Table(store.uri, store=CoordinatedStore(store, lock, conditional_put=False))
        if not self.by_entries:
            return Table(store.uri, store=store)
        items = cast("DynamoTable", SimulatedDynamoTable(bucket, network, self.items))
        create = partial(check_then_put, store)
        by_entries = DynamoDbCoordinator(store, items, create=create, table_path=store.uri)
        coordinated = CoordinatedStore(store, by_entries, conditional_put=False)
        if self.owner is None:
            return Table(store.uri, store=coordinated)
        ownable = OwnableStore(coordinated, store, store.put_if_absent, {}, conditional_put=True)
        return Table(store.uri, store=ownable)

    @property
    def properties(self) -> dict[str, str]:
        """What a new table says of who excludes its writers."""
        if self.owner is not None:
            return self.owner.properties
        return dict(MANAGED) if self.catalog is not None else {}

    @property
    def is_served(self) -> bool:
        """Whether there is an owner, a catalog or a server of locks, which can fail."""
        return any(each is not None for each in (self.owner, self.catalog, self.locks))

    async def start(self) -> None:
        """Let the owner, if there is one, serve: for the first time or after `stop`."""
        if self.owner is not None:
            await self.owner.start(_INSTANCES)

    def stop(self) -> None:
        """Let no owner serve."""
        if self.owner is not None:
            self.owner.stop()

    def bearable(self, weather: Weather) -> Weather:
        """The weather, without the fault that what excludes writers cannot bear.

        Under a lock that is lost, that is a put which comes when another one has the lock.
        """
        return weather if self.locks is None else replace(weather, late=0.0)

    def meet(self, weather: Weather) -> None:
        """Let the network between the owner and its clients be like that."""
        if self.owner is not None:
            self.owner.meet(weather)

    async def fail_now_and_then(self) -> None:
        """Kill one instance of the owner after the other, or have the others fail over."""
        if self.owner is not None:
            await self.owner.kill_now_and_then()
        while self.catalog is not None:
            await asyncio.sleep(self.world.random.uniform(1.0, 10.0))
            self.catalog.fail_over(self.world.random.uniform(0.0, 2.0))
        while self.locks is not None:
            await asyncio.sleep(self.world.random.uniform(5.0, 60.0))
            self.locks.fail_over()
