"""Generated columns, and what schemas say of fields: by deltalake and by adelta.deltalake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.deltalake import DeltaTable, write_deltalake
from tests.deltalake.test_same_edges import both, refusal

if TYPE_CHECKING:
    from pathlib import Path

TENFOLD = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"origin": "a sensor"}),
        pa.field("tenfold", pa.int64(), metadata={"delta.generationExpression": "id * 10"}),
    ]
)


def table_of(**columns: list[int | None]) -> pa.Table:
    kinds = [TENFOLD.field(name) for name in columns]
    return pa.table(columns, schema=pa.schema(kinds))


def state(lake: Any, uri: str) -> object:
    """The version, protocol, schema and rows of a table."""
    table = lake.DeltaTable(uri)
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    return table.version(), tuple(table.protocol()), table.schema().to_json(), rows


def test_columns_whose_fields_have_an_expression_are_generated(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, table_of(id=[1], tenfold=[10]))
        created = state(lake, uri)
        lake.write_deltalake(uri, table_of(id=[2]), mode="append")
        lake.write_deltalake(uri, table_of(id=[3]), mode="append", schema_mode="merge")
        lake.write_deltalake(uri, table_of(id=[4], tenfold=[40]), mode="append")
        table = lake.DeltaTable(uri)
        table.merge(
            table_of(id=[5]), "t.id = s.id", "s", "t"
        ).when_not_matched_insert_all().execute()
        table.update({"id": "7"}, predicate="id = -1")
        return created, state(lake, uri)

    theirs, ours = both(tmp_path, run)
    assert ours == theirs
    (_, protocol, _, rows) = ours[1]  # type: ignore[index]
    assert protocol[:2] == (1, 4)
    assert rows[4] == {"id": 5, "tenfold": 50}


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("error", table_of(id=[1], tenfold=[11])),
        ("error", table_of(id=[1], tenfold=[None])),
        ("append", table_of(id=[1], tenfold=[11])),
        ("overwrite", table_of(id=[1], tenfold=[11])),
    ],
)
def test_rows_that_contradict_a_generated_column_are_refused(
    tmp_path: Path, mode: str, rows: pa.Table
) -> None:
    def run(lake: Any, uri: str) -> object:
        if mode != "error":
            lake.write_deltalake(uri, table_of(id=[1], tenfold=[10]))
        kinds, message = refusal(lambda: lake.write_deltalake(uri, rows, mode=mode))
        return kinds, "1 rows failed validation check" in message

    theirs, ours = both(tmp_path, run)
    assert ours == theirs == (["DeltaError", "Exception", "BaseException", "object"], True)


def test_a_table_whose_schema_is_overwritten_gets_its_generated_columns(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table({"id": [1]}))
        options = {"mode": "overwrite", "schema_mode": "overwrite"}
        lake.write_deltalake(uri, table_of(id=[2], tenfold=[20]), **options)
        defined = state(lake, uri)
        lake.write_deltalake(uri, pa.table({"id": [3], "tenfold": [4]}), **options)
        return defined, state(lake, uri)[2:]  # type: ignore[index]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_a_generated_column_is_not_added_by_a_write(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table({"id": [1]}))
        rows = table_of(id=[2], tenfold=[20])
        kinds, message = refusal(
            lambda: lake.write_deltalake(uri, rows, mode="append", schema_mode="merge")
        )
        return kinds, message.partition(".")[0]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_a_write_keeps_the_metadata_of_fields_at_every_depth(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("a", pa.int64(), metadata={"unit": "m"})])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={"origin": "a sensor"}),
            pa.field("one", inner, metadata={"x": "y"}),
            pa.field("many", pa.list_(inner)),
            pa.field("named", pa.map_(pa.string(), inner)),
        ]
    )
    row = {"id": 1, "one": {"a": 1}, "many": [{"a": 2}], "named": [("k", {"a": 3})]}

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.Table.from_pylist([row], schema=schema))
        return state(lake, uri)

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_a_write_checks_the_invariants_that_fields_have(tmp_path: Path) -> None:
    invariant = {"delta.invariants": '{"expression":{"expression":"id > 5"}}'}
    schema = pa.schema([pa.field("id", pa.int64(), metadata=invariant)])

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, pa.table({"id": [6]}, schema=schema))
        few = pa.table({"id": [5]}, schema=schema)
        kinds, message = refusal(lambda: lake.write_deltalake(uri, few, mode="append"))
        return state(lake, uri), kinds, "1 rows failed validation check" in message

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


@pytest.mark.parametrize(
    "metadata",
    [
        {"PARQUET:field_id": "7"},
        {"delta.columnMapping.id": "7", "delta.columnMapping.physicalName": "c"},
        {"delta.identity.start": "1", "delta.identity.allowExplicitInsert": "false"},
        {"delta.typeChanges": '[{"fromType":"integer","toType":"long"}]'},
    ],
)
def test_metadata_that_describes_the_source_of_rows_is_left_out(
    tmp_path: Path, metadata: dict[str, str]
) -> None:
    uri = str(tmp_path / "table")
    schema = pa.schema([pa.field("id", pa.int64(), metadata={**metadata, "unit": "m"})])
    write_deltalake(uri, pa.table({"id": [1]}, schema=schema))
    table = DeltaTable(uri)
    (column,) = table.schema().fields
    assert column.metadata == {"unit": "m"}
    assert table.to_pyarrow_table()["id"].to_pylist() == [1]
