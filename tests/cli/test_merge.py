"""`adelta merge` and `adelta replace-matching`, over tables on the local disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from adelta import sync
from adelta.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ON = "target.id = source.id"


def ids(table: str) -> list[int]:
    with sync.open_table(table) as handle:
        return sorted(handle.snapshot().scan().to_arrow().column("id").to_pylist())


def test_clauses_are_taken_in_the_order_in_which_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, source = str(tmp_path / "t"), str(tmp_path / "new.parquet")
    sync.write_table(table, pa.table({"id": [1, 2, 3]}))
    pq.write_table(pa.table({"id": [2, 3, 4], "gone": [True, False, False]}), source)
    clauses = ["--delete", "source.gone", "--update-all", "--insert-all"]
    assert main(["merge", table, source, "--on", ON, *clauses]) == 0
    assert capsys.readouterr().out == "Version 1: 1 row inserted, 1 updated, 1 deleted.\n"
    assert ids(table) == [1, 3, 4]
    assert main(["merge", table, table, "--on", ON, "--delete", "source.id = 4", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["numTargetRowsDeleted"] == 1
    assert ids(table) == [1, 3]
    assert main(["merge", table, source, "--on", ON, "--delete-missing"]) == 0
    assert ids(table) == [3]
    assert main(["merge", table, source, "--on", ON, "--delete", "--update-all"]) == 2
    assert "WHEN MATCHED THEN DELETE" in capsys.readouterr().err
    assert main(["merge", table, str(tmp_path / "no.parquet"), "--on", ON, "--delete"]) == 2
    assert "no.parquet cannot be read" in capsys.readouterr().err


def test_rows_come_in_the_place_of_those_that_match(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, source = str(tmp_path / "t"), str(tmp_path / "new.parquet")
    sync.write_table(table, pa.table({"id": [1, 2, 3], "day": [1, 1, 2]}))
    pq.write_table(pa.table({"id": [7], "day": [1]}), source)
    assert main(["replace-matching", table, source, "--using", "day"]) == 0
    assert capsys.readouterr().out == "Version 1: 1 row inserted, 2 deleted.\n"
    assert ids(table) == [3, 7]
    condition = "target.id > source.id - 5"
    assert main(["replace-matching", table, source, "--on", condition, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["numTargetRowsDeleted"] == 2
    assert ids(table) == [7]
    assert main(["replace-matching", table, source, "--on", "other = 1"]) == 2
    assert "other" in capsys.readouterr().err
