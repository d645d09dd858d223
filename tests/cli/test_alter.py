"""`adelta alter`: one action a call, over a real table on the local disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import orjson
import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Alter = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = pa.table({"id": [1, 2], "s": [{"a": 1}, None], "n": pa.array([1, 2], pa.int16())})
    properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    anyio.run(partial(adelta.write_table, str(tmp_path), rows, properties=properties))
    return tmp_path


@pytest.fixture
def alter(path: Path, capsys: pytest.CaptureFixture[str]) -> Alter:
    """Runs an action on the table; its exit status, output and error output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(["alter", str(path), *arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def snapshot(path: Path) -> Any:
    with adelta.sync.open_table(str(path)) as table:
        return table.snapshot()


def test_properties_are_set_and_unset(alter: Alter, path: Path) -> None:
    assert alter("set-properties", "own=1=2", "delta.appendOnly=true") == (
        0,
        "Version 1 has the change.\n",
        "",
    )
    assert snapshot(path).properties["own"] == "1=2"
    assert alter("set-properties", "own=1=2") == (0, "Nothing to change.\n", "")
    assert alter("unset-properties", "own")[0] == 0
    assert alter("unset-properties", "own", "--if-exists")[0] == 0
    status, _, err = alter("unset-properties", "own")
    assert status == 2
    assert "no property 'own'" in err


def test_columns_are_added_renamed_dropped_and_changed(alter: Alter, path: Path) -> None:
    alter("add-columns", "x:array<int>", "y: decimal(9,2)", "--after", "id")
    alter("add-columns", "b:string", "--parent", "s", "--first")
    alter("rename-column", "s.a", "c")
    alter("drop-columns", "x", "gone", "--if-exists")
    alter("change-column", "n", "--type", "bigint", "--comment", "a number", "--first")
    alter("change-column", "id", "--not-null")
    schema = snapshot(path).schema
    assert schema.names == ["n", "id", "y", "s"]
    assert schema.field("n").type == pa.int64()
    assert schema.field("n").metadata == {b"comment": b"a number"}
    assert not schema.field("id").nullable
    assert [f.name for f in schema.field("s").type] == ["b", "c"]
    assert schema.field("y").type == pa.decimal128(9, 2)


def test_constraints_clusters_and_features(alter: Alter, path: Path) -> None:
    assert alter("add-constraint", "positive", "id > 0")[0] == 0
    assert alter("cluster-by", "id", "s.a")[0] == 0
    status, _, err = alter("drop-feature", "checkConstraints")
    assert status == 1
    assert "drop_constraint" in err
    assert alter("drop-constraint", "positive")[0] == 0
    assert alter("drop-feature", "checkConstraints")[0] == 0
    assert alter("add-feature", "vacuumProtocolCheck")[0] == 0
    features = snapshot(path).protocol.writer_features
    assert "checkConstraints" not in features
    assert {"clustering", "vacuumProtocolCheck"} <= set(features)
    assert alter("cluster-by")[0] == 0
    status, _, err = alter("drop-feature", "typeWidening", "--truncate-history")
    assert status == 1
    assert "again when they are older" in err


def test_programs_get_the_version_as_json_and_history_what_it_was_for(
    alter: Alter, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(path)
    assert main(["alter", table, "--user-metadata", "why", "add-columns", "z:int", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {"version": 1}
    main(["history", table, "--json", "--limit", "1"])
    assert orjson.loads(capsys.readouterr().out)["userMetadata"] == "why"
    assert main(["alter", table, "--json", "add-feature", "columnMapping"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {"version": None}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("set-properties", "no-value"),
        ("add-columns", "x:nonsense"),
        ("change-column", "id", "--first", "--after", "n"),
        ("change-column", "id", "--nullable", "--not-null"),
    ],
)
def test_bad_usage_changes_nothing(alter: Alter, path: Path, arguments: tuple[str, ...]) -> None:
    status, out, err = alter(*arguments)
    assert (status, out) == (2, "")
    assert err
    assert snapshot(path).version == 0
