"""A table is dropped and made anew before any request of somebody who works on the one that was."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    TableNotFoundError,
)
from adelta.kernel.checksum.json import decode
from adelta.kernel.log_path import LOG_DIR, LogFileKind, commit_path, parse_log_path
from adelta.log.gone import DROPPED
from adelta.log.listing import read_hint
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from adelta.write import submission
from tests.support.clock import ManualClock
from tests.support.created import create_in
from tests.support.stores import WrappedStore, copy_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.object_store import ObjectMeta
    from tests.support.stores import Request

    Work = Callable[[Table], Awaitable[object]]

ROWS = pa.table({"id": [1, 2]})
_MANIFEST, _VACUUMED = "_symlink_format_manifest/manifest", f"{LOG_DIR}_last_vacuum_info"
COMMITS = 3  # of the table that is made anew


async def append(table: Table) -> None:
    await adelta.write_table(table, ROWS)


async def clean_up(table: Table) -> None:
    await adelta.cleanup_log(table, retention=timedelta(days=1))


async def vacuum(table: Table) -> None:
    await adelta.vacuum(table)


KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "sidecars": {"delta.checkpointPolicy": "v2"},
    "manifests": {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
    "compacted": {"adelta.logCompactionInterval": "2", "delta.checkpointInterval": "7"},
}
WORK: dict[str, tuple[Work, tuple[str, ...]]] = {
    "append": (append, ("plain", "manifests", "compacted")),
    "checkpoint": (adelta.checkpoint, ("plain", "sidecars")),
    "compact_log": (adelta.compact_log, ("plain",)),
    "cleanup_log": (clean_up, ("plain", "sidecars")),
    "vacuum": (vacuum, ("plain",)),
    "generate_manifest": (adelta.generate_manifest, ("plain",)),
    "drop_table": (adelta.drop_table, ("plain", "sidecars")),
}


LASTING = {  # a drop takes less than no time, and no look holds for any
    "adelta.operations.drop_table": "_STAYS",
    "adelta.commit.filesystem": "LOOK_HOLDS",
    "adelta.write.upkeep": "LOOK_HOLDS",
}


class Overtaken(WrappedStore):
    """A store in which something happens before its request number `at`."""

    def __init__(self, inner: MemoryStore, at: int, happens: Callable[[], Awaitable[None]]):
        super().__init__(inner)
        self.at, self.happens, self.asked = at, happens, 0
        self.overtakes: Request | None = None
        self.drops_another = False

    async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
        self.asked += 1
        if self.asked == self.at:
            self.overtakes = request
            await self.happens()
        return await run()

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        self.drops_another |= self.asked >= self.at and DROPPED.encode() in data
        return await super().put_if_absent(path, data)


async def an_old_table(properties: dict[str, str]) -> MemoryStore:
    """One whose first versions, and what was removed from them, have expired."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    async with Table(store.uri, store=store) as table:
        await create_in(table, ROWS.schema, properties)
        for _ in range(2):
            await append(table)
        await adelta.delete(table, "id = 1")
        await adelta.checkpoint(table)
        clock.advance(days=40)
        await append(table)
        await adelta.checkpoint(table)
        clock.advance(days=40)
        await append(table)
    return store


async def make_anew(store: MemoryStore, properties: dict[str, str]) -> None:
    async with Table(store.uri, store=store) as table:
        await adelta.drop_table(table)
    async with Table(store.uri, store=store) as table:
        await create_in(table, ROWS.schema, properties)
        for _ in range(COMMITS):
            await append(table)


async def what_is_wrong(store: MemoryStore) -> list[str]:
    """What there is in a table that was made anew that is none of its own."""
    try:
        async with Table(store.uri, store=store) as table:
            there = await table.snapshot()
            rows = await there.scan().count()
    except AdeltaError as error:
        return [repr(error)]
    if rows < COMMITS * ROWS.num_rows or rows % ROWS.num_rows:
        return [f"{rows} rows"]
    found = []
    hint = await read_hint(store)
    if hint is not None and hint.version > there.version:
        found.append(f"a hint of version {hint.version}")
    paths = {meta.path async for page in store.list() for meta in page}
    for file in filter(None, map(parse_log_path, sorted(paths))):
        if file.version > there.version:
            found.append(file.path)
        elif file.kind is LogFileKind.CHECKSUM:
            told = decode(await store.get(file.path), file.path)
            found += [file.path] if told.metadata.id != there.metadata.id else []
    if _VACUUMED in paths:
        found.append(_VACUUMED)
    if _MANIFEST in paths:
        lines = (await store.get(_MANIFEST)).decode().split()
        found += [line for line in lines if line[len(store.uri) + 1 :] not in paths]
    return found


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, (_, kinds) in WORK.items() for kind in kinds]
)
async def test_whoever_works_on_the_table_before_leaves_the_new_one_alone(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = WORK[name][0]
    old = await an_old_table(KINDS[kind])
    for module, seconds in LASTING.items():
        monkeypatch.setattr(import_module(module), seconds, 0.0)
    wrong, at = [], 0
    while True:
        at += 1
        store = copy_of(old)
        overtaken = Overtaken(store, at, partial(make_anew, store, KINDS[kind]))
        async with Table(store.uri, store=overtaken) as table:
            with suppress(AdeltaError):
                await work(table)
        if overtaken.overtakes is None:
            break
        if overtaken.drops_another or overtaken.overtakes.kind == "delete":
            continue  # it has found the new one; nor can it look while a delete is under way
        wrong += [(at, overtaken.overtakes, each) for each in await what_is_wrong(store)]
    assert wrong == []


async def test_a_commit_in_the_gap_of_a_log_that_is_being_deleted_is_not_acknowledged() -> None:
    """What it is based on has a checkpoint yet, whose turn to be deleted comes later."""
    store = MemoryStore()
    async with Table(store.uri, store=store) as table:
        await append(table)
        await adelta.checkpoint(table)
        tx = table.transaction()
        await tx.__aenter__()
        await tx.append(ROWS)
        await store.put(commit_path(2), await store.get(commit_path(0)))  # by another process
        await store.delete([commit_path(0)])
        with pytest.raises(CommitOutcomeUnknownError, match="stands behind"):
            await tx.__aexit__(None, None, None)


@pytest.mark.parametrize("at_most", [100, 0], ids=["looked at", "listed"])
@pytest.mark.parametrize("is_there", [False, True], ids=["nothing is there", "another is there"])
async def test_whoever_makes_a_table_has_lost_its_rows_to_a_drop_of_one_made_meanwhile(
    is_there: bool, at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drop takes what lies below the root, also what is written for a table that is to come."""
    monkeypatch.setattr(submission, "_LOOKED_AT", at_most)
    store = MemoryStore()

    class Meanwhile(WrappedStore):
        happened = False

        async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
            done = await run()
            if request.kind == "put" and request.path.startswith("part-") and not self.happened:
                self.happened = True
                async with Table(store.uri, store=store) as table:
                    await append(table)
                    await adelta.drop_table(table)
                if is_there:
                    async with Table(store.uri, store=store) as table:
                        await append(table)
            return done

    with pytest.raises(CommitConflictError, match="repeat the work"):
        await append(Table(store.uri, store=Meanwhile(store)))
    async with Table(store.uri, store=store) as table:
        if is_there:
            assert await (await table.snapshot()).scan().count() == ROWS.num_rows
        else:
            with pytest.raises(TableNotFoundError):
                await table.snapshot()
