"""Who alters a table dies at each request in turn: rows stay, and who comes next can go on."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import AdeltaError
from adelta.kernel.table_features import find_feature, is_supported
from adelta.operations import change_column, delete, drop_feature, rename_column, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.faults.test_append import DyingStore
from tests.support.depth import cases
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectStore

    Act = Callable[[Table], Awaitable[object]]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "p": ["x", "y", "x"]})
PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableTypeWidening": "true",
}
KEPT = [(1, "x"), (3, "x")]


def opened(store: ObjectStore) -> Table:
    # options of its own each: the dead do not hold the queue of the living
    return Table("memory://t", {"aws_region": str(id(store))}, store=store)


async def prepared() -> MemoryStore:
    """A table with a column of another name in files, narrower files, and a deletion vector."""
    store = MemoryStore()
    table = opened(store)
    await write_table(table, ROWS, partition_by=["p"], properties=PROPERTIES)
    await rename_column(table, "id", "key")
    await change_column(table, "key", type="bigint")
    await delete(table, "key = 2")
    return store


async def rows(store: MemoryStore) -> list[tuple[Any, ...]]:
    found = await (await opened(store).snapshot()).scan().to_arrow()
    return sorted(zip(*found.to_pydict().values(), strict=True))


@pytest.mark.parametrize(
    "name", ["columnMapping", "deletionVectors", "rowTracking", "typeWidening"]
)
@pytest.mark.parametrize("last_takes_effect", [False, True])
async def test_a_feature_is_dropped_by_whoever_calls_again(
    name: str, last_takes_effect: bool
) -> None:
    feature = find_feature(name)
    assert feature is not None
    counted = CountingStore(await prepared())
    act: Act = partial(drop_feature, name=name)
    await act(opened(counted))
    for lives in range(0, counted.count, 1 + counted.count // cases(25, 12)):
        store = await prepared()
        dying = DyingStore(store, lives, last_takes_effect=last_takes_effect)
        with suppress(AdeltaError):  # but for what comes after the last commit
            await act(opened(dying))
        assert await rows(store) == KEPT
        await drop_feature(opened(store), name, if_exists=True)
        snapshot = await opened(store).snapshot()
        assert not is_supported(feature, snapshot.protocol)
        assert await rows(store) == KEPT
