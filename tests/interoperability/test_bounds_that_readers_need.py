"""Other readers find rows by booleans and by infinities in files that adelta wrote.

A dataset of deltalake leaves out files whose statistics have no bounds of a column. It reads those
of booleans and infinities from JSON alone, so no dataset is read after a checkpoint without it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import duckdb_extension_delta
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import adelta.sync as adelta

FILES: list[dict[str, list[Any]]] = [
    {"b": [True], "x": [math.inf]},
    {"b": [False], "x": [-math.inf]},
    {"b": [True, False], "x": [1.0, math.inf]},
    {"b": [None, True], "x": [None, 2.0]},
    {"b": [False], "x": [-0.0]},
    {"b": [None], "x": [None]},
]
ROWS = [(b, x) for file in FILES for b, x in zip(file["b"], file["x"], strict=True)]


@pytest.fixture(scope="module", params=["commits", "JSON", "columns"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose statistics are in commits, or in a checkpoint as JSON or as typed columns."""
    path = str(tmp_path_factory.mktemp("tables") / "t")
    as_json, as_columns = request.param != "columns", request.param == "columns"
    properties = {
        "delta.checkpoint.writeStatsAsJson": str(as_json).lower(),
        "delta.checkpoint.writeStatsAsStruct": str(as_columns).lower(),
    }
    schema = pa.schema({"b": pa.bool_(), "x": pa.float64(), "y": pa.float32()})
    adelta.write_table(path, schema.empty_table(), properties=properties)
    for file in FILES:
        adelta.write_table(path, pa.table({**file, "y": file["x"]}, schema=schema), mode="append")
    if request.param != "commits":
        adelta.checkpoint(path)
    return path


CONDITIONS: dict[str, Any] = {
    "b = true": lambda b, x: b is True,
    "b = false": lambda b, x: b is False,
    "b IS NULL": lambda b, x: b is None,
    "x > 1": lambda b, x: x is not None and x > 1,
    "x < 0": lambda b, x: x is not None and x < 0,
    "x >= 0": lambda b, x: x is not None and x >= 0,
    "y > 1": lambda b, x: x is not None and x > 1,
    "y < 0": lambda b, x: x is not None and x < 0,
}
DATASET = {
    "b = true": pc.field("b") == True,  # noqa: E712
    "b = false": pc.field("b") == False,  # noqa: E712
    "b IS NULL": pc.field("b").is_null(),
    "x > 1": pc.field("x") > 1,
    "x < 0": pc.field("x") < 0,
    "x >= 0": pc.field("x") >= 0,
    "y > 1": pc.field("y") > 1,
    "y < 0": pc.field("y") < 0,
}


def _sorted(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("where", CONDITIONS)
def test_readers_find_rows_by_booleans_and_infinities(path: str, where: str) -> None:
    expected = _sorted([row for row in ROWS if CONDITIONS[where](*row)])
    table = deltalake.DeltaTable(path)

    if table.metadata().configuration["delta.checkpoint.writeStatsAsJson"] == "true":
        dataset = table.to_pyarrow_dataset().to_table(filter=DATASET[where]).select(["b", "x"])
        assert _sorted([tuple(row.values()) for row in dataset.to_pylist()]) == expected

    query = deltalake.QueryBuilder().register("t", table)
    found = pa.table(query.execute(f"SELECT b, x FROM t WHERE {where}").read_all())
    assert _sorted([tuple(row.values()) for row in found.to_pylist()]) == expected

    frame = pl.scan_delta(path).filter(pl.sql_expr(where)).select("b", "x").collect()
    assert _sorted(frame.rows()) == expected

    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as engine:
        engine.execute(f"load '{extension}'")
        rows = engine.execute(f"SELECT b, x FROM delta_scan('{path}') WHERE {where}").fetchall()
    assert _sorted(rows) == expected

    ours = adelta.open_table(path).snapshot().scan(where=where, columns=["b", "x"]).to_arrow()
    assert _sorted([tuple(row.values()) for row in ours.to_pylist()]) == expected
