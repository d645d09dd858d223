"""Tables of many small files: some are opened in one go, and each is still read as by itself."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidTableError, MissingDataFileError

if TYPE_CHECKING:
    from pathlib import Path

FILES = 40


async def table_of_small_files(folder: Path) -> list[Path]:
    """A file for each number, in the order of the scan."""
    async with adelta.open_table(str(folder)) as table:
        for first in range(FILES):
            rows = pa.table({"n": [first, first], "text": [f"of {first}", None]})
            await adelta.write_table(table if first else str(folder), rows)
        files = await (await table.snapshot()).add_files()
    by_number = {pq.read_table(path := folder / file.path)["n"][0].as_py(): path for file in files}
    return [by_number[number] for number in (await numbers(folder))[::2]]


async def numbers(folder: Path, where: str | None = None) -> list[int]:
    found: list[int] = []
    async with adelta.open_table(str(folder)) as table:
        scan = (await table.snapshot()).scan(where=where)
        async for batch in scan.batches():
            found += batch.column("n").to_pylist()
    return found


async def test_rows_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    files = await table_of_small_files(tmp_path)
    expected = [(await numbers(tmp_path, f"n = {n}")) for n in range(FILES)]
    assert expected == [[n, n] for n in range(FILES)]
    assert sorted(await numbers(tmp_path)) == sorted([*range(FILES), *range(FILES)])
    assert len(files) == FILES


@pytest.mark.parametrize("place", [0, 1, 5, 20, FILES - 1])
async def test_rows_before_a_file_that_is_gone_come_before_its_error(
    tmp_path: Path, place: int
) -> None:
    files = await table_of_small_files(tmp_path)
    whole = await numbers(tmp_path)
    files[place].unlink()
    found: list[int] = []
    async with adelta.open_table(str(tmp_path)) as table:
        batches = (await table.snapshot()).scan().batches()
        with pytest.raises(MissingDataFileError, match=files[place].name):  # noqa: PT012
            async for batch in batches:
                found += batch.column("n").to_pylist()
    assert found == whole[: 2 * place]


async def test_a_damaged_file_among_small_ones_is_named(tmp_path: Path) -> None:
    files = await table_of_small_files(tmp_path)
    files[9].write_bytes(files[9].read_bytes()[:-9] + b"123456789")
    with pytest.raises(InvalidTableError, match=files[9].name):
        await numbers(tmp_path)


async def test_each_small_file_is_opened_once(tmp_path: Path) -> None:
    for _ in range(3):
        rows = pa.table({"n": range(100), "noise": [os.urandom(1500) for _ in range(100)]})
        await adelta.write_table(str(tmp_path), rows)
    opened: Counter[str] = Counter()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(str(tmp_path)):
            opened[os.path.basename(str(arguments[0]))] += 1

    sys.addaudithook(note)  # for good, but there is nothing at that path later on
    assert len(await numbers(tmp_path)) == 300
    assert [count for name, count in opened.items() if name.endswith(".parquet")] == [1, 1, 1]


async def test_files_of_other_schemas_beside_each_other(tmp_path: Path) -> None:
    for first in range(12):
        rows = {"n": pa.array([first], pa.int64())}
        if first % 3:
            rows |= {"b": pa.array([f"b{first}"])}
        if first % 2:
            rows = {"c": pa.array([first / 2]), **rows}
        await adelta.write_table(str(tmp_path), pa.table(rows), schema_mode="merge")
    async with adelta.open_table(str(tmp_path)) as table:
        found = await (await table.snapshot()).scan(columns=["n", "b", "c"]).to_arrow()
    assert sorted(found.to_pylist(), key=lambda row: row["n"]) == [
        {"n": n, "b": f"b{n}" if n % 3 else None, "c": n / 2 if n % 2 else None} for n in range(12)
    ]
