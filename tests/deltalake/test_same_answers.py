"""The rows that deltalake answers with: names, types and order of columns, by both packages."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import arro3.core
import deltalake
import pyarrow as pa
import pytest

import adelta.deltalake
from tests.deltalake.test_same_edges import both, refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table(
    {
        "id": [1, 2],
        "i": pa.array([1, 2], pa.int32()),
        "p": ["a", "b"],
        "s": ["x", "y"],
        "b": [b"x", b"y"],
        "l": [["a"], []],
        "st": [{"q": "a"}] * 2,
        "d": [date(2020, 1, 1)] * 2,
        "t": pa.array([datetime(2020, 1, 1)] * 2, pa.timestamp("us", "UTC")),
        "m": pa.array([[("a", "b")]] * 2, pa.map_(pa.string(), pa.string())),
    }
)
ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda lake, table: table.scan(),
    "scan of columns": lambda lake, table: table.scan(["s", "p"], "id = 1"),
    "changes": lambda lake, table: table.load_cdf(),
    "changes of columns": lambda lake, table: table.load_cdf(columns=["_commit_version", "s"]),
    "no changes": lambda lake, table: table.load_cdf(9, allow_out_of_range=True),
    "query": lambda lake, table: query(lake, table, "SELECT * FROM t"),
    "sums": lambda lake, table: query(
        lake, table, "SELECT sum(i) AS s, upper(p) u FROM t GROUP BY p"
    ),
    "values": lambda lake, table: query(lake, table, "VALUES (1.5e0, 'a')"),
    "table": lambda lake, table: query(lake, table, "DESCRIBE t"),
}


def query(lake: Any, table: Any, sql: str) -> Any:
    return lake.QueryBuilder().register("t", table).execute(sql)


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_columns_have_the_types_and_the_order_of_deltalake(
    partition_by: str | None, tmp_path: Path
) -> None:
    def run(lake: Any, uri: str) -> object:
        feed = {"delta.enableChangeDataFeed": "true"}
        lake.write_deltalake(uri, ROWS, partition_by=partition_by, configuration=feed)
        table = lake.DeltaTable(uri)
        table.delete("id = 2")
        found = {name: pa.schema(ask(lake, table).schema) for name, ask in ANSWERS.items()}
        return {name: [(f.name, str(f.type)) for f in fields] for name, fields in found.items()}

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_rows_and_files_come_in_the_order_of_deltalake(
    partition_by: str | None, tmp_path: Path
) -> None:
    """The latest commit first; of one that writes several files each package has its own order."""
    uri = str(tmp_path)

    def seen(table: Any) -> object:
        files = table.file_uris()
        ids = [
            rows.column("id").to_pylist()
            for rows in (table.to_pyarrow_table(), pa.table(table.scan()))
        ]
        listed = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
        return files, ids, listed

    def append(number: int) -> None:
        rows = pa.table({"id": [number], "p": [str(number % 2)]})
        deltalake.write_deltalake(uri, rows, mode="append", partition_by=partition_by)

    for number in range(4):
        append(number)
    opened = [lake.DeltaTable(uri) for lake in (deltalake, adelta.deltalake)]
    opened[0].create_checkpoint()
    for number in range(4, 7):
        append(number)
        for table in opened:
            table.update_incremental()
    opened[0].update({"id": "id + 10"}, predicate="id = 1")
    for lake in (deltalake, adelta.deltalake):
        opened += [lake.DeltaTable(uri), lake.DeltaTable(uri, version=5)]
    opened[1].update_incremental()
    theirs, ours, theirs_anew, theirs_old, ours_anew, ours_old = [seen(table) for table in opened]
    assert ours == theirs
    assert ours_anew == theirs_anew == theirs
    assert ours_old == theirs_old


def test_answers_equal_tables_of_arro3(tmp_path: Path) -> None:
    adelta.deltalake.write_deltalake(str(tmp_path), ROWS)
    table = adelta.deltalake.DeltaTable(str(tmp_path))
    columns = {
        "id": arro3.core.Array([1, 2], arro3.core.Field("id", arro3.core.DataType.int64())),
        "s": arro3.core.Array(["x", "y"], arro3.core.Field("s", arro3.core.DataType.string_view())),
    }
    found = query(adelta.deltalake, table, "SELECT id, s FROM t ORDER BY id").read_all()
    assert found == arro3.core.Table(columns)


def test_queries_that_cannot_be_run_are_refused_in_the_words_of_deltalake(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ROWS)
        table = lake.DeltaTable(uri)
        builder = lake.QueryBuilder().register("t", table)
        said = [refusal(lambda sql=sql: builder.execute(sql).read_all()) for sql in QUERIES]  # type: ignore[misc]
        said += [refusal(lambda: builder.register("t", table))]
        said += [refusal(lambda: builder.register(5, table))]
        return [(kinds, text[:30]) for kinds, text in said]

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


QUERIES = ["SELECT * FROM nope", "SELECT nope FROM t", "selec 1"]


CHANGES = "delta.enableChangeDataFeed"
READER, WRITER = "delta.minReaderVersion", "delta.minWriterVersion"


@pytest.mark.parametrize(
    "properties",
    [
        {CHANGES: "true"},
        {READER: "2"},
        {WRITER: "3"},
        {WRITER: "4"},
        {READER: "2", WRITER: "5"},
        {READER: "2", WRITER: "7"},
        {READER: "2", WRITER: "7", CHANGES: "true"},
        {"delta.appendOnly": "true"},
    ],
    ids=str,
)
def test_properties_ask_for_versions_of_the_protocol(
    properties: dict[str, str], tmp_path: Path
) -> None:
    ids = pa.table({"id": [1]})

    def run(lake: Any, uri: str) -> object:
        lake.write_deltalake(uri, ids, configuration=properties)
        lake.DeltaTable.create(uri + "1", ids.schema, configuration=properties)
        lake.write_deltalake(uri + "2", ids)
        altered = lake.DeltaTable(uri + "2")
        altered.alter.set_table_properties(properties)
        tables = [*(lake.DeltaTable(each) for each in (uri, uri + "1")), altered]
        tables[0].alter.set_table_properties({CHANGES: "true"})
        told = []
        for table in tables:
            lake.write_deltalake(table, ids, mode="append")
            reader, writer, *features = table.protocol()
            listed = [each and sorted(each) for each in features]
            told.append((reader, writer, listed, table.metadata().configuration))
        return told

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_there_is_no_table_in_the_words_of_deltalake(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        kinds, text = refusal(lambda: lake.DeltaTable(uri + "/none"))
        (tmp_path / "empty").mkdir(exist_ok=True)
        return (
            kinds,
            text.replace(uri, "")[:50],
            refusal(lambda: lake.DeltaTable(tmp_path / "empty"))[1][:47],
        )

    theirs, ours = both(tmp_path, run)
    assert ours == theirs


def test_the_history_defines_a_table_that_is_created_alike(tmp_path: Path) -> None:
    def run(lake: Any, uri: str) -> object:
        schema = ROWS.select(["id", "s"]).schema
        lake.DeltaTable.create(uri, schema, partition_by="s", name="n")
        (entry,) = lake.DeltaTable(uri).history()
        told = entry["operationParameters"]
        metadata = json.loads(told["metadata"])
        assert metadata.pop("id") == lake.DeltaTable(uri).metadata().id
        del metadata["createdTime"]
        place = told["location"].removesuffix(f"{uri.rpartition('/')[2]}/")
        return metadata, json.loads(told["protocol"]), told["mode"], place

    theirs, ours = both(tmp_path, run)
    assert ours == theirs
