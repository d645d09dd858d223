"""DELETE and MERGE that write files anew by column, and copy row groups that keep all rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError
from adelta.operations import column_copies, create_table, delete, set_properties, write_table
from adelta.operations.merge import merge
from adelta.parquet.write.options import WriterOptions
from adelta.table import open_table

if TYPE_CHECKING:
    from adelta.table import Table

ROWS, GROUP = 10_000, 2_500
FIELDS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    ("day", pa.date32()),
    ("value", pa.float64()),
    ("name", pa.string()),
    ("flag", pa.bool_()),
    ("nothing", pa.int32()),
    ("inner", pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])),
    ("pairs", pa.map_(pa.string(), pa.int32())),
]
SCHEMA = pa.schema(FIELDS)


def rows() -> pa.Table:
    ids = list(range(ROWS))
    columns: list[Any] = [
        ids,
        [number // 100 for number in ids],
        [None if number % 11 == 0 else number / 4 for number in ids],
        [None if number % 7 == 0 else f"name {number % 50}" for number in ids],
        [number % 3 == 0 for number in ids],
        [None] * ROWS,
        [None if n % 5 == 0 else {"x": n, "tags": ["a"] * (n % 3)} for n in ids],
        [[("k", n)] if n % 2 else None for n in ids],
    ]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_copies, "_LEAST_BYTES", 1)


@pytest.fixture
async def table(tmp_path: Path) -> Table:
    """One file of four row groups."""
    table = await create_table(str(tmp_path / "table"), SCHEMA)
    codec = WriterOptions(compression="zstd", row_group_rows=GROUP)
    await write_table(table, rows(), writer_options=codec)
    return table


async def only_file(table: Table) -> tuple[Path, dict[str, Any]]:
    (file,) = (await (await open_table(table.uri).snapshot()).files()).to_pylist()
    return Path(table.uri.removeprefix("file://")) / file["path"], orjson.loads(file["stats"])


async def contents(table: Table) -> pa.Table:
    found = await (await open_table(table.uri).snapshot()).scan().to_arrow()
    return found.combine_chunks()


def chunks_of(path: Path) -> list[bytes]:
    """The bytes of each row group."""
    data, metadata, found = path.read_bytes(), pq.read_metadata(path), []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        first, last = group.column(0), group.column(metadata.num_columns - 1)
        starts = [c.dictionary_page_offset or c.data_page_offset for c in (first, last)]
        found.append(data[starts[0] : starts[1] + last.total_compressed_size])
    return found


async def test_row_groups_that_keep_all_rows_are_copied_byte_for_byte(table: Table) -> None:
    before, _ = await only_file(table)
    gone = list(range(2_600, 2_700))
    done = await delete(table, "id >= 2600 AND id < 2700 OR id >= 7500")
    assert (done.num_deleted_rows, done.num_copied_rows) == (2_600, 7_400)
    after, said = await only_file(table)
    was, now = chunks_of(before), chunks_of(after)
    assert len(now) == 3  # the last one had no rows left
    assert [now[0] == was[0], now[1] == was[1], now[2] == was[2]] == [True, False, True]
    kept = [n for n in range(7_500) if n not in gone]
    expected = rows().take(pa.array(kept)).combine_chunks()
    assert (await contents(table)).equals(expected)
    assert pq.read_table(after, page_checksum_verification=True).num_rows == len(kept)
    nulls: dict[str, Any] = {name: expected[name].null_count for name in SCHEMA.names}
    inner = expected["inner"].combine_chunks()
    nulls["inner"] = {"x": nulls["inner"], "tags": inner.null_count}
    assert said == {
        "numRecords": len(kept),
        "minValues": {
            "id": 0,
            "day": "1970-01-01",
            "value": 0.25,
            "name": "name 0",
            "flag": False,
            "inner": {"x": 1},
        },
        "maxValues": {
            "id": 7_499,
            "day": "1970-03-16",
            "value": 1874.75,
            "name": "name 9",
            "flag": True,
            "inner": {"x": 7_499},
        },
        "nullCount": nulls,
    }
    indexed = pq.read_metadata(after)
    assert all(indexed.row_group(group).column(0).has_offset_index for group in range(3))


async def test_a_nan_of_a_copied_row_group_leaves_no_bounds(tmp_path: Path) -> None:
    values = np.arange(4_000, dtype=float)
    values[10] = np.nan
    given = pa.table({"id": pa.array(range(4_000), pa.int64()), "value": values})
    table = await create_table(str(tmp_path / "table"), given.schema)
    options = WriterOptions(compression="zstd", row_group_rows=2_000)
    await write_table(table, given, writer_options=options)
    await delete(table, "id = 3000")
    _, said = await only_file(table)
    assert said["minValues"] == {"id": 0}
    assert said["nullCount"] == {"id": 0, "value": 0}


async def test_rows_under_a_deletion_vector_do_not_come_back(table: Table) -> None:
    await set_properties(table, {"delta.enableDeletionVectors": "true"})
    await delete(table, "id < 10")
    await set_properties(table, {"delta.enableDeletionVectors": "false"})
    before, _ = await only_file(table)
    done = await delete(table, "id = 9000")
    after, said = await only_file(table)
    assert (done.num_copied_rows, said["numRecords"], said["minValues"]["id"]) == (9_989, 9_989, 10)
    assert [n == w for n, w in zip(chunks_of(after), chunks_of(before), strict=True)] == [
        *(False, True, True, False)
    ]
    assert (await contents(table))["id"].to_pylist() == [*range(10, 9_000), *range(9_001, ROWS)]


@pytest.mark.parametrize("group", [0, 3], ids=["copied", "encoded anew"])
async def test_no_damaged_page_is_taken_over(group: int, table: Table) -> None:
    path, _ = await only_file(table)
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(group).column(3)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidTableError, match="has other bytes than its checksum says"):
        await delete(table, "id = 9000")
    assert [*path.parent.glob("*.parquet")] == [path]


async def test_other_files_are_written_anew_as_a_whole(table: Table) -> None:
    before, _ = await only_file(table)
    await set_properties(table, {"delta.parquet.compression.codec": "snappy"})
    await delete(table, "id = 9000")
    after, _ = await only_file(table)
    assert pq.read_metadata(after).num_row_groups == 1
    assert pq.read_metadata(before).num_row_groups == 4
    assert (await contents(table))["id"].to_pylist() == [*range(9_000), *range(9_001, ROWS)]


async def test_updated_rows_come_behind_those_of_their_row_group(table: Table) -> None:
    before, _ = await only_file(table)
    ids = [2_700, 2_600, 9_998, 7_000]
    given = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"new {n}" for n in ids]})
    done = await (
        merge(table, given, "target.id = source.id")
        .when_matched_delete(condition="source.id = 7000")
        .when_matched_update({"name": "source.name", "value": "target.value + 1"})
        .execute()
    )
    assert (done.num_target_rows_updated, done.num_target_rows_copied) == (3, ROWS - 4)
    after, said = await only_file(table)
    was, now = chunks_of(before), chunks_of(after)
    assert [w == n for w, n in zip(was, now, strict=True)] == [True, False, False, False]
    found = pq.ParquetFile(after)
    groups = [found.read_row_group(number, ["id"])["id"].to_pylist() for number in range(4)]
    assert groups[1] == [*(n for n in range(2_500, 5_000) if n not in ids), 2_600, 2_700]
    assert groups[2] == [n for n in range(5_000, 7_500) if n != 7_000]
    assert groups[3] == [*range(7_500, 9_998), 9_999, 9_998]
    updated = (await contents(table)).sort_by("id")
    expected = rows().to_pylist()
    for number in (2_600, 2_700, 9_998):
        expected[number] |= {"name": f"new {number}", "value": number / 4 + 1}
    assert updated.to_pylist() == [*expected[:7_000], *expected[7_001:]]
    assert (said["numRecords"], said["maxValues"]["value"]) == (ROWS - 1, 9_998 / 4 + 1)


@pytest.mark.parametrize("moves", [False, True], ids=["stay", "move"])
async def test_updated_rows_of_another_partition_leave_the_file(
    moves: bool, tmp_path: Path
) -> None:
    count = 3_000
    given = pa.table(
        {"id": pa.array(range(count), pa.int64()), "p": ["a"] * count, "n": [1] * count}
    )
    table = await create_table(str(tmp_path / "table"), given.schema, partition_by=["p"])
    await write_table(table, given)
    source = pa.table({"id": [7, 8], "p": ["b" if moves else "a"] * 2, "n": [2, 2]})
    await merge(table, source, "target.id = source.id").when_matched_update_all().execute()
    found = (await contents(table)).sort_by("id").to_pylist()
    letter = "b" if moves else "a"
    assert found == [
        {"id": n, "p": letter, "n": 2} if n in (7, 8) else {"id": n, "p": "a", "n": 1}
        for n in range(count)
    ]
    files = (await (await open_table(table.uri).snapshot()).files()).to_pylist()
    assert len(files) == 1 + moves
