"""Lakes with tables that a commit owner, or a catalog, decides on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta import Lake, write_table
from adelta.commit import owner_registry
from adelta.errors import StorageError
from adelta.storage.local import LocalStore
from tests.support.catalogs import SqliteCatalog
from tests.support.commit_owners import MemoryOwner
from tests.support.managed_tables import NeverPublishing, created, handle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def owner() -> Iterator[MemoryOwner]:
    name = f"owner-{uuid.uuid4()}"
    yield MemoryOwner(name, backfills=True).register()  # which it does when it is asked to
    owner_registry._registered.pop(name, None)


def told(changes: tuple[adelta.TableChange, ...]) -> list[tuple[str, str, int | None]]:
    return [(each.kind, each.name, each.version) for each in changes]


async def test_commits_that_an_owner_has_not_published_are_told(
    tmp_path: Path, owner: MemoryOwner
) -> None:
    """From the takeover of a table to its release, and whether or not others are quiet."""
    for name in ("mine", "owned"):
        await write_table(tmp_path / name, ROWS)
    async with Lake(tmp_path) as lake:
        assert told(await lake.refresh()) == [("added", "mine", 0), ("added", "owned", 0)]
        await adelta.adopt_table(tmp_path / "owned", owner.name)
        assert told(await lake.refresh()) == [("updated", "owned", 1)]
        for version in (2, 3):
            await write_table(tmp_path / "owned", ROWS)
            assert told(await lake.refresh()) == [("updated", "owned", version)]
        log = tmp_path / "owned" / "_delta_log"
        assert not (log / f"{3:020}.json").exists()
        assert (await lake.table("owned").snapshot()).version == 3
        await write_table(tmp_path / "mine", ROWS)
        assert told(await lake.refresh()) == [("updated", "mine", 1)]
        assert await lake.refresh() == ()
        await adelta.release_table(tmp_path / "owned")
        assert told(await lake.refresh()) == [("updated", "owned", 4)]
        await write_table(tmp_path / "owned", ROWS)
        asked = len(owner.asked)
        assert told(await lake.refresh()) == [("updated", "owned", 5)]
        assert await lake.refresh() == ()
        assert len(owner.asked) == asked
        assert [(each.name, each.version) async for each in lake.tables()] == [
            ("mine", 1),
            ("owned", 5),
        ]


async def test_commits_that_an_owner_took_inline_are_told_when_it_has_published_them(
    tmp_path: Path, owner: MemoryOwner
) -> None:
    """One listing of a log shows nothing of such an owner."""
    owner.inline = True
    await write_table(tmp_path / "t", ROWS)
    await adelta.adopt_table(tmp_path / "t", owner.name)
    async with Lake(tmp_path) as lake:
        assert told(await lake.refresh()) == [("added", "t", 1)]
        await write_table(tmp_path / "t", ROWS)
        assert await lake.refresh() == ()
        assert (await lake.table("t").snapshot()).version == 2
        await adelta.checkpoint(tmp_path / "t")  # for which all is published
        assert told(await lake.refresh()) == [("updated", "t", 2)]


async def test_an_owner_that_does_not_answer_fails_its_tables_alone(
    tmp_path: Path, owner: MemoryOwner
) -> None:
    for name in ("mine", "owned"):
        await write_table(tmp_path / name, ROWS)
    await adelta.adopt_table(tmp_path / "owned", owner.name)
    await write_table(tmp_path / "owned", ROWS)

    async def down(what: str) -> None:
        raise StorageError("ask again in a moment")

    async with Lake(tmp_path) as lake:
        assert told(await lake.refresh()) == [("added", "mine", 0), ("added", "owned", 2)]
        owner.hook = down
        await write_table(tmp_path / "mine", ROWS)
        assert told(await lake.refresh()) == [("updated", "mine", 1), ("failed", "owned", 2)]
        owner.hook = None
        await write_table(tmp_path / "owned", ROWS)
        assert told(await lake.refresh()) == [("updated", "owned", 3)]


async def test_a_table_that_moves_to_another_owner_is_followed_there(
    tmp_path: Path, owner: MemoryOwner
) -> None:
    other = MemoryOwner(f"other-{uuid.uuid4()}", backfills=True).register()
    await write_table(tmp_path / "t", ROWS)
    await adelta.adopt_table(tmp_path / "t", owner.name)
    async with Lake(tmp_path) as lake:
        assert told(await lake.refresh()) == [("added", "t", 1)]
        await adelta.adopt_table(tmp_path / "t", other.name)
        await write_table(tmp_path / "t", ROWS)
        assert told(await lake.refresh()) == [("updated", "t", 3)]
    owner_registry._registered.pop(other.name)


async def test_commits_that_only_a_catalog_knows_are_told(tmp_path: Path) -> None:
    catalog = SqliteCatalog(str(tmp_path / "catalog.db"))
    (tmp_path / "lake").mkdir()
    store = LocalStore(tmp_path / "lake" / "t")
    await created(catalog, store)
    await write_table(tmp_path / "lake" / "other", ROWS)
    async with Lake(tmp_path / "lake", catalogs={"t": catalog}) as lake:
        assert told(await lake.refresh()) == [("added", "other", 0), ("added", "t", 0)]
        await write_table(handle(NeverPublishing(store), catalog), ROWS)
        assert told(await lake.refresh()) == [("updated", "t", 1)]
        assert (await lake.table("t").snapshot()).version == 1
        assert await lake.refresh() == ()
