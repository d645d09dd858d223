"""A consumer's process is killed at each call to the system in turn, and started again.

Into a table every row comes exactly once, elsewhere at least once: in order, and again only from
the position on that was kept last.
"""

from __future__ import annotations

import json
import shutil
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.operations import fsck
from tests.support.consuming import Consumers, Run, consumers
from tests.support.depth import cases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 1000  # calls of a run
STEP = cases(1, 5)


@pytest.fixture(scope="module")
def processes() -> Iterator[Consumers]:
    with consumers() as found:
        yield found


async def base(folder: Path, **properties: str) -> list[int]:
    """Ten rows that are there, and ten that come in two commits; an empty target; the ids."""
    source, ids = str(folder / "source"), iter(range(100))
    for rows in (10, 4, 6):
        table = pa.table({"id": [next(ids) for _ in range(rows)]})
        await adelta.write_table(source, table, properties=properties)
    async with await adelta.create_table(str(folder / "target"), table.schema):
        pass
    return list(range(20))


async def copied(folder: Path) -> list[int]:
    async with adelta.open_table(str(folder / "target")) as table:
        report = await fsck(table)
        assert not report.problems
        rows = await (await table.snapshot()).scan(columns=["id"]).to_arrow()
    return rows.column("id").to_pylist()


async def test_a_killed_consumer_copies_every_row_once_into_a_table(
    processes: Consumers, tmp_path: Path
) -> None:
    ids = await base(tmp_path / "base")
    killed = 0
    for number in count(step=STEP):
        assert number < MOST
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "base", folder)
        ended = processes.run(Run(str(folder), "table", number))
        if not ended:
            killed += 1
            found = await copied(folder)
            assert sorted(found) == ids[: len(found)], "whole batches, in their order"
            processes.run(Run(str(folder), "table", number // 2))  # most die again, on their way
            assert processes.run(Run(str(folder), "table"))
        assert sorted(await copied(folder)) == ids, number
        shutil.rmtree(folder)
        if ended:
            break
    assert killed > 5


async def test_a_killed_consumer_gives_every_row_at_least_once_and_in_order(
    processes: Consumers, tmp_path: Path
) -> None:
    ids = await base(tmp_path / "base")
    killed = 0
    for number in count(step=STEP):
        assert number < MOST
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "base", folder)
        ended = processes.run(Run(str(folder), "file", number))
        if not ended:
            killed += 1
            assert processes.run(Run(str(folder), "file"))
        batches = [json.loads(line) for line in (folder / "rows").read_text().splitlines()]
        seen: list[int] = []
        again = 0
        for batch in batches:
            if batch[0] in seen:
                again += 1
                assert batch[0] == seen[-len(batch)], "the batch that was not acknowledged"
                seen = seen[: seen.index(batch[0])]
            seen += batch
        assert seen == ids, number
        assert again <= 1
        shutil.rmtree(folder)
        if ended:
            break
    assert killed > 5
