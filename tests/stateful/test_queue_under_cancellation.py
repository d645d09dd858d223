"""Tasks of one process commit, in groups or alone, and are cancelled at any moment.

Whatever happens, the rows of a transaction are in the table where it knows its version, and once;
where it knows none they are not, and their files are gone.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

from adelta.errors import CommitOutcomeUnknownError
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectMeta
    from adelta.transaction import Transaction

R = TypeVar("R")
SCHEMA = pa.schema([("id", pa.int64())])
TASKS = 12


class HesitantStore(WrappedStore):
    """Requests take a random time; now and then the answer to a commit is lost."""

    def __init__(self, inner: MemoryStore, chance: random.Random) -> None:
        super().__init__(inner)
        self.chance = chance

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        await asyncio.sleep(self.chance.random() * 0.004)
        result = await run()
        await asyncio.sleep(self.chance.random() * 0.002)
        return result

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        made = await super().put_if_absent(path, data)
        if self.chance.random() < 0.1:
            raise CommitOutcomeUnknownError("no answer came")
        return made


@pytest.mark.parametrize("seed", range(25))
async def test_what_a_transaction_knows_of_itself_is_true(seed: int) -> None:
    chance = random.Random(seed)
    inner = MemoryStore()
    await TableBuilder.create(SCHEMA, store=inner)
    tables = [Table(inner.uri, store=HesitantStore(inner, chance)) for _ in range(2)]
    begun: dict[int, Transaction] = {}

    async def write(number: int, *, group: bool) -> None:
        table = tables[number % 2]  # two queues, which race each other
        await asyncio.sleep(chance.random() * 0.01)
        async with table.transaction(group_commit=group) as tx:
            begun[number] = tx
            await tx.append(pa.table({"id": [number]}, schema=SCHEMA))

    tasks = [
        asyncio.ensure_future(write(number, group=chance.random() < 0.7)) for number in range(TASKS)
    ]
    cancelled = chance.sample(range(TASKS), 5)
    for number in cancelled:
        await asyncio.sleep(chance.random() * 0.01)
        tasks[number].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    for number, result in enumerate(done):
        assert result is None or (
            number in cancelled and isinstance(result, asyncio.CancelledError)
        )
    committed = sorted(number for number, tx in begun.items() if tx.version is not None)
    assert set(range(TASKS)) - set(cancelled) <= set(committed)
    fresh = Table(inner.uri, store=inner)
    snapshot = await fresh.snapshot()
    rows = (await snapshot.scan().to_arrow()).column("id").to_pylist()
    assert sorted(rows) == committed
    files = [m.path async for page in inner.list("") for m in page if m.path.endswith(".parquet")]
    data = [path for path in files if not path.startswith("_delta_log/")]
    assert len(data) == len(committed), "what was not committed left no file"
