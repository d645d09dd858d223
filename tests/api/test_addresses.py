"""Every verb takes the table's address where it takes the table, and closes what it opens."""

from __future__ import annotations

import asyncio
import inspect
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.errors import AdeltaError, TableNotFoundError
from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from tests.api.test_arguments import ENOUGH

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

VERBS = [
    name
    for name in adelta.__all__
    if inspect.isfunction(getattr(adelta, name))
    and name.islower()
    and next(iter(inspect.signature(getattr(adelta, name)).parameters), None) == "table"
]
FEED = {"delta.enableChangeDataFeed": "true"}


class Handles(list[adelta.Table]):
    """The handles that were opened, and how many of them are closed."""

    @property
    def open(self) -> int:
        return sum(not handle._closed for handle in self)

    async def all_closed(self) -> None:
        """Wait for them: the loop soon closes a stream that was left without `aclosing`."""
        async with asyncio.timeout(60):
            while self.open:  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.001)


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> Handles:
    opened = Handles()
    made: Callable[..., None] = adelta.Table.__init__

    def record(self: adelta.Table, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        opened.append(self)

    monkeypatch.setattr(adelta.Table, "__init__", record)
    return opened


@pytest.fixture
async def uri() -> str:
    name = f"memory://addresses-{uuid4()}"
    for number in range(3):
        rows = pa.table({"id": pa.array(range(number, 20))})
        await adelta.write_table(name, rows, properties=None if number else FEED)
    return name


def test_there_are_verbs() -> None:
    assert {"changes", "tail", "history", "detail", "checkpoint", "fsck"} <= {*VERBS}


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("face", [adelta, adelta.sync])
def test_a_verb_takes_a_table_or_its_address_and_storage_options(face: Any, name: str) -> None:
    parameters = inspect.signature(getattr(face, name)).parameters
    expected = "TableOrAddress" if face is adelta else "Table | str | os.PathLike[str]"
    assert parameters["table"].annotation == expected
    options = parameters["storage_options"]
    assert options.annotation == "Mapping[str, str] | None"
    assert options.kind is inspect.Parameter.KEYWORD_ONLY
    assert options.default is None


async def test_what_verbs_open_they_close(uri: str, handles: Handles) -> None:
    assert [entry.version for entry in await adelta.history(uri, limit=2)] == [2, 1]
    assert (await adelta.detail(uri)).version == 2
    assert (await adelta.fsck(uri)).problems == ()
    assert (await adelta.compact_log(uri)).num_commits == 3
    assert (await adelta.checkpoint(uri)).version == 2
    assert (await adelta.cleanup_log(uri)).num_commits == 0
    assert (len(handles), handles.open) == (6, 0)
    with pytest.raises(TableNotFoundError):
        await adelta.detail(uri + "-not")
    assert (len(handles), handles.open) == (7, 0)


def stream(name: str, uri: str) -> AsyncGenerator[Any, None]:
    made: Any = adelta.tail(uri, poll=0.01) if name == "tail" else adelta.changes(uri)
    return made


async def consume(name: str, uri: str, *, pause: float = 0) -> None:
    async with aclosing(stream(name, uri)) as items:
        async for _ in items:
            await asyncio.sleep(pause)


@pytest.mark.parametrize("name", ["tail", "changes"])
async def test_a_stream_that_is_left_closes_its_table(
    name: str, uri: str, handles: Handles
) -> None:
    async with aclosing(stream(name, uri)) as items:
        await anext(items)
        assert (len(handles), handles.open) == (1, 1)
    assert handles.open == 0
    async for _ in stream(name, uri):
        break
    await handles.all_closed()
    assert len(handles) == 2


@pytest.mark.parametrize("name", ["tail", "changes"])
async def test_a_stream_that_is_cancelled_closes_its_table(
    name: str, uri: str, handles: Handles
) -> None:
    for pause in (
        0.0,
        10.0,
    ):  # while it makes an item, or waits for one; and while it has given one
        for steps in range(0, 40, 3):
            task = asyncio.create_task(consume(name, uri, pause=pause))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert handles.open == 0
    assert handles


@pytest.mark.parametrize("name", ["tail", "changes"])
async def test_a_stream_that_fails_closes_its_table(name: str, uri: str, handles: Handles) -> None:
    await MemoryStore(uri.removeprefix("memory://")).put(commit_path(2), b'{"add":')
    with pytest.raises(AdeltaError):
        await consume(name, uri)
    assert (len(handles), handles.open) == (1, 0)


async def test_a_tail_that_is_cancelled_while_it_waits_closes_its_table(
    uri: str, handles: Handles
) -> None:
    commits: Any = adelta.tail(uri, since="latest", poll=0.01)
    waiting = asyncio.create_task(anext(commits))
    await asyncio.wait([waiting], timeout=0.1)
    assert handles.open == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (len(handles), handles.open) == (1, 0)


def test_the_blocking_face_takes_addresses_too(tmp_path: Path, handles: Handles) -> None:
    uri = str(tmp_path / "table")
    for number in range(3):
        rows = pa.table({"id": [number]})
        adelta.sync.write_table(uri, rows, properties=None if number else FEED)
    assert [entry.version for entry in adelta.sync.history(uri)] == [2, 1, 0]
    assert sum(batch.num_rows for batch in adelta.sync.changes(uri)) == 3
    with adelta.sync.tail(uri) as commits:
        assert [next(commits).version for _ in range(3)] == [0, 1, 2]
    assert handles.open == 0


async def test_a_handle_that_is_given_stays_open(uri: str) -> None:
    async with adelta.open_table(uri) as table:
        await adelta.history(table)
        await adelta.detail(table)
        feed: Any = adelta.changes(table)
        async with aclosing(feed) as items:
            await anext(items)
        assert not table._closed


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("face", ["async", "blocking"])
async def test_a_verb_takes_a_path_of_this_machine(face: str, name: str, tmp_path: Path) -> None:
    """There is no table, which is seen under the address that the path is."""
    path = tmp_path / "lake"
    arguments = ENOUGH.get(name, {})

    def blocking() -> None:
        made = getattr(adelta.sync, name)(path, **arguments)
        if name == "merge":
            made.when_matched_delete().execute()
        if name in ("tail", "changes"):
            next(iter(made))

    async def call() -> None:
        if face == "blocking":
            await asyncio.to_thread(blocking)
        elif name in ("tail", "changes"):
            await anext(getattr(adelta, name)(path))
        elif name == "merge":
            await adelta.merge(path, **arguments).when_matched_delete().execute()
        else:
            await getattr(adelta, name)(path, **arguments)

    if name == "write_table":
        await call()
        assert (path / "_delta_log" / "00000000000000000000.json").exists()
    else:
        with pytest.raises(TableNotFoundError, match=re.escape(str(path))):
            await call()
