"""A process is killed at each request in turn, and on local disk at each call to the system.

Afterwards the table reads as before or as after, never between; its log and files are whole; and
the next writer succeeds. The table is at a version before one that has a checkpoint, so that all
the upkeep after a commit is met as well.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from adelta.errors import VersionNotFoundError
from adelta.operations import fsck, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.victim import SCHEMA, Death, Victims, rows, victims

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.s3_server import S3Location

WRITES = {"clean-up": 5}  # of the table before the operation, each of two rows; else 2
AFTER = {
    "append": [1, 2, 3, 4, 5, 6],
    "overwrite": [7],
    "delete": [2, 3, 4],
    "checkpoint": [1, 2, 3, 4],
    "clean-up": [*range(1, 11)],
}
pytestmark = pytest.mark.timeout(300)
MOST = 300  # requests or calls of an operation


@pytest.fixture(scope="module")
def killed() -> Iterator[Victims]:
    with victims() as process:
        yield process


def before(operation: str) -> list[int]:
    return [*range(1, 2 * WRITES.get(operation, 2) + 1)]


async def base_of(operation: str) -> Mapping[str, bytes]:
    """The objects of a table of which each third commit gets a checkpoint."""
    store = MemoryStore()
    await TableBuilder.create(
        SCHEMA, store=store, partition_by=["p"], properties={"delta.checkpointInterval": "3"}
    )
    table = Table(store.uri, store=store)
    for number in before(operation)[::2]:
        await write_table(table, rows(number, number + 1))
    paths = [meta.path async for page in store.list("") for meta in page]
    return {path: await store.get(path) for path in paths}


async def copy(objects: Mapping[str, bytes], uri: str, options: Mapping[str, str]) -> None:
    async with Table(uri, options) as table:
        for path, data in objects.items():
            await table.store.put(path, data)


async def ids(table: Table) -> list[int]:
    scan = (await table.snapshot()).scan(columns=["id"])
    return sorted((await scan.to_arrow()).column("id").to_pylist())


async def check_survives(death: Death, *, ended: bool) -> list[int]:
    """The table is as before or as after, and whole, and the next writer succeeds; its ids."""
    async with Table(death.uri, death.options) as table:
        found = await ids(table)
        assert found in (before(death.operation), AFTER[death.operation]), death
        if ended:
            assert found == AFTER[death.operation]
        if ended and death.operation == "clean-up":
            with pytest.raises(VersionNotFoundError):
                await table.snapshot(version=0)
        await write_table(table, rows(99))
        assert await ids(table) == [*found, 99]
        if not death.options:  # on a store that is far this takes long
            report = await fsck(table)
            assert not report.problems, (death, report.problems)
    return found


async def kill_at_each(
    killed: Victims, root: str, operation: str, moment: str, options: Mapping[str, str]
) -> None:
    base, seen = await base_of(operation), []
    for number in count():
        assert number < MOST
        death = Death(f"{root}/{moment}-{number}", operation, number, moment, dict(options))
        await copy(base, death.uri, options)
        ended = not killed.meet(death)
        seen.append(await check_survives(death, ended=ended))
        if ended:
            break
    assert len(seen) > 4, "it has requests"
    assert seen[0] == before(operation)


@pytest.mark.parametrize("operation", list(AFTER))
async def test_a_killed_process_leaves_a_whole_table_on_local_disk(
    killed: Victims, tmp_path: Path, operation: str
) -> None:
    await kill_at_each(killed, str(tmp_path), operation, "call", {})


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("operation", ["append", "overwrite", "checkpoint", "clean-up"])
async def test_a_killed_process_leaves_a_whole_table_on_s3(
    killed: Victims, s3_location: S3Location, operation: str, moment: str
) -> None:
    options = s3_location.storage_options
    await kill_at_each(killed, s3_location.uri, operation, moment, options)
