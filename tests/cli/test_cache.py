"""`adelta cache`: reading rows ahead, figures, and emptying the folder."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

import adelta
from adelta.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.gcs_server import GcsLocation


def test_rows_that_were_read_ahead_are_read_without_requests(
    gcs_location: GcsLocation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(*arguments: str) -> dict[str, Any]:
        assert main(["cache", *arguments, "--json"]) == 0
        found: dict[str, Any] = orjson.loads(capsys.readouterr().out)
        return found

    options = gcs_location.storage_options
    given = [part for name, value in options.items() for part in ("--option", f"{name}={value}")]
    rows = pa.table({"day": ["a"] * 1000 + ["b"] * 1000, "n": range(2000)})
    asyncio.run(
        adelta.write_table(gcs_location.uri, rows, partition_by=["day"], storage_options=options)
    )
    assert main(["cache", "status"]) == 2
    assert "set ADELTA_CACHE_DIR" in capsys.readouterr().err
    monkeypatch.setenv("ADELTA_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["cache", "warm", str(tmp_path)]) == 2
    assert "is near" in capsys.readouterr().err

    monkeypatch.setattr("adelta.storage._cache_writer._MOST_WAITING", 1)  # it waits for the disk
    monkeypatch.setattr("adelta.storage._cache_writer._MUCH", 0)
    warmed = said("warm", gcs_location.uri, *given, "--where", "day = 'a'")
    assert warmed["rows"] == 1000
    again = said("warm", gcs_location.uri, *given, "--where", "day = 'a'")
    assert (again["rows"], again["bytesFetched"]) == (1000, 0)
    assert said("warm", gcs_location.uri, *given)["bytesFetched"] > 0  # of the other day
    status = said("status")
    assert status["extents"] > 0
    assert status["figures"]["hits"] > 0
    assert main(["cache", "status"]) == 0
    assert "from the cache" in capsys.readouterr().out
    said("clear")
    assert said("status")["bytes"] == 0
    (tmp_path / "file").touch()
    monkeypatch.setenv("ADELTA_CACHE_DIR", str(tmp_path / "file"))
    assert main(["cache", "clear"]) != 0
    assert "cannot be emptied" in capsys.readouterr().err
