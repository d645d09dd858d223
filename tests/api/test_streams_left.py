"""A stream that is left in the middle, as the last thing that a program does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import asyncio, sys
import adelta

async def main():
    async with adelta.open_table(sys.argv[1]) as table:
        snapshot = await table.snapshot()
        async for _ in {stream}:
            break
    print("left")

{run}(main())
"""
STREAMS = [
    "snapshot.scan().batches()",
    "snapshot.files_batches()",
    "adelta.changes(table, since=0)",
]


@pytest.fixture
def table(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    properties = {"delta.enableChangeDataFeed": "true"}
    for number in range(8):
        rows = pa.table({"id": pa.array(range(number, 20_000))})
        adelta.sync.write_table(uri, rows, properties=properties if not number else None)
    return uri


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("run", ["asyncio.run", "__import__('uvloop').run"])
def test_a_program_that_leaves_a_stream_says_nothing_of_it(
    table: str, stream: str, run: str
) -> None:
    program = PROGRAM.format(stream=stream, run=run)
    command = [sys.executable, "-c", program, table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
