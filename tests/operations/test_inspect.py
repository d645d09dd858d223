"""What is counted of a table for a page or a plot, held against the table itself."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import SchemaMismatchError
from adelta.operations.inspect import column_layout as layouts
from adelta.operations.inspect.column_layout import column_layout, layout_columns
from adelta.operations.inspect.commit_summary import commit_summaries
from adelta.operations.inspect.file_totals import file_totals, partition_totals, row_totals
from adelta.operations.inspect.log_files import log_files
from adelta.operations.inspect.schema_history import schema_history
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.logs import add, metadata, protocol, put_commit

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.snapshot import Snapshot


async def ranged(kind: str, ranges: list[tuple[Any, Any] | None]) -> Snapshot:
    """A version with a file for each range of its column `c`."""
    store = MemoryStore()
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}}
    schema = orjson.dumps({"type": "struct", "fields": [field]}).decode()
    files = []
    for number, ends in enumerate(ranges):
        stats: dict[str, Any] = {"numRecords": 1}
        if ends is not None:
            stats |= {"minValues": {"c": ends[0]}, "maxValues": {"c": ends[1]}}
        files.append(add(f"{number}.parquet", stats=orjson.dumps(stats).decode()))
    await put_commit(store, 0, protocol(), metadata(schemaString=schema), *files)
    return await Table("memory://t", store=store).snapshot()


@pytest.mark.parametrize(
    ("kind", "ranges", "ends"),
    [
        ("long", [(0, 9), (10, 19), (5, 14)], ("0", "19")),
        ("double", [(0.5, 9.5), (10.5, 19.5), (5.5, 14.5)], ("0.5", "19.5")),
        ("decimal(5,1)", [(0.0, 9.0), (10.0, 19.0), (5.0, 14.0)], ("0.0", "19.0")),
        (
            "date",
            [
                ("2024-01-01", "2024-01-10"),
                ("2024-01-11", "2024-01-20"),
                ("2024-01-06", "2024-01-15"),
            ],
            ("2024-01-01", "2024-01-20"),
        ),
        ("string", [("user-00", "user-09"), ("user-10", "user-19"), ("user-05", "user-14")], None),
        ("string", [("ä", "äz"), ("ö", "öz"), ("äb", "öb")], ("ä", "öz")),
    ],
)
async def test_a_value_is_sought_in_the_files_whose_ranges_hold_it(
    kind: str, ranges: list[tuple[Any, Any]], ends: tuple[str, str] | None
) -> None:
    found = await column_layout(await ranged(kind, ranges), "c")
    # the least values of the files: the first is in one file; the second and third are in two
    assert found.average_depth == pytest.approx(5 / 3)
    assert max(found.depths) == 2
    assert (found.num_files, found.num_unbounded) == (3, 0)
    assert [file.path for file in found.files] == ["0.parquet", "2.parquet", "1.parquet"]
    assert (found.files[0].start, found.files[-1].end) == (0.0, 1.0)
    if ends is not None:
        assert (found.least, found.greatest) == ends


async def test_files_without_a_range_and_columns_without_ranges_are_told() -> None:
    infinite = await ranged("double", [(0, 1), None, ("-Infinity", "Infinity"), (5, 3)])
    found = await column_layout(infinite, "C")
    assert (found.num_files, found.num_unbounded) == (4, 3)
    empty = await column_layout(await ranged("long", []), "c")
    assert (empty.average_depth, empty.least, empty.files, empty.depths) == (None, None, (), ())
    same = await column_layout(await ranged("string", [("", ""), ("", "")]), "c")
    assert (same.average_depth, same.num_unbounded) == (2.0, 0)
    with pytest.raises(SchemaMismatchError, match="'x' is no column"):
        await column_layout(infinite, "x")
    assert layout_columns(await ranged("binary", [])) == []


async def test_of_many_files_some_are_looked_at_and_depths_are_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    lows = rng.integers(0, 10_000, 3000).tolist()
    snapshot = await ranged("long", [(low, low + 500) for low in lows])
    whole = await column_layout(snapshot, "c", bars=50)
    assert (whole.num_looked_at, len(whole.files)) == (3000, 50)
    monkeypatch.setattr(layouts, "_MOST_FILES", 600)
    some = await column_layout(snapshot, "c", bars=50)
    assert (some.num_files, some.num_looked_at) == (3000, 600)
    assert some.average_depth == pytest.approx(whole.average_depth, rel=0.1)
    assert max(some.depths) == pytest.approx(max(whole.depths), rel=0.2)


async def test_renamed_and_nested_columns_and_partitions_have_ranges(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    inner = pa.struct([("b.c", pa.int32())])
    schema = pa.schema(
        {"p": pa.date32(), "a": inner, "d": pa.decimal128(6, 2), "list": pa.list_(pa.int32())}
    )
    await adelta.create_table(
        uri, schema, partition_by=["p"], properties={"delta.columnMapping.mode": "name"}
    )
    for n in range(2):
        row = {"p": dt.date(2024, 1, 1 + n), "a": {"b.c": n}, "d": Decimal(n), "list": [1]}
        await adelta.write_table(uri, pa.Table.from_pylist([row], schema))
    await adelta.rename_column(uri, "d", "e")
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        assert layout_columns(snapshot) == ["p", "a.`b.c`", "e"]
        for column, least, greatest in (
            ("p", "2024-01-01", "2024-01-02"),
            ("a.`b.c`", "0", "1"),
            ("e", "0.00", "1.00"),
        ):
            found = await column_layout(snapshot, column)
            assert (found.least, found.greatest, found.average_depth) == (least, greatest, 1.0)
        number, partitions = await partition_totals(snapshot)
        assert number == 2
        assert sorted(each.values for each in partitions) == [("2024-01-01",), ("2024-01-02",)]
        entries = (await schema_history(table)).entries
        assert [entry.changes for entry in entries[:-1]] == [("column d is now called e",)]
        assert "column a.`b.c` added: integer" in entries[-1].changes


async def test_files_rows_and_commits_are_counted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    vectors = {"delta.enableDeletionVectors": "true"}
    await adelta.write_table(uri, pa.table({"id": range(10)}), properties=vectors)
    await adelta.write_table(uri, pa.table({"id": range(10, 15)}))
    await adelta.delete(uri, "id < 3")
    await adelta.change_column(uri, "id", comment="a number")
    await adelta.checkpoint(uri)
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        files, rows = await file_totals(snapshot), await row_totals(snapshot)
        listed = await snapshot.files()
        assert files.num_bytes == sum(listed.column("size").to_pylist())
        assert (files.num_files, files.num_vectors, files.num_deleted) == (2, 1, 3)
        assert sum(number for _, number in files.sizes) == 2
        assert (rows.num_rows, rows.num_deleted, rows.num_unknown) == (12, 3, 0)
        assert (await partition_totals(snapshot))[0] == 1
        newest, deleted, *_ = commits = await commit_summaries(table)
        assert [commit.version for commit in commits] == [3, 2, 1, 0]
        assert newest.changed == ("metadata",)
        assert deleted.added is not None
        assert (deleted.added.num_files, deleted.num_vectors) == (1, 1)
        assert [c.version for c in await commit_summaries(table, before=2, limit=1)] == [1]
        assert await commit_summaries(table, before=0) == []
        log = await log_files(table, bars=2)
        assert [(bar.first, bar.last, bar.num_commits) for bar in log.commits] == [
            (0, 1, 2),
            (2, 3, 2),
        ]
        assert [each.version for each in log.checkpoints] == [3]


async def test_an_empty_table_has_nothing_to_count(tmp_path: Path) -> None:
    async with await adelta.create_table(tmp_path / "t", pa.schema({"id": pa.int64()})) as table:
        snapshot = await table.snapshot()
        assert (await file_totals(snapshot)).median_bytes is None
        assert (await row_totals(snapshot)).num_rows == 0
        assert (await partition_totals(snapshot))[1] == []


async def test_a_commit_that_is_very_long_is_told_by_its_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "adelta.operations.inspect.commit_summary"
    await adelta.write_table(tmp_path / "t", pa.table({"id": [1]}))
    monkeypatch.setattr(f"{module}._WHOLE", 100)
    monkeypatch.setattr("adelta.operations.inspect.schema_history._WHOLE", 100)
    async with adelta.open_table(tmp_path / "t") as table:
        (commit,) = await commit_summaries(table)
        assert (commit.info.operation, commit.added, commit.num_vectors) == ("WRITE", None, None)
        assert (await schema_history(table)).num_unread == 1
