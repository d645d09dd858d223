"""`adelta sql`: a statement, its answer, and its errors in one line."""

from __future__ import annotations

import json

from adelta.cli.main import main


def test_statements_are_run_over_named_tables(tmp_path, capsys):
    named = ["--table", f"t={tmp_path / 't'}"]
    assert main(["sql", "CREATE TABLE t (id BIGINT, day DATE)", *named]) == 0
    assert capsys.readouterr().out == "Done.\n"
    insert = "INSERT INTO t VALUES (1, DATE '2024-01-02'), (2, NULL)"
    assert main(["sql", insert, *named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"num_affected_rows": 2, "num_inserted_rows": 2}
    assert main(["sql", f"SELECT * FROM delta.`{tmp_path / 't'}` ORDER BY id", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"id": 1, "day": "2024-01-02"}, {"id": 2, "day": None}]
    assert main(["sql", "SELECT id FROM t, range(60) ORDER BY id", *named]) == 0
    shown = capsys.readouterr().out
    assert "The first 100 rows" in shown
    assert main(["sql", "SELECT id FROM t WHERE id > 5", *named]) == 0
    assert "id" in capsys.readouterr().out


def test_an_error_is_one_line(tmp_path, capsys):
    assert main(["sql", "selec 1"]) == 2
    error = capsys.readouterr().err
    assert "character 1 of the statement" in error
    assert error.count("\n") == 1
