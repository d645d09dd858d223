"""What the tests of commands share: a table, and the command called in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

import adelta
from adelta.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; its exit status, output and error output."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture(scope="session")
def trips_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions: created with two rows, one appended, one more appended."""
    path = tmp_path_factory.mktemp("once") / "trips"
    for rows in (
        {"city": ["Bern", "Oslo"], "km": [3.5, 12.0]},
        {"city": ["Bern"], "km": [7.25]},
        {"city": ["Rome"], "km": [None]},
    ):
        data = pa.table(rows, pa.schema({"city": pa.string(), "km": pa.float64()}))
        anyio.run(partial(adelta.write_table, str(path), data, partition_by=["city"]))
    return path


@pytest.fixture
def trips(tmp_path: Path, trips_once: Path) -> Path:
    """A copy of `trips_once`, to be changed."""
    return shutil.copytree(trips_once, tmp_path / "trips")
