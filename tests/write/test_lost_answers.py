"""A put that was answered "exists" although it is ours: nothing of it is deleted unseen."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import CommitOutcomeUnknownError, ObjectExistsError, StorageError
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.operations import write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Repeating(WrappedStore):
    """Says of the next commit that it exists, right after putting it; reads may fail then."""

    def __init__(self, *, blind: bool) -> None:
        super().__init__(MemoryStore(f"lost-{uuid.uuid4().hex}", "t"))
        self.blind = blind
        self.armed = self.met = False

    async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
        log = request.path.startswith(LOG_DIR) and request.path.endswith(".json")
        if self.met and self.blind and log and request.kind == "get":
            raise StorageError("the store cannot be read")
        answer = await run()
        if self.armed and log and request.kind == "put":
            self.armed, self.met = False, True
            raise ObjectExistsError(request.path)
        return answer


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("blind", [False, True])
async def test_what_is_taken_for_lost_keeps_its_files_until_it_is_seen_to_be(
    blind: bool, group: bool
) -> None:
    store = Repeating(blind=blind)
    table = Table(store.uri, store=store)
    await write_table(table, rows(0))
    store.armed = True
    work = [write_table(table, rows(n), group_commit=group) for n in (1, 2, 3)]
    ends = await asyncio.gather(*work, return_exceptions=True)
    store.met = False
    unknown = [end for end in ends if isinstance(end, CommitOutcomeUnknownError)]
    refused = [end for end in ends if isinstance(end, StorageError)]
    assert not [e for e in ends if isinstance(e, BaseException) and e not in unknown + refused]
    found = (await (await Table(store.uri, store=store).snapshot()).scan().to_arrow())["id"]
    if blind:  # nobody can tell, so nothing is deleted
        assert unknown
        assert 0 in found.to_pylist()
    else:
        assert not unknown + refused
        assert sorted(found.to_pylist()) == [0, 1, 2, 3]


async def test_a_damaged_commit_behind_ours_does_not_make_ours_a_lost_one() -> None:
    """The first attempt is lost; the second one is ours, and is answered "exists"."""
    store = Repeating(blind=False)
    table = Table(store.uri, store=store)
    await write_table(table, rows(0))
    await table.snapshot()
    await write_table(Table(store.uri, store=store.inner), rows(1))
    broken = commit_path(3)

    async def damage(request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
        answer = await run()
        if request.kind == "put" and request.path == commit_path(2):
            await store.inner.put(broken, b'{"add": {"path": ')
            raise ObjectExistsError(request.path)
        return answer

    store.request = damage  # type: ignore[method-assign]
    assert (await write_table(table, rows(2))).version == 2
    await store.inner.delete([broken])
    found = await (await Table(store.uri, store=store.inner).snapshot()).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2]
