"""A flipped bit in a data file never becomes a row of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError
from adelta.operations import create_table, delete, optimize, update, write_table
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from adelta.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
IDS = range(1000)
PLAIN = {"delta.parquet.compression.codec": "uncompressed"}
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


async def damaged_table(folder: Path, properties: dict[str, str]) -> Table:
    table = await create_table(str(folder), SCHEMA, properties=PLAIN | properties)
    await write_table(table, pa.table([IDS, [f"name {n:04}" for n in IDS]], SCHEMA))
    (file,) = data_files(folder)
    file.write_bytes(file.read_bytes().replace(b"name 0500", b"name 0510", 1))
    return table


def data_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))


CHANGES: dict[str, Callable[[Table], Awaitable[Any]]] = {
    "update": lambda table: update(table, {"name": "'x'"}, "id = 1"),
    "update by the damaged column": lambda table: update(table, {"id": "0"}, "name = 'name 0510'"),
    "delete": lambda table: delete(table, "id = 1"),
    "delete by the damaged column": lambda table: delete(table, "name = 'name 0510'"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("properties", [{}, FEED], ids=["plain", "with a feed"])
async def test_a_change_of_rows_copies_no_damaged_page(
    change: str, properties: dict[str, str], tmp_path: Path
) -> None:
    table = await damaged_table(tmp_path, properties)
    before = data_files(tmp_path)
    with pytest.raises(InvalidTableError, match=r"column name in row group 0, has other bytes"):
        await CHANGES[change](table)
    snapshot = await open_table(str(tmp_path)).snapshot()
    assert snapshot.version == 1
    assert data_files(tmp_path) == before


async def test_rows_that_a_vector_takes_out_are_found_in_sound_pages_alone(tmp_path: Path) -> None:
    table = await damaged_table(tmp_path, VECTORS)
    with pytest.raises(InvalidTableError, match="has other bytes than its checksum says"):
        await delete(table, "name = 'name 0510'")
    await delete(table, "id = 1")  # whose pages are sound, and which copies nothing
    assert (await (await table.snapshot()).scan(["id"]).to_arrow()).num_rows == len(IDS) - 1


async def test_a_scan_looks_at_checksums_where_it_is_asked_to(tmp_path: Path) -> None:
    snapshot = await (await damaged_table(tmp_path, {})).snapshot()
    assert (await snapshot.scan().to_arrow()).num_rows == len(IDS)
    assert (await snapshot.scan(["id"], verify_checksums=True).to_arrow()).num_rows == len(IDS)
    with pytest.raises(InvalidTableError, match="has other bytes than its checksum says"):
        await snapshot.scan(verify_checksums=True).to_arrow()


async def test_one_damaged_page_among_many_small_files_is_named(tmp_path: Path) -> None:
    """Small files are decoded together once their shape is known: in order, or one by one."""
    table = await create_table(str(tmp_path), SCHEMA, properties=PLAIN)
    for n in range(60):
        await write_table(table, pa.table({"id": [n], "name": [f"name {n:04}"]}, SCHEMA))
    files = {file for file in data_files(tmp_path) if b"name 0050" in file.read_bytes()}
    (damaged,) = files
    sound = damaged.read_bytes()
    damaged.write_bytes(sound.replace(b"name 0050", b"name 0051", 1))
    with pytest.raises(InvalidTableError, match=f"{damaged.name}.*has other bytes"):
        await optimize(table)
    damaged.write_bytes(sound)
    assert (await optimize(table)).num_files_added == 1
    rows = await (await table.snapshot()).scan().to_arrow()
    assert rows["id"].to_pylist() == list(range(60))
