"""Large row groups: decoded slice by slice, their columns by several threads."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import adelta
import adelta.sync
from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError
from adelta.operations import delete
from adelta.operations.copy_plan import copy_plan
from adelta.operations.rearrange.run import look
from adelta.read import unit_decoder
from adelta.read.data_files import read_files
from adelta.table import roots_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 500_000
SLICE = 65_536


def made() -> pa.Table:
    chance = random.Random(7)
    ids = pa.array(range(ROWS), pa.int64())
    return pa.table(
        {
            "id": ids,
            "few": pa.array([("red", "green", None)[i % 3] for i in range(ROWS)]),
            "text": pc.binary_join_element_wise("number", ids.cast(pa.string()), "x" * 40, " "),
            "tags": pa.ListArray.from_arrays(
                pa.array(range(0, 2 * ROWS + 1, 2), pa.int32()), pa.array(range(2 * ROWS))
            ),
            "point": pa.StructArray.from_arrays(
                [ids.cast(pa.float64()), pa.array([chance.random() for _ in range(ROWS)])],
                names=["x", "y"],
            ),
            "n": pc.multiply(ids, 3),
        }
    )


TABLE = made()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_decoder, "_SLICE", 8 << 20)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("slices") / "table")
    adelta.sync.write_table(
        uri,
        TABLE,
        properties={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    )
    with adelta.sync.open_table(uri) as table:
        (file,) = table.snapshot().files().to_pylist()
        assert pq.read_metadata(f"{uri}/{file['path']}").num_row_groups == 1
    return uri


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        (None, None),
        (["n", "point", "few", "id"], None),
        (["text"], None),
        (["tags", "id"], "id % 7 = 3"),
        (["few"], "n >= 900000 and few = 'red'"),
        (["id", "text"], "n < 0"),
        ([], None),
    ],
)
async def test_the_rows_are_those_of_the_file_in_order(
    uri: str, columns: list[str] | None, where: str | None
) -> None:
    wanted = TABLE
    if where == "id % 7 = 3":
        wanted = TABLE.take(pa.array(range(3, ROWS, 7)))
    elif where == "n < 0":
        wanted = TABLE.slice(0, 0)
    elif where is not None:
        wanted = TABLE.filter((pc.field("n") >= 900_000) & (pc.field("few") == "red"))
    async with adelta.open_table(uri) as table:
        scan = (await table.snapshot()).scan(columns=columns, where=where)
        found = await scan.to_arrow()
    assert found.num_rows == wanted.num_rows
    assert found.select(found.column_names) == wanted.select(columns or found.column_names)


async def test_a_slice_is_a_batch(uri: str) -> None:
    async with adelta.open_table(uri) as table:
        scan = (await table.snapshot()).scan()
        rows = [batch.num_rows async for batch in scan.batches()]
    assert rows == [SLICE] * (ROWS // SLICE) + [ROWS % SLICE]


async def test_a_slice_has_no_more_bytes_than_may_be_held_ahead(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_decoder, "_SLICE", 1 << 30)
    async with adelta.open_table(uri) as table:
        state = await look(table)
        files = list((await state.files_matching()).rows())
        read = read_files(
            roots_of(table), copy_plan(state.configuration), files, read_ahead_bytes=8 << 20
        )
        sizes = [rows.nbytes async for rows in read]
    assert len(sizes) > 2
    assert max(sizes) < 16 << 20


async def test_deleted_rows_and_row_ids_are_counted_from_the_file_s_first_row(
    uri: str, tmp_path: Path
) -> None:
    copy = str(tmp_path / "copy")
    await adelta.write_table(
        copy,
        TABLE.select(["id", "text", "tags"]),
        properties={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    )
    async with adelta.open_table(copy) as table:
        await delete(table, "id % 50000 = 17")
        scan = (await table.snapshot()).scan(with_row_ids=True)
        found = await scan.to_arrow()
    kept = [i for i in range(ROWS) if i % 50_000 != 17]
    assert found["id"].to_pylist() == kept
    assert found["_row_id"].to_pylist() == kept
    assert found["text"] == TABLE["text"].take(pa.array(kept))


async def test_a_stream_that_is_left_gives_back_all_memory(uri: str) -> None:
    pool = lasting_pool() or pa.default_memory_pool()
    gc.collect()
    before = pool.bytes_allocated()
    async with adelta.open_table(uri) as table:
        batches: Any = (await table.snapshot()).scan().batches()
        async with aclosing(batches):
            async for batch in batches:
                assert batch.num_rows == SLICE
                break
        del batch, batches
    with anyio.fail_after(60):  # a thread lets go of its result a moment after it handed it over
        while pool.bytes_allocated() > before:
            await anyio.sleep(0.01)
            gc.collect()


async def test_a_file_that_is_damaged_in_the_middle_is_named(uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    await adelta.write_table(copy, TABLE)
    async with adelta.open_table(copy) as table:
        snapshot = await table.snapshot()
        (file,) = (await snapshot.files()).to_pylist()
        path = tmp_path / "copy" / file["path"]
        data = bytearray(path.read_bytes())
        chunk = pq.read_metadata(path).row_group(0).column(2)
        middle = chunk.data_page_offset + chunk.total_compressed_size // 2
        data[middle : middle + 2000] = bytes(2000)
        path.write_bytes(data)
        with pytest.raises(InvalidTableError, match=file["path"]):
            await snapshot.scan().to_arrow()


PROGRAM = """
import sys
import pyarrow as pa
import adelta.sync
from adelta._memory import lasting_pool
from adelta.read import unit_decoder

unit_decoder._SLICE = 8 << 20
whole = 0
with adelta.sync.open_table(sys.argv[1]) as table:
    for batch in table.snapshot().scan().batches():
        whole += batch.nbytes
        del batch
pool = lasting_pool() or pa.default_memory_pool()
print(whole, pool.max_memory())
"""


def test_a_row_group_is_never_in_memory_as_a_whole(uri: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    whole, most = map(int, done.stdout.split())
    assert whole > 50_000_000
    assert most < whole * 0.75
