"""What deltalake says of a table besides its rows: statistics, partitions, applications."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa

from adelta.operations import checkpoint, write_table
from adelta.table import open_table

if TYPE_CHECKING:
    from pathlib import Path

EVERY_TYPE = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(20, 3)),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.int64())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("struct", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
    ]
)
ROW: dict[str, Any] = {
    "boolean": True,
    "byte": -128,
    "short": 32767,
    "integer": -(2**31),
    "long": 2**63 - 1,
    "float": 1.5,
    "double": -2.25,
    "decimal": Decimal("12345678901234567.891"),
    "string": "größe ✓ 𝄞",
    "binary": b"\x00\xff",
    "date": date(1582, 10, 4),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "list": [1, None, 3],
    "map": [("k", 1), ("l", None)],
    "struct": {"x": 1, "y": {"z": "deep"}},
}
NULLS: dict[str, Any] = dict.fromkeys(ROW)
ODD = ["a%b", "x/y", " ", "größe ✓", "a=b", "a+b&c", "a:b?c#d", "'quoted\"", "..", "%41", None]


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def theirs(path: Path) -> pa.Table:
    return deltalake.DeltaTable(path).to_pyarrow_table()


async def ours(path: Path) -> pa.Table:
    return await (await open_table(str(path)).snapshot()).scan().to_arrow()


async def test_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    data = pa.Table.from_pylist([ROW, NULLS], schema=EVERY_TYPE)
    await write_table(str(tmp_path), data)
    assert rows(theirs(tmp_path)) == rows(data)
    assert rows(await ours(tmp_path)) == rows(data)
    assert (await ours(tmp_path)).schema.equals(EVERY_TYPE)


async def test_partition_values_with_odd_characters_are_read_as_they_were_written(
    tmp_path: Path,
) -> None:
    data = pa.table({"p": ODD, "v": range(len(ODD))})
    await write_table(str(tmp_path), data, partition_by=["p"])
    assert rows(theirs(tmp_path)) == rows(data)
    assert rows(await ours(tmp_path)) == rows(data)
    actions = deltalake.DeltaTable(tmp_path).get_add_actions(flatten=True)
    assert set(pa.table(actions).column("partition.p").to_pylist()) == set(ODD)


async def test_statistics_say_the_same_to_both(tmp_path: Path) -> None:
    data = pa.Table.from_pylist([ROW, NULLS, {**ROW, "long": -5, "string": "A"}], schema=EVERY_TYPE)
    await write_table(str(tmp_path), data)
    seen = pa.table(deltalake.DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()[0]
    assert seen["num_records"] == 3
    assert (seen["min.long"], seen["max.long"]) == (-5, 2**63 - 1)
    assert (seen["min.string"], seen["max.string"]) == ("A", "größe ✓ 𝄞")
    assert (seen["min.decimal"], seen["max.decimal"]) == (ROW["decimal"], ROW["decimal"])
    assert seen["min.date"] == date(1582, 10, 4)
    assert seen["null_count.struct.y.z"] == 1
    assert seen["null_count.binary"] == 1


async def test_a_table_is_read_from_the_checkpoint_that_adelta_wrote(tmp_path: Path) -> None:
    data = pa.table({"p": ODD, "v": range(len(ODD))})
    await write_table(str(tmp_path), data, partition_by=["p"])
    async with open_table(str(tmp_path)) as table:
        await write_table(table, data, mode="overwrite", txn=("app", 5))
        await checkpoint(table)
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        commit.unlink()
    table = deltalake.DeltaTable(tmp_path)
    assert rows(theirs(tmp_path)) == rows(data)
    assert table.transaction_version("app") == 5
    assert table.metadata().partition_columns == ["p"]


async def test_the_log_is_json_that_names_each_action_once(tmp_path: Path) -> None:
    await write_table(str(tmp_path), pa.table({"a": [1]}))
    text = (tmp_path / "_delta_log" / f"{0:020d}.json").read_text()
    lines = [orjson.loads(line) for line in text.splitlines()]
    assert [list(line) for line in lines] == [["commitInfo"], ["protocol"], ["metaData"], ["add"]]
