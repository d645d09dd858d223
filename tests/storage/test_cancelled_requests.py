"""Stores behind HTTP whose callers are cancelled at any step: what is left of that is nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import ObjectExistsError, ObjectNotFoundError
from adelta.storage import gcs_upload, hdfs
from adelta.storage.caching_store import CachingStore
from adelta.storage.disk_cache import DiskCache
from adelta.storage.forwarding_store import innermost
from adelta.storage.gcs import GcsStore
from adelta.storage.hdfs import HdfsStore
from tests.storage.object_store_suite import paths_of, pieces
from tests.support.cancellation import Steps, all_but, run_to_its_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from adelta.storage.http_store import HttpObjectStore
    from adelta.storage.object_store import ObjectStore
    from tests.support.gcs_server import FakeGcs
    from tests.support.hdfs_server import FakeHdfs

PIECE = 256 << 10
DATA = bytes(range(256)) * (4 * PIECE // 256) + b"the end"
UNIQUE = "part-00000-3f2b8c1e-9d4a-4f6b-8a71-0c5d2e9f7b64.c000.snappy.parquet"


async def get(store: ObjectStore) -> None:
    spans = [(0, 10), (200_000, 500_000), (900_000, 900_010)]
    found = await store.get_ranges(UNIQUE, spans)
    assert [bytes(each) for each in found] == [DATA[start:end] for start, end in spans]


async def put(store: ObjectStore) -> None:
    await store.put_if_absent("new", b"new")


async def put_stream(store: ObjectStore) -> None:
    await store.put_stream(
        "new", pieces(*[DATA[at : at + 100_000] for at in range(0, 10**6, 10**5)])
    )


async def close(store: ObjectStore) -> None:
    await store.aclose()


@pytest.fixture(params=["gcs", "hdfs"])
def opened(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[[], HttpObjectStore], Callable[[], list[str]]]:
    """What opens a store of two slots at a fresh place, and what the server has unfinished."""
    if request.param == "gcs":
        gcs: FakeGcs = request.getfixturevalue("fake_gcs")
        monkeypatch.setattr(gcs_upload, "PIECE", PIECE)
        place = gcs.location()
        options = {**place.storage_options, "concurrency_limit": "2"}

        def begun() -> list[str]:
            return [each.name for each in gcs.sessions.values() if each.made is None]

        return lambda: GcsStore.from_options(place.bucket, place.prefix, options), begun
    cluster: FakeHdfs = request.getfixturevalue("fake_hdfs")
    monkeypatch.setattr(hdfs, "PIECE", PIECE)
    monkeypatch.setattr(hdfs, "_PAUSES", (0.01, 0.02, 0.1))
    where = cluster.location()
    given = {**where.storage_options, "concurrency_limit": "2"}
    return lambda: HdfsStore.from_options("nameservice1", where.prefix, given), cluster.hidden


@pytest.mark.parametrize("cached", [False, True], ids=["", "cached"])
@pytest.mark.parametrize("operation", [get, put, put_stream, close], ids=lambda each: each.__name__)
async def test_cancelled_at_any_step_an_operation_leaves_nothing_behind(
    opened: tuple[Callable[[], HttpObjectStore], Callable[[], list[str]]],
    operation: Callable[[ObjectStore], Awaitable[None]],
    cached: bool,
    tmp_path: Path,
) -> None:
    opens, begun = opened
    near = opens()
    await near.put(UNIQUE, DATA)
    wrong: list[str] = []
    at = 0
    while True:
        at += 1
        inner = opens()
        store: Any = inner
        if cached:
            store = CachingStore(inner, DiskCache(tmp_path / str(at), 64 << 20))
        if at % 2 or operation is close:  # else the connection is still to be made
            await store.head(UNIQUE)
        others = asyncio.all_tasks()
        with Steps(at=at) as steps:
            error = await run_to_its_end(asyncio.ensure_future(act(steps, operation(store))))
            steps.victim = None
            await all_but(others)
        assert error is None or isinstance(error, asyncio.CancelledError), error
        if operation is close:
            pool = innermost(store)._client._pool  # type: ignore[attr-defined]
            wrong += [f"step {at}: it is open"] * (pool._bound is not None)
        else:
            wrong += [f"step {at}: {each}" for each in await what_is_wrong(store, near)]
        await store.aclose()
        wrong += [f"step {at}: {each} is left" for each in begun()]
        if steps.count < at:
            break
    await near.aclose()
    assert not wrong, "\n".join(wrong)


async def act(steps: Steps, operation: Awaitable[None]) -> None:
    steps.victim = asyncio.current_task()
    await operation


async def what_is_wrong(store: Any, near: ObjectStore) -> list[str]:
    wrong = []
    bound = innermost(store)._client._pool._bound  # type: ignore[attr-defined]
    if bound is not None and bound.slots._free != 2:
        wrong.append(f"{bound.slots._free} slots are free")
    if bound is not None and bound.session.connector._acquired:
        wrong.append("a connection is not given back")
    if await store.get_range(UNIQUE, 5, 300_005) != DATA[5:300_005]:
        wrong.append("a read gets other bytes")
    with contextlib.suppress(ObjectNotFoundError):
        found = await near.get("new")
        if found not in (b"new", DATA[: 10**6]):
            wrong.append("an object is torn")
        with pytest.raises(ObjectExistsError):
            await store.put_if_absent("new", b"other")
    await near.delete(["new"])
    if await paths_of(near) != [UNIQUE]:
        wrong.append("there are other objects")
    return wrong
