"""Values that statements assign are cast as Spark's ANSI store assignment casts them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import adelta.sync as adelta
from adelta.errors import SchemaMismatchError

if TYPE_CHECKING:
    from pathlib import Path

NESTED = pa.struct([("d", pa.decimal128(5, 1)), ("l", pa.list_(pa.int32()))])
ROWS = pa.table(
    {
        "k": pa.array([1, 2], pa.int32()),
        "e": pa.array([Decimal("10.00"), Decimal("-2.00")], pa.decimal128(12, 2)),
        "i": pa.array([7, 7], pa.int32()),
        "s": pa.array(["a", "b"]),
        "t": pa.array([None, None], pa.timestamp("us", "UTC")),
        "d": pa.array([None, None], pa.date32()),
        "n": pa.array([{"d": None, "l": [1]}, None], NESTED),
    }
)
ZONE = "America/New_York"
WAYS = ("update", "merge update", "merge insert", "sql update", "sql insert", "sql select")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    adelta.write_table(path, ROWS)
    return path


def _rows(path: str) -> pa.Table:
    return adelta.open_table(path).snapshot().scan().to_arrow()


def _stored(path: str, way: str, column: str, text: str) -> Any:
    """What `column` holds for k = 1 after a statement assigns it the expression `text`."""
    source = pa.table({"k": pa.array([1], pa.int32())})
    if way == "update":
        adelta.update(path, {column: text}, "k = 1")
    elif way == "merge update":
        merge = adelta.merge(path, source, on="target.k = source.k")
        merge.when_matched_update({column: text}).execute()
    elif way == "sql update":
        adelta.sql(f"UPDATE t SET {column} = {text} WHERE k = 1", tables={"t": path})
    else:
        adelta.delete(path, "k = 1")
        if way == "merge insert":
            merge = adelta.merge(path, source, on="target.k = source.k")
            merge.when_not_matched_insert({"k": "1", column: text}).execute()
        elif way == "sql insert":
            adelta.sql(f"INSERT INTO t (k, {column}) VALUES (1, {text})", tables={"t": path})
        else:
            adelta.sql(f"INSERT INTO t (k, {column}) SELECT 1, {text}", tables={"t": path})
    rows = adelta.open_table(path).snapshot().scan(where="k = 1").to_arrow()
    return rows.column(column)[0].as_py()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("e", "CAST(10.125 AS DECIMAL(8,3))", Decimal("10.13")),
        ("e", "CAST(-10.125 AS DECIMAL(8,3))", Decimal("-10.13")),
        ("e", "CAST(1.005 AS DOUBLE)", Decimal("1.01")),
        ("e", "'12.345'", Decimal("12.35")),
        ("i", "CAST(-1.99 AS DECIMAL(5,2))", -1),
        ("i", "' 12 '", 12),
        ("i", "true", 1),
        ("s", "CAST('2024-01-02 03:04:05' AS TIMESTAMP)", "2024-01-02 03:04:05"),
        ("s", "CAST(1.50 AS DECIMAL(5,2))", "1.50"),
        ("d", "CAST('2024-01-02 23:04:05' AS TIMESTAMP)", date(2024, 1, 2)),
        ("d", "'2024-02-29'", date(2024, 2, 29)),
        ("t", "CAST('2024-01-02' AS DATE)", datetime(2024, 1, 2, tzinfo=UTC)),
    ],
)
def test_statements_store_values_of_other_types_by_a_cast(
    table: str, way: str, column: str, text: str, value: object
) -> None:
    assert _stored(table, way, column, text) == value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("e", "CAST(12345678901.5 AS DECIMAL(20,2))"),
        ("i", "3000000000"),
        ("i", "CAST('NaN' AS DOUBLE)"),
        ("i", "'1.5'"),
        ("d", "'2024-02-30'"),
    ],
)
def test_statements_refuse_values_that_do_not_fit_and_name_the_column(
    table: str, way: str, column: str, text: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=f"column '{column}': .* cannot be cast to"):
        _stored(table, way, column, text)


def test_a_quotient_of_decimals_is_rounded_half_up_to_the_scale_of_its_column(table: str) -> None:
    adelta.update(table, {"e": "e / 3"})
    rows = _rows(table).sort_by("k")
    assert rows.column("e").to_pylist() == [Decimal("3.33"), Decimal("-0.67")]


def test_values_within_structs_and_lists_are_cast(table: str) -> None:
    adelta.update(table, {"n.d": "CAST(1.25 AS DECIMAL(5,2))"}, "k = 1")
    source = pa.table(
        {
            "k": pa.array([2], pa.int32()),
            "n": pa.array(
                [{"L": ["3", None], "d": Decimal("-0.250")}],
                pa.struct([("L", pa.list_(pa.string())), ("d", pa.decimal128(9, 3))]),
            ),
        }
    )
    merge = adelta.merge(table, source, on="target.k = source.k")
    merge.when_matched_update({"n": "source.n"}).execute()
    assert _rows(table).sort_by("k").column("n").to_pylist() == [
        {"d": Decimal("1.3"), "l": [1]},
        {"d": Decimal("-0.3"), "l": [3, None]},
    ]


def test_values_below_null_structs_are_not_cast(table: str) -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array(["no number"]), pa.array([[1]])], ["d", "l"], mask=pa.array([True])
    )
    source = pa.table({"k": pa.array([2], pa.int32()), "n": hidden})
    merge = adelta.merge(table, source, on="target.k = source.k")
    merge.when_matched_update({"n": "source.n"}).execute()
    assert (
        adelta.open_table(table)
        .snapshot()
        .scan()
        .to_arrow()
        .sort_by("k")
        .column("n")
        .to_pylist()[1]
        is None
    )


def test_rows_that_are_data_are_not_rounded_or_parsed(table: str) -> None:
    for wrong in (
        {"e": pa.array([Decimal("1.005")], pa.decimal128(12, 3))},
        {"i": pa.array(["1"])},
        {"i": pa.array([1.5])},
        {"d": pa.array([datetime(2024, 1, 2, 3)], pa.timestamp("us"))},
    ):
        with pytest.raises(SchemaMismatchError):
            adelta.write_table(table, pa.table({"k": pa.array([3], pa.int32()), **wrong}))


def test_defaults_and_generated_columns_are_cast_to_the_type_of_their_column(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "computed")
    adelta.sql(
        f"CREATE TABLE delta.`{path}` (k INT, half DECIMAL(5,1) DEFAULT 0.25, "
        "third DECIMAL(5,2) GENERATED ALWAYS AS (k / CAST(3 AS DECIMAL(3,0))))"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    adelta.write_table(path, pa.table({"k": pa.array([2], pa.int32())}))
    assert _rows(path).to_pylist() == [{"k": 2, "half": Decimal("0.3"), "third": Decimal("0.67")}]


def test_dates_become_midnights_of_the_zone_of_the_statement(table: str) -> None:
    midnight = datetime(2024, 1, 2, 5, tzinfo=UTC)
    adelta.update(table, {"t": "CAST('2024-01-02' AS DATE)"}, "k = 1", zone=ZONE)
    assert _rows(table).sort_by("k").column("t").to_pylist() == [midnight, None]
    adelta.update(table, {"d": "t", "s": "t"}, "k = 1", zone=ZONE)
    first = _rows(table).sort_by("k").to_pylist()[0]
    assert (first["d"], first["s"]) == (date(2024, 1, 2), "2024-01-02 00:00:00")


def test_an_update_of_one_column_casts_in_the_time_zone_of_the_statement(
    tmp_path: Path,
) -> None:
    count = 270_000  # enough for a file whose other columns are copied
    noise = np.random.default_rng(1).integers(0, 2**62, count)
    times = pa.nulls(count, pa.timestamp("us", "UTC"))
    path = str(tmp_path / "large")
    adelta.write_table(path, pa.table({"noise": pa.array(noise), "t": times}))
    adelta.update(path, {"t": "CAST('2024-01-02' AS DATE)"}, zone=ZONE)
    stored = _rows(path).column("t").unique().to_pylist()
    assert stored == [datetime(2024, 1, 2, 5, tzinfo=UTC)]


def test_inserts_with_schema_evolution_cast_the_columns_that_the_table_has(table: str) -> None:
    adelta.sql(
        "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 1 AS k, '8' AS i, 'x' AS new",
        tables={"t": table},
    )
    (row,) = adelta.open_table(table).snapshot().scan(where="new = 'x'").to_arrow().to_pylist()
    assert (row["k"], row["i"]) == (1, 8)
