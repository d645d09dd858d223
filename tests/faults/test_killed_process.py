"""A process is killed at each request in turn, and on local disk at each call to the system.

Afterwards the table reads as before or as after, never between; its log and files are whole; and
the next writer succeeds. The table is at a version before one that has a checkpoint, so that all
the upkeep after a commit is met as well. On local disk Spark has written the table before, and can
read every file: none is beside the checksum of another.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adelta.errors import VersionNotFoundError
from adelta.kernel.log_path import commit_path
from adelta.operations import fsck, write_table
from adelta.table import Table
from tests.support.depth import cases
from tests.support.hadoop_checksums import contradictions, share_with_spark
from tests.support.victim import (
    AFTER,
    Death,
    Victims,
    base_of,
    before,
    ids,
    put_objects,
    rows,
    victims,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.s3_server import S3Location, S3Server

OPERATIONS = ["append", "overwrite", "delete", "optimize", "checkpoint", "clean-up", "restore"]
OPERATIONS += ["vacuum", "clone", "replace", "checkpoint again", "manifests"]
STEPS = {"optimize": 5, "restore": 5, "vacuum": 5, "clone": 2, "replace": 2}  # not at each here
MOST = 300  # requests or calls of an operation


@pytest.fixture(scope="module")
def killed() -> Iterator[Victims]:
    with victims() as process:
        yield process


async def check_survives(death: Death, *, ended: bool) -> list[int]:
    """The table is as before or as after, and whole, and the next writer succeeds; its ids."""
    if not death.options:
        assert not contradictions(Path(death.uri)), death
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


async def put_base(base: Mapping[str, bytes], death: Death, server: S3Server | None) -> None:
    """Put a table's objects; those that a clean-up keeps bear a later time than those before.

    Commits that all bear one time are all kept.
    """
    kept = commit_path(3)
    await put_objects({p: base[p] for p in base if p < kept}, death.uri, death.options)
    if server is not None and kept in base:
        await server.until_a_later_time()
    await put_objects({p: base[p] for p in base if p >= kept}, death.uri, death.options)


async def kill_at_each(
    killed: Victims, root: str, operation: str, moment: str, server: S3Server | None = None
) -> None:
    options = {} if server is None else server.storage_options
    base, seen = await base_of(operation), []
    for number in count(step=cases(1, 3) * STEPS.get(operation, 1)):
        assert number < MOST
        death = Death(f"{root}/{moment}-{number}", operation, number, moment, options)
        await put_base(base, death, server)
        if server is None:
            share_with_spark(Path(death.uri))
        ended = not killed.meet(death)
        seen.append(await check_survives(death, ended=ended))
        if ended:
            break
    assert len(seen) > 2, "it has requests"
    assert seen[0] == before(operation)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_killed_process_leaves_a_whole_table_on_local_disk(
    killed: Victims, tmp_path: Path, operation: str
) -> None:
    await kill_at_each(killed, str(tmp_path), operation, "call")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("operation", ["append", "overwrite", "checkpoint", "clean-up"])
async def test_a_killed_process_leaves_a_whole_table_on_s3(
    killed: Victims, s3_location: S3Location, operation: str, moment: str
) -> None:
    await kill_at_each(killed, s3_location.uri, operation, moment, s3_location.server)
