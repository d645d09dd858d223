"""Which columns fit those of a table, and what becomes of their values: by both packages."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta.deltalake

WHOLE, FEW, MANY = [12], [Decimal("1.25")], [Decimal("1.250")]
SCALED = pa.decimal128(5, 2)
COLUMNS: list[tuple[str, Any, Any]] = [
    ("whole numbers become decimals", SCALED, pa.array(WHOLE)),
    ("narrow ones", SCALED, pa.array(WHOLE, pa.int8())),
    ("decimals lose fractions as floats do", pa.int64(), pa.array(FEW, SCALED)),
    ("fewer digits", SCALED, pa.array([Decimal("1.2")], pa.decimal128(4, 1))),
    ("more digits behind the point", SCALED, pa.array(MANY, pa.decimal128(6, 3))),
    ("more digits in all", SCALED, pa.array([Decimal("1.2")], pa.decimal128(6, 1))),
    ("bytes are no numbers", pa.int64(), pa.array([b"12"])),
    ("nor times", pa.date32(), pa.array([b"12"])),
    ("a field is missing", pa.struct({"x": pa.int64(), "y": pa.string()}), pa.array([{"x": 1}])),
    ("a field is too many", pa.struct({"x": pa.int64()}), pa.array([{"x": 1, "y": 2}])),
    ("in another order", pa.struct(dict.fromkeys("xy", pa.int64())), pa.array([{"y": 1, "x": 2}])),
    ("in other case", pa.struct({"x": pa.int64()}), pa.array([{"X": 1}])),
    ("in a list", pa.list_(pa.struct(dict.fromkeys("xy", pa.int64()))), pa.array([[{"x": 1}]])),
]


@pytest.mark.parametrize(("has", "given"), [c[1:] for c in COLUMNS], ids=[c[0] for c in COLUMNS])
def test_an_append_fits_or_is_refused_alike(has: Any, given: Any, tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table({"a": pa.nulls(1, has)}))
        found: list[object] = []
        for schema_mode in (None, "merge") if pa.types.is_decimal(has) else (None,):
            try:
                lake.write_deltalake(
                    uri, pa.table({"a": given}), mode="append", schema_mode=schema_mode
                )
            except lake.exceptions.DeltaError as error:
                found.append(type(error).__name__)
        table = lake.DeltaTable(uri)
        rows = [row["a"] for row in table.to_pyarrow_table().to_pylist() if row["a"] is not None]
        return found, table.version(), rows

    ours = run(adelta.deltalake, str(tmp_path / "ours"))
    assert ours == run(deltalake, str(tmp_path / "theirs"))


def test_an_append_with_a_predicate_takes_in_columns_and_follows_its_properties(
    tmp_path: Path,
) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table({"id": [1]}))
        lake.write_deltalake(
            uri,
            pa.table({"id": [2], "n": [1.5]}),
            mode="append",
            schema_mode="merge",
            predicate="id > 1",
            writer_properties=lake.WriterProperties(compression="GZIP"),
        )
        table = lake.DeltaTable(uri)
        newest = max(table.file_uris(), key=lambda path: Path(path).stat().st_mtime_ns)
        codec = pq.read_metadata(newest).row_group(0).column(0).compression
        return codec, table.to_pyarrow_table().sort_by("id").to_pylist()

    ours = run(adelta.deltalake, str(tmp_path / "ours"))
    assert ours == run(deltalake, str(tmp_path / "theirs"))


def test_options_that_make_no_sense_are_errors_of_deltalake(tmp_path: Path) -> None:
    lake = adelta.deltalake
    for wrong in ({"encoding": "nope"}, {"statistics_enabled": "nope"}):
        properties = lake.WriterProperties(default_column_properties=lake.ColumnProperties(**wrong))  # type: ignore[arg-type]
        with pytest.raises(lake.exceptions.DeltaError, match="nope"):
            lake.write_deltalake(str(tmp_path), pa.table({"a": [1]}), writer_properties=properties)
    lake.write_deltalake(str(tmp_path), pa.table({"a": [1]}))
    with pytest.raises(lake.exceptions.DeltaError, match="version or datetime"):
        lake.DeltaTable(str(tmp_path)).restore(None)  # type: ignore[arg-type]
