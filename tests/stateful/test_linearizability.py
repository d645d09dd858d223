"""A1-15, A1-18: random changes by many processes at once are those of one table, step by step.

Eight processes append, delete, change and overwrite rows, count them, and change the metadata. The
history that they leave is checked, every version of it, and every read that was made meanwhile.

`ADELTA_TEST_COMMITS=10000` makes the runs that long, on local disk and on S3 (`tox -e history`).
Their checker finds what goes wrong where the store does not exclude writers.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from adelta._concurrency import map_concurrent
from adelta.operations import create_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.support.builders import TableBuilder
from tests.support.catalogs import open_managed
from tests.support.depth import cases
from tests.support.linearizability import History, violations
from tests.support.workload import SCHEMA, Model, Operation, OverwritingStore, perform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.s3_server import S3Location

ROOT = Path(__file__).resolve().parents[2]
WRITERS = 8
COMMITS = int(os.environ.get("ADELTA_TEST_COMMITS", "0"))
RESETS = 0.03  # of all requests

pytestmark = pytest.mark.timeout(600 if not COMMITS else 24 * 3600)


async def run(uri: str, commits: int, options: Mapping[str, str], *flags: str) -> History:
    """Let the processes make that many commits together; what they said."""
    pairs = [f"{key}={value}" for key, value in options.items()]

    async def one(number: int) -> str:
        arguments = [uri, f"w{number}", str(number + 1), str(commits // WRITERS), *flags, *pairs]
        done = await anyio.run_process(
            [sys.executable, "-m", "tests.support.workload", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout.decode()

    said = await map_concurrent(one, range(WRITERS), limit=WRITERS)
    return History([json.loads(line) for text in said for line in text.splitlines()])


async def check(uri: str, options: Mapping[str, str], history: History, commits: int) -> None:
    async with open_managed(uri, options) as table:
        assert await violations(table, history) == []
        version = (await table.snapshot()).version
    unknown = sum(each["outcome"] == "unknown" for each in history.operations)
    assert commits // WRITERS * WRITERS <= version <= commits + WRITERS + unknown
    assert history.reads


@pytest.mark.parametrize("vectors", ["false", "true"])
async def test_changes_by_many_processes_on_local_disk_are_linearizable(
    tmp_path: Path, vectors: str
) -> None:
    """Rows are taken out by writing files anew, or by deletion vectors as well."""
    uri, commits = str(tmp_path / "table"), COMMITS or cases(120, 40)
    properties = {"delta.enableDeletionVectors": vectors}
    await (await create_table(uri, SCHEMA, partition_by=["p"], properties=properties)).aclose()
    history = await run(uri, commits, {})
    await check(uri, {}, history, commits)
    refused = [each for each in history.operations if each["outcome"] == "refused"]
    assert refused, "without a conflict nothing was tried"


async def test_changes_by_many_processes_on_s3_are_linearizable_though_connections_break(
    s3_location: S3Location,
) -> None:
    uri, commits = f"{s3_location.uri}/table", COMMITS or cases(80, 25)
    options = s3_location.storage_options
    await (await create_table(uri, SCHEMA, partition_by=["p"], storage_options=options)).aclose()
    chance = random.Random(7)
    fates = [Fate.cut_before(), Fate.cut_after(), Fate.cut_inside()]
    async with FaultyProxy(s3_location.server.endpoint) as proxy:
        proxy.choose = lambda _method, _target: (
            chance.choice(fates) if chance.random() < RESETS else None
        )
        broken = {**options, "aws_endpoint_url": proxy.endpoint}
        history = await run(uri, commits, broken)
    await check(uri, options, history, commits)


async def test_the_checker_finds_what_goes_wrong_where_writers_do_not_exclude_each_other(
    tmp_path: Path,
) -> None:
    """The negative control: with put-if-absent off, the same workload is not linearizable.

    It may be by luck, so that there are three runs at most.
    """
    found: list[str] = []
    for number in range(3):
        uri = str(tmp_path / f"table-{number}")
        await (await create_table(uri, SCHEMA, partition_by=["p"])).aclose()
        history = await run(uri, 40, {}, "--overwriting")
        async with open_table(uri) as table:
            found += await violations(table, history)
        if any("is not in the log at its version" in each for each in found):
            return
    pytest.fail(f"nothing is found but {found}")


async def test_one_lost_commit_is_enough_for_the_checker() -> None:
    store = MemoryStore()
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])

    async def history(*handles: Table) -> History:
        said = []
        for number, table in enumerate(handles):
            operation = Operation(f"o{number}", "append", "a", ids=[number])
            version = await perform(table, operation)
            said.append({"operation": operation.name, "outcome": "committed", "version": version})
            said[-1] |= {"begun": 2 * number, "ended": 2 * number + 1}
        return History(said)

    handles = [Table(store.uri, store=OverwritingStore(store)) for _ in range(2)]
    for table in handles:
        await table.snapshot()
    lost = await history(*handles)
    found = await violations(Table(store.uri, store=store), lost)
    assert len(found) == 2
    assert "is not in the log at its version" in found[0]
    assert "began when version 1 had been acknowledged" in found[1]


def test_the_model_does_what_operations_mean() -> None:
    model = Model()
    for operation in (
        Operation("1", "append", "a", ids=[1, 2, 3]),
        Operation("2", "add_one", "a", rest=2),
        Operation("3", "count", "a", ids=[9]),
        Operation("4", "delete", "a", rest=1),
        Operation("5", "overwrite", "b", ids=[7]),
        Operation("6", "note"),
    ):
        model.apply(operation)
    assert model.contents() == [("a", 2, 1), ("a", 3, 0), ("b", 7, 0), ("n", 9, 3)]
    assert model.note == "6"
