"""A client dies at each request of a change of owners: whoever comes next reads and writes on."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

import adelta
from adelta.commit import owner_registry
from adelta.errors import AdeltaError, StorageError
from adelta.storage.resolve import open_store
from adelta.table import Table
from tests.support.commit_owners import MemoryOwner
from tests.support.depth import cases
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from adelta.storage.object_store import ObjectStore

R = TypeVar("R")
OWNER = "delta.managedCommit.commitOwner"
SCHEMA = pa.schema([("id", pa.int64())])


@dataclass
class Life:
    """So many requests, of the store or of an owner, are answered; the last one may take effect."""

    requests: int
    last_takes_effect: bool
    used: int = 0

    def step(self) -> bool:
        """Whether the request is carried out, though nobody hears of it. Raises: StorageError."""
        self.used += 1
        if self.used <= self.requests:
            return False
        if self.used == self.requests + 1 and self.last_takes_effect:
            return True
        raise StorageError("dead")


class MortalStore(WrappedStore):
    def __init__(self, inner: ObjectStore, life: Life) -> None:
        super().__init__(inner)
        self.life = life

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if self.life.step():
            await run()
            raise StorageError("dead")
        return await run()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


async def append(uri: str, *ids: int) -> None:
    await adelta.write_table(uri, rows(*ids), mode="append")


async def ids(uri: str) -> list[int]:
    async with adelta.open_table(uri) as table:
        return sorted((await (await table.snapshot()).scan().to_arrow())["id"].to_pylist())


@pytest.fixture
def owners() -> Iterator[tuple[MemoryOwner, MemoryOwner]]:
    made = [MemoryOwner(f"owner-{uuid.uuid4()}").register() for _ in range(2)]
    yield made[0], made[1]
    for each in made:
        owner_registry._registered.pop(each.name, None)


@pytest.mark.parametrize("backfills", [False, True])
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("change", ["adopt", "release", "move"])
async def test_a_client_that_dies_leaves_a_table_that_is_read_and_written(
    owners: tuple[MemoryOwner, MemoryOwner], change: str, takes_effect: bool, backfills: bool
) -> None:
    owner, other = owners
    owner.backfills = other.backfills = backfills
    requests = 0
    while True:
        uri = f"memory://{uuid.uuid4()}/table"
        await append(uri, 0)
        if change != "adopt":
            await adelta.adopt_table(uri, owner.name)
        await append(uri, 1)
        life = Life(requests, takes_effect)
        table = Table(uri, store=MortalStore(open_store(uri), life))

        async def die(_what: str, life: Life = life) -> None:
            life.step()

        owner.hook = other.hook = die
        done = False
        with suppress(AdeltaError):
            if change == "release":
                await adelta.release_table(table)
            else:
                await adelta.adopt_table(table, (owner if change == "adopt" else other).name)
            done = True
        owner.hook = other.hook = None
        await append(uri, 2)
        assert await ids(uri) == [0, 1, 2], f"dead after {requests} requests"
        async with adelta.open_table(uri) as seen:
            snapshot = await seen.snapshot()
            named = snapshot.metadata.configuration.get(OWNER)
            wanted = {"adopt": owner.name, "release": None, "move": other.name}[change]
            before = None if change == "adopt" else owner.name
            assert named in (wanted, before)
            assert not done or named == wanted
            changed = named == wanted
            assert snapshot.version == (2 if change == "adopt" else 3) + changed
        if life.used <= requests:
            assert done
            return
        requests += cases(1, 3)
