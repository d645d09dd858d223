"""DROP TABLE: all of a table goes, and nothing else."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    AdeltaError,
    InvalidUseError,
    ProtocolChangedError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.depth import cases
from tests.support.races import OvertakenStore
from tests.support.stores import FailingStore, Fault, Request, WrappedStore, copy_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from adelta.progress import Progress

R = TypeVar("R")
ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})


async def test_a_table_goes_with_its_files_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    root, other = tmp_path / "table", tmp_path / "other"
    other.mkdir()
    (other / "x").write_bytes(b"x")
    for _ in range(12):
        await adelta.write_table(root, ROWS, partition_by=["p"])
    (root / "_SUCCESS").write_bytes(b"")
    (root / "p=a" / ".x.crc").write_bytes(b"")
    planned = await adelta.drop_table(root, dry_run=True)
    assert (planned.num_files, planned.dry_run) == (26, True)
    (root / "link").symlink_to(other)
    done = await adelta.drop_table(root)
    assert done.num_files == 26
    assert os.listdir(root) == ["link"]
    assert (other / "x").exists()
    with pytest.raises(TableNotFoundError):
        await adelta.drop_table(root)


async def test_a_file_that_another_writer_begins_during_a_drop_stays(tmp_path: Path) -> None:
    root = tmp_path / "table"
    await adelta.write_table(root, ROWS, partition_by=["p"])
    old, begun = (root / "p=a" / f".adelta-tmp-{digit * 16}" for digit in "01")
    old.write_bytes(b"half")
    os.utime(old, (1, 1))

    def begin(progress: Progress) -> None:
        if progress.phase == "deleting" and not begun.exists():
            begun.parent.mkdir(exist_ok=True)
            begun.write_bytes(b"half")

    await adelta.drop_table(root, on_progress=begin)
    assert [path for path in root.rglob("*") if path.is_file()] == [begun]


async def test_a_checkpoint_that_a_killed_drop_has_left_over_another_table_goes_alone() -> None:
    store = MemoryStore()
    async with Table(store.uri, store=store) as table:
        await adelta.write_table(table, ROWS)

        class Left(WrappedStore):
            """The last thing that is deleted stays."""

            async def delete(self, paths: Iterable[str]) -> None:
                await self.inner.delete([p for p in paths if not p.endswith(".checkpoint.parquet")])

        await adelta.drop_table(Table(store.uri, store=Left(store)))
    (left,) = [m.path async for page in store.list() for m in page]
    data = await store.get(left)
    await store.delete([left])
    async with Table(store.uri, store=store) as table:
        await adelta.write_table(table, ROWS)
    await store.put(left, data)
    async with Table(store.uri, store=store) as table:
        await adelta.drop_table(table)
    async with Table(store.uri, store=store) as table:
        assert await (await table.snapshot()).scan().count() == ROWS.num_rows


async def test_what_is_no_table_or_holds_another_one_is_not_dropped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(TableNotFoundError):
        await adelta.drop_table(tmp_path)
    await adelta.write_table(tmp_path / "in" / "it", ROWS)
    await adelta.write_table(tmp_path, ROWS)
    with pytest.raises(InvalidUseError, match="in/it"):
        await adelta.drop_table(tmp_path)
    async with adelta.open_table(tmp_path) as table:
        assert await (await table.snapshot()).scan().count() == 2


async def test_a_writer_loses_the_race_and_a_reader_finds_no_rows() -> None:
    seen: list[int] = []

    class Watched(WrappedStore):
        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.kind == "delete" and request.path.endswith(".parquet") and not seen:
                async with Table(self.uri, store=self.inner) as reader:
                    seen.append(await (await reader.snapshot()).scan().count())
                with pytest.raises(ProtocolChangedError):
                    async with late:
                        await late.append(ROWS)
                with pytest.raises(UnsupportedFeatureError, match=r"adelta\.dropped"):
                    await adelta.write_table(Table(self.uri, store=self.inner), ROWS)
            return await run()

    store = MemoryStore()
    async with Table(store.uri, store=store) as writer:
        await adelta.write_table(writer, ROWS)
        await writer.snapshot()
        late = writer.transaction()
        async with Table(store.uri, store=Watched(store)) as table:
            await adelta.drop_table(table)
    assert seen == [0]
    assert not [meta async for page in store.list() for meta in page]


@pytest.mark.usefixtures("at_once")
async def test_one_that_breaks_off_leaves_no_rows_or_all_and_can_be_repeated() -> None:
    base = MemoryStore()
    async with Table(base.uri, store=base) as table:
        await adelta.write_table(table, ROWS, partition_by=["p"])
        await adelta.write_table(table, ROWS)
    for number in range(200):
        store = copy_of(base)
        failing = FailingStore(store, {number: Fault(after=bool(number % 2))})
        failed = False
        async with Table(store.uri, store=failing) as table:
            try:
                await adelta.drop_table(table)
            except AdeltaError:
                failed = True
        left = {meta.path async for page in store.list() for meta in page}
        if left:
            assert failed
            async with Table(store.uri, store=store) as table:
                try:
                    found = await (await table.snapshot()).scan().count()
                except TableNotFoundError:
                    assert not any(path.endswith((".json", ".parquet")) for path in left)
                else:
                    assert found in (0, 4)
                    await adelta.drop_table(table)
                    assert not [m async for page in store.list() for m in page]
        if failing.made <= number:
            return
    raise StorageError("it has no end")


class OneByOne(WrappedStore):
    """A store that deletes so many objects, the last ones of a batch first, and fails then."""

    def __init__(self, inner: MemoryStore, lives: int) -> None:
        super().__init__(inner)
        self.lives = lives

    async def delete(self, paths: Iterable[str]) -> None:
        for path in reversed([*paths]):
            self.lives -= 1
            if self.lives < 0:
                raise StorageError("an injected fault")
            await self.inner.delete([path])


async def test_a_writer_that_saw_the_table_leaves_nothing_where_it_was() -> None:
    for act in (adelta.delete, lambda table: adelta.write_table(table, ROWS)):
        store = MemoryStore()
        await adelta.write_table(Table(store.uri, store=store), ROWS, partition_by=["p"])

        async def drop(store: MemoryStore = store) -> None:
            await adelta.drop_table(Table(store.uri, store=store))

        async with Table(store.uri, store=OvertakenStore(store, drop)) as table:
            with pytest.raises(TableNotFoundError):
                await act(table)
        assert not [meta async for page in store.list("_delta_log/") for meta in page]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else writes."""
    monkeypatch.setattr(import_module("adelta.operations.drop_table"), "_STAYS", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("policy", [{"delta.checkpointPolicy": "v2"}, {}])
async def test_one_that_breaks_off_between_any_two_objects_can_be_repeated(
    policy: dict[str, str],
) -> None:
    base = MemoryStore()
    several = {"adelta.checkpoint.partSize": "1", "delta.checkpointInterval": "1", **policy}
    async with Table(base.uri, store=base) as table:
        await adelta.write_table(table, ROWS, partition_by=["p"], properties=several)
        await adelta.write_table(table, ROWS)
    for lives in range(8, 100, cases(1, 2)):
        store = copy_of(base)
        async with Table(store.uri, store=OneByOne(store, lives)) as table:
            with suppress(StorageError):
                await adelta.drop_table(table)
                assert lives > 10
                return
        async with Table(store.uri, store=store) as table:
            assert await (await table.snapshot()).scan().count() == 0, lives
            await adelta.drop_table(table)
        assert not [meta async for page in store.list() for meta in page], lives
