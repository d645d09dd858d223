"""What is written beside commits does not outlive a table that is dropped meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import TableNotFoundError
from adelta.kernel.log_path import LOG_DIR
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.compaction_writer import write_compaction
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.created import create_in
from tests.support.stores import WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore
    from tests.support.stores import Request

ROWS = pa.table({"id": [1, 2]})
KINDS: dict[str, dict[str, str]] = {
    "classic": {},
    "sidecars": {"delta.checkpointPolicy": "v2"},
    "parts": {"adelta.checkpoint.partSize": "1"},
}


class Overtaken(WrappedStore):
    """A store in which something happens before an object is put with `name` in its path."""

    def __init__(self, inner: ObjectStore, name: str, happens: Callable[[], Awaitable[Any]]):
        super().__init__(inner)
        self.name, self.happens, self.waits = name, happens, True

    async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
        if request.kind == "put" and self.name in request.path and self.waits:
            self.waits = False
            await self.happens()
        return await run()


async def a_table(store: ObjectStore, commits: int, properties: dict[str, str]) -> None:
    async with Table(store.uri, store=store) as table:
        await create_in(table, ROWS.schema, properties)
        for _ in range(commits):
            await adelta.write_table(table, ROWS)


async def log_of(store: ObjectStore) -> list[str]:
    return [m.path async for page in store.list(LOG_DIR, recursive=False) for m in page]


async def drop(store: ObjectStore) -> None:
    async with Table(store.uri, store=store) as table:
        await adelta.drop_table(table)


async def compact(state: LogState) -> object:
    return await write_compaction(state, 1, state.version)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_checkpoint_that_comes_when_the_table_is_dropped_is_taken_back(kind: str) -> None:
    store = MemoryStore()
    await a_table(store, 3, KINDS[kind])
    state = await load_state(Overtaken(store, "checkpoint", lambda: drop(store)))
    with pytest.raises(TableNotFoundError, match="was dropped"):
        await write_checkpoint(state)
    assert await log_of(store) == []


@pytest.mark.parametrize("commits", [0, 2, 3, 5])
@pytest.mark.parametrize(
    ("write", "name"),
    [(write_checkpoint, "checkpoint"), (compact, "compacted")],
    ids=["checkpoint", "compaction"],
)
async def test_so_is_what_comes_when_another_table_is_there(
    write: Callable[[LogState], Awaitable[object]], name: str, commits: int
) -> None:
    store = MemoryStore()

    async def made_anew() -> None:
        await drop(store)
        await a_table(store, commits, {})

    await a_table(store, 3, {})
    with pytest.raises(TableNotFoundError, match="made anew"):
        await write(await load_state(Overtaken(store, name, made_anew)))
    assert not [path for path in await log_of(store) if name in path]
    async with Table(store.uri, store=store) as table:
        assert await (await table.snapshot()).scan().count() == commits * ROWS.num_rows


async def test_what_others_write_while_a_drop_waits_is_deleted() -> None:
    store = MemoryStore()
    await a_table(store, 3, {})
    await write_checkpoint(await load_state(store))
    (path,) = (path for path in await log_of(store) if "00003.checkpoint" in path)
    data = await store.get(path)

    class Late(WrappedStore):
        """The checkpoint of the version before comes when the drop has deleted it."""

        comes = True

        async def delete(self, paths: Iterable[str]) -> None:
            todo = [*paths]
            await super().delete(todo)
            if path in todo and self.comes:
                self.comes = False
                await store.put(path, data)

    await drop(Late(store))
    assert await log_of(store) == []


async def test_a_checkpoint_whose_commit_was_cleaned_up_stays() -> None:
    store = MemoryStore()
    await a_table(store, 3, {})
    state = await load_state(store, version=2)
    await state.files()
    await store.delete([path for path in await log_of(store) if "00003" not in path])
    await write_checkpoint(state)
    assert any("00002.checkpoint" in path for path in await log_of(store))
