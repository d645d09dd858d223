"""B13-05, B13-06: many processes on one table that a catalog manages, and some that are killed."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

import pytest

from adelta.kernel.log_path import LOG_DIR, LogFileKind, parse_log_path
from adelta.operations import fsck, write_table
from adelta.storage.resolve import open_store
from tests.stateful.test_linearizability import check, run
from tests.support.appender import race
from tests.support.catalogs import CATALOG_OPTION, create_managed, open_managed
from tests.support.depth import cases
from tests.support.victim import SCHEMA as VICTIMS
from tests.support.victim import Death, Victims, rows, victims
from tests.support.workload import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.s3_server import S3Location

COMMITS = int(os.environ.get("ADELTA_TEST_COMMITS", cases(40, 20)))
STEP = cases(1, 3)  # requests
pytestmark = pytest.mark.timeout(600 if COMMITS < 100 else 24 * 3600)


@pytest.fixture
def database(tmp_path: Path) -> dict[str, str]:
    """The pseudo-option of a catalog in a database of its own."""
    return {CATALOG_OPTION: str(tmp_path / "catalog.db")}


async def published(uri: str, options: Mapping[str, str]) -> list[int]:
    """The versions whose commits are in the log, without the catalog."""
    store = open_store(uri, {k: v for k, v in options.items() if k != CATALOG_OPTION})
    paths = [meta.path async for page in store.list(LOG_DIR, recursive=False) for meta in page]
    await store.aclose()
    files = [file for file in map(parse_log_path, paths) if file is not None]
    return [file.version for file in files if file.kind is LogFileKind.COMMIT]


async def test_processes_that_race_on_local_disk_lose_no_row_and_double_none(
    tmp_path: Path, database: dict[str, str]
) -> None:
    uri = str(tmp_path / "table")
    result = await race(uri, writers=4, commits=4, options=database)
    result.check([f"w{number}" for number in range(4)], 4)
    assert await published(uri, database) == list(range(17))


@pytest.mark.parametrize("conditional_put", ["etag", "disabled"])
async def test_processes_that_race_on_s3_lose_no_row_and_double_none(
    s3_location: S3Location, database: dict[str, str], conditional_put: str
) -> None:
    """The catalog excludes writers; the store need not be able to."""
    uri, options = f"{s3_location.uri}/race", {**s3_location.storage_options, **database}
    options["aws_conditional_put"] = conditional_put
    result = await race(uri, writers=3, commits=4, options=options)
    result.check([f"w{number}" for number in range(3)], 4)
    assert await published(uri, options) == list(range(13))


async def test_changes_by_many_processes_are_linearizable(
    tmp_path: Path, database: dict[str, str]
) -> None:
    """The workload and its checker are those of ``tests/stateful``."""
    uri = str(tmp_path / "table")
    await create_managed(uri, SCHEMA, database, partition_by=("p",))
    history = await run(uri, COMMITS, database)
    await check(uri, database, history, COMMITS)


@pytest.fixture(scope="module")
def killed() -> Iterator[Victims]:
    with victims() as process:
        yield process


@pytest.mark.parametrize(
    ("operation", "moment"),
    [("append", "before"), ("append", "after"), ("append inline", "after"), ("delete", "before")],
)
async def test_a_process_killed_at_any_request_leaves_the_version_before_or_after(
    killed: Victims, tmp_path: Path, operation: str, moment: str
) -> None:
    """Between staging, ratifying and publishing too; the next writer publishes what was left.

    The commit is one that gets a checkpoint, so that the upkeep after it is met as well.
    """
    old = [1, 2, 3, 4]
    new = [2, 3, 4] if operation == "delete" else [*old, 5, 6]
    seen = []
    for number in count(step=STEP):
        assert number < 60
        uri, options = str(tmp_path / f"{number}"), {CATALOG_OPTION: str(tmp_path / f"{number}.db")}
        interval = {"delta.checkpointInterval": "3"}
        await create_managed(uri, VICTIMS, options, partition_by=("p",), properties=interval)
        async with open_managed(uri, options) as table:
            for start in (1, 3):
                await write_table(table, rows(start, start + 1))
        dead = killed.meet(Death(uri, operation, number, moment, options))
        async with open_managed(uri, options) as table:
            scan = (await table.snapshot()).scan(columns=["id"])
            found = sorted((await scan.to_arrow()).column("id").to_pylist())
            assert found in ([old, new] if dead else [new])
            seen.append(found)
            last = (await write_table(table, rows(99))).version
            assert last == (4 if found == new else 3)
            assert not (await fsck(table)).problems
        assert await published(uri, options) == list(range(last + 1))
        if not dead:
            break
    assert seen.index(new) < len(seen) - 4 // STEP, "it is committed before it is published"
    assert seen == sorted(seen, key=[old, new].index)
