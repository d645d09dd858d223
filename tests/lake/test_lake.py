"""Lakes: tables are found, opened and watched by few requests, whatever the store."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta import Lake, write_table
from adelta.errors import InvalidOptionError, InvalidUseError, RootNotAllowedError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.azure_server import AzureLocation
    from tests.support.express_server import ExpressLocation
    from tests.support.gcs_server import GcsLocation
    from tests.support.s3_server import S3Location

ROWS = pa.table({"id": [1, 2]})
NAMES = ("a/orders", "a/trips", "b c/é", "top")


def told(changes: tuple[adelta.TableChange, ...]) -> list[tuple[str, str, int | None]]:
    return [(each.kind, each.name, each.version) for each in changes]


async def check_lake(root: str, options: dict[str, str] | None = None) -> None:
    """What holds of a lake in every store."""
    for name in NAMES:
        await write_table(f"{root}/{name}", ROWS, storage_options=options)
    async with Lake(root, options) as lake:
        assert told(await lake.refresh()) == [("added", name, 0) for name in NAMES]
        before = lake.store_stats.requests["list"]
        assert await lake.refresh() == ()
        # the root, two for each folder that is no table, and one a table
        assert lake.store_stats.requests["list"] - before == 1 + 2 * 2 + len(NAMES)
        table = lake.table("a/trips")
        await write_table(table, ROWS)
        await write_table(table, ROWS)
        assert told(await lake.refresh()) == [("updated", "a/trips", 2)]
        assert (await table.snapshot()).version == 2
        assert [each.name async for each in lake.tables()] == list(NAMES)
        await adelta.drop_table(f"{root}/top", storage_options=options)
        (gone,) = await lake.refresh()
        assert (gone.kind, gone.name, gone.previous_version) == ("dropped", "top", 0)
        assert await lake.refresh() == ()


async def test_tables_on_the_local_disk_are_found_and_watched(tmp_path: Path) -> None:
    await check_lake(str(tmp_path))


async def test_tables_in_s3_are_found_and_watched(s3_location: S3Location) -> None:
    await check_lake(s3_location.uri, s3_location.storage_options)


async def test_tables_in_google_cloud_storage_are_found_and_watched(
    gcs_location: GcsLocation,
) -> None:
    await check_lake(gcs_location.uri, gcs_location.storage_options)


async def test_tables_in_a_directory_bucket_are_found_and_watched(
    express_location: ExpressLocation,
) -> None:
    await check_lake(express_location.uri, express_location.storage_options)


async def test_tables_in_azure_are_found_and_watched(azure_location: AzureLocation) -> None:
    await check_lake(azure_location.uri, azure_location.storage_options)


async def test_a_table_made_anew_at_its_place_is_told_as_another_one(tmp_path: Path) -> None:
    await write_table(tmp_path / "t", ROWS)
    async with Lake(tmp_path) as lake:
        await lake.refresh()
        shutil.rmtree(tmp_path / "t")
        for _ in range(3):
            await write_table(tmp_path / "t", pa.table({"other": ["x"]}))
        assert told(await lake.refresh()) == [("replaced", "t", 2)]


async def test_what_tables_there_are_does_not_depend_on_what_was_known(tmp_path: Path) -> None:
    for name in ("p/child", "p/other", "q"):
        await write_table(tmp_path / name, ROWS)
    async with Lake(tmp_path) as lake:
        await lake.refresh()
        await write_table(tmp_path / "p", ROWS)  # the folder of two tables is one
        shutil.rmtree(tmp_path / "q")  # and where a table was is a folder of two
        for name in ("q/one", "q/x/y"):
            await write_table(tmp_path / name, ROWS)
        assert told(await lake.refresh()) == [
            ("added", "p", 0),
            ("dropped", "p/child", None),
            ("dropped", "p/other", None),
            ("dropped", "q", None),
            ("added", "q/one", 0),
            ("added", "q/x/y", 0),
        ]
        async with Lake(tmp_path) as fresh:
            known = [each.name async for each in lake.tables()]
            assert known == [each.name async for each in fresh.tables()] == ["p", "q/one", "q/x/y"]
        shutil.rmtree(tmp_path / "p" / "_delta_log")
        assert told(await lake.refresh()) == [
            ("dropped", "p", None),
            ("added", "p/child", 0),
            ("added", "p/other", 0),
        ]


async def test_what_one_table_fails_with_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        await write_table(tmp_path / name, ROWS)
    async with Lake(tmp_path) as lake:
        await lake.refresh()
        await write_table(tmp_path / "good", ROWS)
        log = tmp_path / "bad" / "_delta_log"
        log.rename(tmp_path / "kept")
        log.symlink_to(log)  # a circle
        log.unlink()
        log.symlink_to("/etc")  # leads out of the lake
        found = {each.name: each for each in await lake.refresh()}
        assert found["good"].kind == "updated"
        assert found["bad"].kind == "failed"
        assert isinstance(found["bad"].error, RootNotAllowedError)


async def test_two_at_once_are_told_everything_and_a_cancelled_look_loses_nothing(
    tmp_path: Path,
) -> None:
    await write_table(tmp_path / "t", ROWS)
    async with Lake(tmp_path) as lake:
        first = asyncio.ensure_future(lake.refresh())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        one, two = await asyncio.gather(lake.refresh(), lake.refresh())
        assert told(one) == told(two) == [("added", "t", 0)]


async def test_states_beyond_the_bound_go_and_come_back(tmp_path: Path) -> None:
    for number in range(4):
        await write_table(tmp_path / f"t{number}", ROWS)
    async with Lake(tmp_path, state_memory=1) as lake:
        tables = [lake.table(f"t{number}") for number in range(4)]
        for table in tables:
            assert (await table.snapshot()).version == 0
        assert len(lake._handles.states) == 1
        assert (await tables[0].snapshot()).version == 0


async def test_a_closed_lake_ends_what_is_under_way_and_its_tables(tmp_path: Path) -> None:
    await write_table(tmp_path / "t", ROWS)
    lake = Lake(tmp_path)
    table = lake.table("t")
    under_way = asyncio.ensure_future(lake.refresh())
    await asyncio.sleep(0)
    await lake.aclose()
    await lake.aclose()
    with pytest.raises(InvalidUseError, match="closed"):
        await under_way
    for use in (lake.refresh, table.snapshot):
        with pytest.raises(InvalidUseError, match="closed"):
            await use()


async def test_a_local_folder_that_is_not_there_is_no_empty_lake(tmp_path: Path) -> None:
    async with Lake(tmp_path / "misspelt") as lake:
        for _ in range(2):
            with pytest.raises(FileNotFoundError, match="misspelt: there is no such folder"):
                await lake.refresh()
        with pytest.raises(FileNotFoundError, match="there is no such folder"):
            [each async for each in lake.tables()]
        (tmp_path / "misspelt").mkdir()
        assert await lake.refresh() == ()
        await write_table(f"{tmp_path}/misspelt/t", ROWS)
        assert told(await lake.refresh()) == [("added", "t", 0)]
        shutil.rmtree(tmp_path / "misspelt")
        assert [each.kind for each in await lake.refresh()] == ["dropped"]


async def test_a_root_that_is_a_table_and_odd_names_are_refused(tmp_path: Path) -> None:
    await write_table(tmp_path / "t", ROWS)
    async with Lake(tmp_path / "t") as lake:
        with pytest.raises(InvalidUseError, match="is a table"):
            await lake.refresh()
        for name in ("", "../x", "a//b", "/a"):
            with pytest.raises(InvalidOptionError):
                lake.table(name)


def test_the_blocking_lake_does_the_same(tmp_path: Path) -> None:
    adelta.sync.write_table(tmp_path / "t", ROWS)
    with adelta.sync.Lake(tmp_path) as lake:
        assert told(lake.refresh()) == [("added", "t", 0)]
        assert [each.name for each in lake.tables()] == ["t"]
        assert lake.table("t").snapshot().version == 0
