"""Files of this machine: their first row groups are decoded by the thread that opens them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidTableError, MissingDataFileError
from adelta.operations import delete, set_properties
from adelta.read import opener

if TYPE_CHECKING:
    from pathlib import Path

FILES, ROWS = 9, 1000
ALL = list(range(FILES * ROWS))


async def table_of(folder: Path) -> str:
    """A table of files with one to three row groups."""
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    for number in range(FILES):
        ids = ALL[number * ROWS : (number + 1) * ROWS]
        rows = pa.table([pa.array(ids), [f"text {n}" for n in ids]], schema=schema)
        await adelta.write_table(str(folder), rows, mode="append")
    for path in files(folder):  # adds say no sizes that count here
        rows = pq.read_table(path)
        number = rows.column("id")[0].as_py() // ROWS
        pq.write_table(rows, path, row_group_size=-(-ROWS // (1 + number % 3)))
    return str(folder)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"), key=lambda path: pq.read_table(path)["id"][0].as_py())


async def ids(uri: str, **options: Any) -> list[int]:
    async with adelta.open_table(uri) as table:
        scan = (await table.snapshot()).scan(**options)
        return [n async for batch in scan.batches() for n in batch.column("id").to_pylist()]


@pytest.mark.parametrize("at_once", [0, 20_000, 1 << 30])
async def test_rows_come_in_order_wherever_they_are_decoded(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(opener, "_DECODED_AT_ONCE", at_once)
    monkeypatch.setattr(opener, "_SMALL", 0)  # row groups stay by themselves
    uri = await table_of(tmp_path)
    first = await ids(uri)
    by_file = [first[start : start + ROWS] for start in range(0, len(first), ROWS)]
    assert sorted(first) == ALL
    assert all(part == list(range(part[0], part[0] + ROWS)) for part in by_file)
    assert await ids(uri, columns=["id"]) == first
    assert await ids(uri, where="id >= 4321") == [n for n in first if n >= 4321]
    assert await ids(uri, limit=1234) == first[:1234]
    async with adelta.open_table(uri) as table:
        await set_properties(table, {"delta.enableDeletionVectors": "true"})
        await delete(table, "id % 10 = 3")
    assert sorted(await ids(uri)) == [n for n in ALL if n % 10 != 3]


@pytest.mark.parametrize("damaged", [True, False])
async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, damaged: bool):
    uri = await table_of(tmp_path)
    victim = files(tmp_path)[5]
    if damaged:
        data = bytearray(victim.read_bytes())
        data[4 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4)
        victim.write_bytes(data)
    else:
        victim.unlink()
    expected = InvalidTableError if damaged else MissingDataFileError
    with pytest.raises(expected, match=victim.name):
        await ids(uri)


async def test_rows_before_a_damaged_file_arrive(tmp_path: Path):
    uri = await table_of(tmp_path)
    async with adelta.open_table(uri) as table:
        scan = (await table.snapshot()).scan()
        order = [batch.column("id")[0].as_py() // ROWS async for batch in scan.batches()]
        last = files(tmp_path)[order[-1]]
        data = bytearray(last.read_bytes())
        data[4:200] = b"\xff" * 196
        last.write_bytes(data)
        batches = scan.batches()
        for _ in range(FILES - 1):
            assert (await anext(batches)).num_rows == ROWS
        with pytest.raises(InvalidTableError, match=last.name):
            await anext(batches)


async def test_a_scan_that_is_given_up_leaves_nothing_under_way(tmp_path: Path):
    uri = await table_of(tmp_path)
    before = asyncio.all_tasks()
    async with adelta.open_table(uri) as table:
        batches = (await table.snapshot()).scan().batches()
        await anext(batches)
        await batches.aclose()  # type: ignore[attr-defined]  # an async generator
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize(
    "where", ["id > 10 and cast(s as int) > 0", "cast(s as int) > 0 and id > 10"]
)
async def test_a_predicate_that_fails_on_rows_that_the_footer_skips_does_not_fail(
    tmp_path: Path, where: str
) -> None:
    few = {"delta.dataSkippingNumIndexedCols": "0"}  # so that the log says nothing
    await adelta.write_table(str(tmp_path), pa.table({"id": [1], "s": ["x"]}), properties=few)
    await adelta.write_table(str(tmp_path), pa.table({"id": [11, 12], "s": ["1", "2"]}))
    async with adelta.open_table(str(tmp_path)) as table:
        scan = (await table.snapshot()).scan(where=where)
        assert sorted((await scan.to_arrow())["id"].to_pylist()) == [11, 12]
