"""Names in the log whose case differs from the schema's: no value is lost in silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path


SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("p", "string"), ("q", "long"), ("v", "long"))
    ],
}


def make_table(
    folder: Path, files: Sequence[dict[str, Any]], partition_by: Sequence[str] = ("p", "q")
) -> str:
    """A table by another writer, with a file of the rows 1 and 2 for each of `files`."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    lines: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "2c6c1a0e",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(SCHEMA),
                "partitionColumns": partition_by,
                "configuration": {},
            }
        },
    ]
    for at, fields in enumerate(files):
        name = f"{at}.parquet"
        pq.write_table(pa.table({"v": [1, 2]}), folder / name)
        size = (folder / name).stat().st_size
        add = {"path": name, "size": size, "modificationTime": 1, "dataChange": True, **fields}
        lines.append({"add": add})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
    return str(folder)


async def test_a_table_whose_partition_column_has_another_case_in_the_schema_is_refused(
    tmp_path: Path,
) -> None:
    table = make_table(tmp_path, [{"partitionValues": {"P": "x", "q": "1"}}], ("P", "q"))
    with pytest.raises(InvalidTableError, match=r"partitioned by 'P', .* spells that column 'p'"):
        await adelta.Table(table).snapshot()


async def _read(table: adelta.Table) -> object:
    return await (await table.snapshot()).scan().to_arrow()


async def _read_where(table: adelta.Table) -> object:
    return await (await table.snapshot()).scan(where="p = 'x'").to_arrow()


async def _optimize(table: adelta.Table) -> object:
    return await adelta.optimize(table)


async def _delete(table: adelta.Table) -> object:
    return await adelta.delete(table, "p = 'x' AND q = 1")


async def _replace_partitions(table: adelta.Table) -> object:
    rows = pa.table({"p": ["x"], "q": [1], "v": [9]})
    return await adelta.write_table(table, rows, mode="overwrite", partition_overwrite="dynamic")


@pytest.mark.parametrize("use", [_read, _read_where, _optimize, _delete, _replace_partitions])
async def test_a_partition_value_under_a_name_of_another_case_is_not_taken_for_null(
    use: Callable[[adelta.Table], Awaitable[object]], tmp_path: Path
) -> None:
    whole = {"partitionValues": {"p": "x", "q": "1"}}
    table = make_table(tmp_path, [whole, whole, {"partitionValues": {"P": "x", "q": "1"}}])
    with pytest.raises(InvalidTableError, match="'P', but the table calls that column 'p'"):
        await use(adelta.Table(table))


async def test_a_partition_value_that_is_not_listed_is_null(tmp_path: Path) -> None:
    table = make_table(tmp_path, [{"partitionValues": {"q": "1"}}, {"partitionValues": {}}])
    snapshot = await adelta.Table(table).snapshot()
    assert (await snapshot.scan(columns=["p"]).to_arrow()).column("p").to_pylist() == [None] * 4
    assert (await snapshot.scan(where="p IS NULL AND q = 1").to_arrow()).num_rows == 2


async def test_statistics_under_a_name_of_another_case_skip_no_file(tmp_path: Path) -> None:
    stats = {"numRecords": 2, "minValues": {"V": 8}, "maxValues": {"V": 9}, "nullCount": {"V": 0}}
    values = {"p": "x", "q": "1"}
    table = make_table(tmp_path, [{"partitionValues": values, "stats": json.dumps(stats)}])
    snapshot = await adelta.Table(table).snapshot()
    assert (await snapshot.scan(where="v = 1").to_arrow()).column("v").to_pylist() == [1]
