"""The bounds of files that add actions and datasets of adelta.deltalake have."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from adelta import sync
from adelta.deltalake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path


def with_statistics(path: Path, rows: pa.Table, low: str, high: str) -> DeltaTable:
    """A table of one file whose only column is `x`, with the JSON of its bounds as given."""
    sync.write_table(str(path), rows)
    commit = path / "_delta_log" / f"{0:020}.json"
    lines = []
    for line in commit.read_text().splitlines():
        action = json.loads(line)
        if "add" in action:
            action["add"]["stats"] = (
                f'{{"numRecords":{len(rows)},"minValues":{{"x":{low}}},'
                f'"maxValues":{{"x":{high}}},"nullCount":{{"x":0}}}}'
            )
        lines.append(json.dumps(action))
    commit.write_text("\n".join(lines))
    for checksum in path.glob("_delta_log/*.crc"):
        checksum.unlink()
    return DeltaTable(str(path))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9427047712994774.06", pa.decimal128(18, 2)),
        ("-9427047712994774.07", pa.decimal128(18, 2)),
        ("999999999999.999999", pa.decimal128(18, 6)),
        ("0.123456789012345678", pa.decimal128(38, 18)),
        ("12345678901234567890123456789012345678", pa.decimal128(38, 0)),
    ],
)
def test_bounds_of_decimals_keep_the_digits_of_the_log(
    tmp_path: Path, text: str, kind: pa.DataType
) -> None:
    value = pa.scalar(Decimal(text), kind)
    sync.write_table(str(tmp_path), pa.table({"x": pa.array([value])}))
    table = DeltaTable(str(tmp_path))
    actions = pa.table(table.get_add_actions(flatten=True))
    assert actions.select(["min.x", "max.x"]).to_pylist() == [
        {"min.x": Decimal(text), "max.x": Decimal(text)}
    ]
    assert table.to_pyarrow_dataset().to_table(filter=pc.field("x") == value).num_rows == 1


@pytest.mark.parametrize(
    ("rows", "low", "high", "bounds"),
    [
        ([Decimal("1.50")], "1.4999", "1.5001", (Decimal("1.49"), Decimal("1.51"))),
        ([Decimal("-1.50")], "-1.5001", "-1.4999", (Decimal("-1.51"), Decimal("-1.49"))),
        ([Decimal("9.99")], "9.99", "12345.6", (Decimal("9.99"), None)),
        ([5], "4.5", "5.5", (4, 6)),
        ([5], "5", "1e300", (5, None)),
    ],
)
def test_bounds_that_a_type_cannot_hold_are_rounded_outward_or_left_out(
    tmp_path: Path, rows: list[Any], low: str, high: str, bounds: tuple[Any, Any]
) -> None:
    kind = pa.int32() if isinstance(rows[0], int) else pa.decimal128(5, 2)
    data = pa.table({"x": pa.array(rows, kind)})
    table = with_statistics(tmp_path, data, low, high)
    actions = pa.table(table.get_add_actions(flatten=True))
    assert (actions["min.x"].to_pylist(), actions["max.x"].to_pylist()) == (
        [bounds[0]],
        [bounds[1]],
    )
    is_row = pc.field("x") == pa.scalar(rows[0], kind)
    assert table.to_pyarrow_dataset().to_table(filter=is_row).num_rows == 1


def test_a_dataset_finds_times_in_the_last_millisecond_that_types_hold(tmp_path: Path) -> None:
    latest = datetime(9999, 12, 31, 23, 59, 59, 999999)
    sync.write_table(str(tmp_path), pa.table({"x": [latest]}))
    files = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    is_latest = pc.field("x") == pa.scalar(latest, pa.timestamp("us"))
    assert files.to_table(filter=is_latest).num_rows == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9427047712994774.06", pa.decimal128(18, 2)),
        ("-9427047712994774.07", pa.decimal128(18, 2)),
        ("0.123456789012345678", pa.decimal128(38, 18)),
        ("12345678901234567890123456789012345678", pa.decimal128(38, 0)),
        ("-12345678901234567890123456789012345678", pa.decimal128(38, 0)),
    ],
)
def test_a_dataset_finds_rows_whose_bounds_deltalake_has_rounded(
    tmp_path: Path, text: str, kind: pa.DataType
) -> None:
    value = pa.scalar(Decimal(text), kind)
    deltalake.write_deltalake(str(tmp_path), pa.table({"x": pa.array([value])}))
    files = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    assert files.to_table(filter=pc.field("x") == value).num_rows == 1
