"""Rows of tables that deltalake wrote are found and changed by decimals wider than a double."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import adelta.sync as adelta
from adelta.deltalake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

VALUES = [
    ("9427047712994774.06", 18, 2),
    ("90071992547409.93", 16, 2),
    ("9999999999999999.99", 18, 2),
    ("-9427047712994774.07", 18, 2),
    ("0.123456789012345678", 38, 18),
    ("12345678901234567890", 20, 0),
    ("9" * 38, 38, 0),
    ("-" + "9" * 38, 38, 0),
]


@pytest.fixture(params=[False, True], ids=["commit", "checkpoint"])
def checkpointed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(("text", "precision", "scale"), VALUES)
def test_wide_decimals_that_deltalake_wrote_are_found_and_changed(
    text: str, precision: int, scale: int, checkpointed: bool, tmp_path: Path
) -> None:
    kind = pa.decimal128(precision, scale)

    def rows(*keys: int) -> pa.Table:
        return pa.table({"k": keys, "x": pa.array([Decimal(text)] * len(keys), kind)})

    def written(name: str) -> str:
        path = str(tmp_path / name)
        deltalake.write_deltalake(path, rows(1))
        if checkpointed:
            deltalake.DeltaTable(path).create_checkpoint()
        return path

    path = written("read")
    for where in (f"x = {text}", f"x >= {text}", f"x <= {text}", f"x IN ({text}, 1)"):
        assert adelta.open_table(path).snapshot().scan(where=where).to_arrow()["k"].to_pylist() == [
            1
        ]

    dataset = DeltaTable(path).to_pyarrow_dataset()
    for condition in (pc.field("x") == rows(1)["x"][0], pc.field("x").isin(rows(1)["x"])):
        assert dataset.to_table(filter=condition)["k"].to_pylist() == [1]
    query = f"SELECT k FROM dataset WHERE x >= {text}::DECIMAL({precision},{scale})"
    assert duckdb.execute(query).fetchall() == [(1,)]

    merge = adelta.merge(path, rows(2), on="target.x = source.x")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert adelta.open_table(path).snapshot().scan().to_arrow()["k"].to_pylist() == [2]

    path = written("deleted")
    adelta.delete(path, f"x = {text}")
    assert adelta.open_table(path).snapshot().scan().to_arrow().num_rows == 0

    path = written("updated")
    adelta.update(path, {"k": "5"}, f"x = {text}")
    assert adelta.open_table(path).snapshot().scan().to_arrow()["k"].to_pylist() == [5]

    path = written("replaced")
    adelta.write_table(path, rows(2), mode="overwrite", replace_where=f"x = {text}")
    assert adelta.open_table(path).snapshot().scan().to_arrow()["k"].to_pylist() == [2]


def test_files_of_deltalake_are_still_skipped_by_decimals_that_are_far_apart(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        value = Decimal("9427047712990000.06") + number
        data = pa.table({"x": pa.array([value], pa.decimal128(18, 2))})
        deltalake.write_deltalake(path, data, mode="append")
    snapshot = adelta.open_table(path).snapshot()
    assert snapshot.files(where="x = 9427047712980000.06").num_rows == 0
    small = str(tmp_path / "small")
    for number in range(3):
        data = pa.table({"x": pa.array([Decimal(number)], pa.decimal128(18, 2))})
        deltalake.write_deltalake(small, data, mode="append")
    assert adelta.open_table(small).snapshot().files(where="x = 1").num_rows == 1
