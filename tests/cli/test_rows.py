"""`adelta create`, `write`, `delete`, `update`, `query` and `snapshots`, over real tables."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import io
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import adelta
import adelta.cli.commands
import adelta.sync
from tests.cli.test_commands import lines
from tests.support.unity_catalog import TOKEN

if TYPE_CHECKING:
    from tests.cli.conftest import Run
    from tests.support.unity_catalog import UnityServer

ROWS = pa.table({"city": ["Bern", "Oslo"], "km": [1.5, 2.0]})


def rows_of(path: Path) -> list[dict[str, Any]]:
    with adelta.sync.open_table(path) as table:
        return table.snapshot().scan().to_arrow().to_pylist()


def test_every_public_operation_can_be_reached() -> None:
    """Those that work on tables; what is for programs alone is named here."""
    programs = {
        "open_table",
        "transaction_over",
        "register_commit_owner",
        "retry",
        "identity_column",
        "preload",
    }
    asked = {
        name
        for name in adelta.__all__
        if inspect.isfunction(getattr(adelta, name)) and name not in programs
    }
    used = set()
    for path in Path(adelta.cli.commands.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used |= {node.attr} if node.value.id == "adelta" else set()
            if isinstance(node, ast.ImportFrom) and node.module == "adelta":
                used |= {alias.name for alias in node.names}
    assert asked - used == {"sql"}, "sql_batches is what the command takes"


def test_a_table_is_created_and_replaced(run: Run, tmp_path: Path) -> None:
    path, one = tmp_path / "t", ["--columns", "id bigint"]
    status, out, _ = run(
        "create", path, "--columns", "id: bigint NOT NULL, city string", "--partition-by", "city",
        "--property", "delta.appendOnly=false", "--identity", "n", "--description", "trips",
        "--json",
    )  # fmt: skip
    assert (status, lines(out)[0]["version"]) == (0, 0)
    page = lines(run("show", path, "--json")[1])[0]
    assert page["partitionColumns"] == ["city"]
    assert page["description"] == "trips"
    assert page["properties"] == {"delta.appendOnly": "false"}
    assert "identityColumns" in page["writerFeatures"]
    with adelta.sync.open_table(path) as table:
        schema = table.snapshot().schema
    assert schema.names == ["n", "id", "city"]
    assert not schema.field("id").nullable
    assert run("create", path, *one)[0] == 1
    assert "version 0" in run("create", path, *one, "--if-not-exists")[1]
    assert "version 1" in run("create", path, *one, "--replace")[1]
    assert run("create", tmp_path / "none", *one, "--replace")[0] == 1
    assert run("create", tmp_path / "new", *one, "--or-replace")[0] == 0
    assert run("create", tmp_path / "none")[0] == 2
    assert run("create", tmp_path / "none", "--columns", "id: number")[0] == 2
    assert run("create", tmp_path / "like", "--like", path)[0] == 0
    assert lines(run("schema", tmp_path / "like", "--json")[1])[0]["fields"][0]["name"] == "id"


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "arrow", "stream", "delta"])
def test_rows_of_every_format_are_written(run: Run, tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"rows.{kind}"
    given = ["--format", "arrow"] if kind == "stream" else []
    match kind:
        case "parquet":
            pa.parquet.write_table(ROWS, source)
        case "csv":
            pa.csv.write_csv(ROWS, source)
        case "json":
            source.write_text('{"city":"Bern","km":1.5}\n\n{"km":2.0,"city":"Oslo"}\n')
        case "delta":
            adelta.sync.write_table(source, ROWS)
        case _:
            make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
            with make(str(source), ROWS.schema) as writer:
                writer.write_table(ROWS)
    status, out, err = run("write", tmp_path / "t", source, "--partition-by", "city", *given)
    assert (status, err) == (0, "")
    assert out.startswith("Version 0: 2 rows in 2 files")
    assert sorted(rows_of(tmp_path / "t"), key=str) == ROWS.to_pylist()


def test_modes_are_those_of_python(run: Run, tmp_path: Path) -> None:
    path, source = tmp_path / "t", tmp_path / "rows.json"
    source.write_text('{"city":"Bern","km":1.5}\n')
    assert run("write", path, source, "--txn", "load=7")[0] == 0
    assert "before" in run("write", path, source, "--txn", "load=7")[1]
    assert "there is a table" in run("write", path, source, "--mode", "ignore")[1]
    assert run("write", path, source, "--mode", "error")[0] == 1
    source.write_text('{"city":"Bern","kg":4}\n')
    status, _, err = run("write", path, source)
    assert status == 2
    assert "kg" in err
    assert run("write", path, source, "--schema-mode", "merge", "--user-metadata", "why")[0] == 0
    assert lines(run("history", path, "--json")[1])[0]["userMetadata"] == "why"
    overwritten = run("write", path, source, "--mode", "overwrite", "--replace-where", "kg = 4")
    assert overwritten[0] == 0
    assert sorted(row["kg"] or 0 for row in rows_of(path)) == [0, 4]


def test_what_read_prints_can_be_written(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    adelta.sync.sql(
        f"CREATE TABLE delta.`{path}` (id bigint, small int, price decimal(9,2), day date, "
        "at timestamp, there timestamp_ntz, raw binary, ratio float, tags array<string>, "
        "names map<string, bigint>, numbers map<int, date>, inner_one struct<a: int, b: date>)"
    )
    row = {
        "id": 2**60 + 1,
        "small": -3,
        "price": Decimal("12.30"),
        "day": dt.date(2024, 2, 29),
        "at": dt.datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC),
        "there": dt.datetime(2024, 1, 1, 12),
        "raw": b"\x00\xff",
        "ratio": float("inf"),
        "tags": ["a", None],
        "names": [("k", 1)],
        "numbers": [(1, dt.date(2024, 1, 1))],
        "inner_one": {"a": 1, "b": dt.date(2024, 1, 1)},
    }
    with adelta.sync.open_table(path) as table:
        schema = table.snapshot().schema
        empty = dict.fromkeys(row)
        adelta.sync.write_table(table, pa.Table.from_pylist([row, empty], schema))
    assert run("create", copy, "--like", path)[0] == 0
    printed = run("read", path, "--json")[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    assert run("write", copy, "-", "--format", "json")[:1] == (0,)
    assert rows_of(copy) == rows_of(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1"),
        ("[1]", "one object a line"),
        ('{"km":"far"}', "'km'"),
        ('{"city":1}', "'city'"),
    ],
)
def test_lines_that_are_no_rows_are_refused_and_nothing_is_written(
    run: Run, trips: Path, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "rows.json").write_text(text + "\n")
    status, _, err = run("write", trips, tmp_path / "rows.json")
    assert status == 2
    assert says in err
    with adelta.sync.open_table(trips) as table:
        assert table.snapshot().version == 2


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.arrow"])
def test_a_file_that_is_none_of_its_kind_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00garbage\n\x01,,,")
    assert run("write", tmp_path / "t", tmp_path / name)[0] == 2
    assert run("write", tmp_path / "t", tmp_path / f"no-{name}")[0] == 2
    assert not (tmp_path / "t").exists()


def test_standard_input_needs_a_format(run: Run, tmp_path: Path) -> None:
    status, _, err = run("write", tmp_path / "t", "-")
    assert status == 2
    assert "--format" in err


def test_rows_come_through_a_pipe(trips: Path, tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"city": ["Rome"], "km": [1.0]}), tmp_path / "x.parquet")
    command = [sys.executable, "-m", "adelta", "write", trips, "-", "--format", "parquet"]
    with (
        (tmp_path / "x.parquet").open("rb") as file,
        subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat,
    ):
        done = subprocess.run(command, stdin=cat.stdout, capture_output=True, check=True)
    assert done.stdout.startswith(b"Version 3: 1 row")


def test_rows_are_deleted_and_updated(run: Run, trips: Path) -> None:
    assert run("delete", trips, "--where", "city = 'Oslo'")[1] == "Version 3: 1 row deleted.\n"
    assert "no such rows" in run("delete", trips, "--where", "city = 'Oslo'")[1]
    done = run("update", trips, "--set", "km=km * 2", "--where", "city = 'Bern'", "--json")
    assert lines(done[1])[0]["numUpdatedRows"] == 2
    assert sorted(row["km"] or 0 for row in rows_of(trips)) == [0, 7.0, 14.5]
    assert run("update", trips, "--set", "nope=1", "--all")[0] == 2
    assert run("delete", trips)[0] == 2, "all rows are asked for by --all"
    assert run("delete", trips, "--all")[0] == 0
    assert rows_of(trips) == []


def test_a_query_answers_and_changes_nothing(run: Run, trips: Path) -> None:
    named = ["--table", f"t={trips}", "--json"]
    status, out, _ = run("query", "SELECT count(*) AS n FROM t", *named)
    assert (status, lines(out)) == (0, [{"n": 4}])
    status, out, err = run("query", "DELETE FROM t", *named)
    assert (status, out) == (2, "")
    assert "adelta sql" in err
    assert len(rows_of(trips)) == 4


def test_snapshots_of_tables_without_an_owner_in_common_are_refused(run: Run, trips: Path) -> None:
    status, _, err = run("snapshots", trips)
    assert status == 2
    assert "owner" in err


def test_protocol_versions_are_raised(run: Run, trips: Path) -> None:
    assert run("alter", trips, "upgrade-protocol", 2, 5)[0] == 0
    page = lines(run("show", trips, "--json")[1])[0]
    assert (page["minReaderVersion"], page["minWriterVersion"]) == (2, 5)


def test_a_catalogs_table_is_created_written_and_read_by_its_name(
    run: Run, tmp_path: Path, unity_server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADELTA_CATALOG_TOKEN", TOKEN)
    (tmp_path / "rows.json").write_text('{"id": 1}\n{"id": 2}\n')
    asked = ["main.default.visits", "--catalog", unity_server.endpoint]
    assert run("create", *asked, "--columns", "id bigint")[0] == 0
    assert run("write", *asked, tmp_path / "rows.json")[0] == 0
    assert run("delete", *asked, "--where", "id = 1")[0] == 0
    assert lines(run("read", *asked, "--json")[1]) == [{"id": 2}]
    assert lines(run("show", *asked, "--json")[1])[0]["version"] == 2
    assert run("create", *asked, "--columns", "id int, name string", "--replace")[0] == 0
    assert run("show", "main.default.none", *asked[1:])[0] == 1
    assert run("show", "visits", *asked[1:])[0] == 2
    monkeypatch.setenv("ADELTA_CATALOG_TOKEN", "wrong")
    status, _, err = run("show", *asked)
    assert status == 1
    assert "token" in err
