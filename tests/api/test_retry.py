"""Work that lost to another commit, done again: how often, and when not."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    InvalidOptionError,
    InvalidUseError,
)
from adelta.table import Table


async def table_of(*ids: int) -> Table:
    table = Table(f"memory://retry-{uuid.uuid4().hex}/t")
    for number in ids:
        await adelta.write_table(table, pa.table({"id": [number]}))
    return table


async def test_what_lost_a_race_is_done_again_on_what_won() -> None:
    table = await table_of(1)
    other = Table(table.uri)
    tries = 0

    async def double() -> int | None:
        nonlocal tries
        tries += 1
        async with table.transaction("DOUBLE") as tx:
            files = await tx.read()
            snapshot = await table.snapshot(version=tx.read_version)
            rows = await snapshot.scan(files=files).to_arrow()
            if tries < 3:
                await adelta.write_table(other, pa.table({"id": [10 * tries]}))
            await tx.append(rows)
        return tx.version

    assert await adelta.retry(double) == 3
    assert tries == 3
    found = (await (await table.snapshot()).scan().to_arrow()).column("id").to_pylist()
    assert sorted(found) == [1, 1, 10, 10, 20, 20]


@pytest.mark.parametrize(
    ("error", "options", "tries"),
    [
        (ConcurrentAppendError("lost"), {"attempts": 3}, 3),
        (ConcurrentAppendError("lost"), {"attempts": 1}, 1),
        (ConcurrentAppendError("lost"), {"timeout": 0}, 1),
        (CommitConflictError("for good", retryable=False), {}, 1),
        (InvalidUseError("misused"), {}, 1),
    ],
)
async def test_only_what_may_succeed_is_done_again(
    error: Exception, options: dict[str, int], tries: int
) -> None:
    made = 0

    async def fails() -> None:
        nonlocal made
        made += 1
        raise error

    with pytest.raises(type(error)):
        await adelta.retry(fails, **options)  # type: ignore[arg-type]
    assert made == tries

    def blocking() -> None:
        nonlocal made
        made -= 1
        raise error

    with pytest.raises(type(error)):
        adelta.sync.retry(blocking, **options)  # type: ignore[arg-type]
    assert made == 0


async def test_its_own_arguments_are_checked() -> None:
    for wrong in ({"attempts": 0}, {"attempts": "3"}, {"timeout": -1}, {"timeout": "soon"}):
        with pytest.raises(InvalidOptionError, match=next(iter(wrong))):
            await adelta.retry(lambda: pytest.fail("called"), **wrong)  # type: ignore[arg-type]


async def test_files_can_be_scanned_by_themselves() -> None:
    table = await table_of(1, 2, 3)
    snapshot = await table.snapshot()
    files = await snapshot.add_files("id > 1")
    assert len(files) == 2
    scan = snapshot.scan(files=files[:1])
    assert await scan.count() == 1
    assert (await scan.files()).num_rows == 1
    (number,) = (await scan.to_arrow()).column("id").to_pylist()
    assert number in (2, 3)
    assert await snapshot.scan(where=f"id <> {number}", files=files[:1]).count() == 0
    assert await snapshot.scan(files=[]).count() == 0
    assert (await snapshot.scan(files=files).to_arrow()).num_rows == 2
    with pytest.raises(InvalidOptionError, match="is no AddFile"):
        snapshot.scan(files=["a.parquet"])  # type: ignore[list-item]
    first = await (await table.snapshot(version=0)).add_files()
    assert len(first) == 1
    assert isinstance(first[0], adelta.AddFile)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": -1},
        {"limit": 1.5},
        {"limit": True},
        {"columns": "id"},
        {"columns": [1]},
        {"variant": "xml"},
        {"with_row_ids": "yes"},
    ],
)
async def test_arguments_of_scans_are_checked(wrong: dict[str, object]) -> None:
    snapshot = await (await table_of(1)).snapshot()
    with pytest.raises(InvalidOptionError, match=next(iter(wrong))):
        snapshot.scan(**wrong)  # type: ignore[arg-type]
