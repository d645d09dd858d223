"""A stream that is left in the middle, in whatever way, ends without a word."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta.sync
from tests.support.depth import cases

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
RUN = ["asyncio.run", "__import__('uvloop').run"]
WAYS = {
    "held to the end of the coroutine": """
        async for _ in stream:
            break
""",
    "held beyond the end of the loop": """
        KEPT.append(stream)
        async for _ in stream:
            break
""",
    "an error in the body": """
        try:
            async for _ in stream:
                raise KeyError
        except KeyError:
            pass
""",
    "a timeout in the body": """
        try:
            async with asyncio.timeout(0.05):
                async for _ in stream:
                    await asyncio.sleep(60)
        except TimeoutError:
            pass
""",
    "closed by another task": """
        await anext(stream)
        await asyncio.create_task(stream.aclose())
""",
    "a task that is under way": """
        async def consume():
            async for _ in stream:
                await asyncio.sleep(0)
        KEPT.append(asyncio.create_task(consume()))
        await asyncio.sleep(0.05)
""",
    "collected": """
        async for _ in stream:
            break
        del stream
        gc.collect()
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.001)
""",
}
LEFT = """
import asyncio, gc, sys
import adelta

KEPT = []

async def main():
    async with adelta.open_table(sys.argv[1]) as table:
        snapshot = await table.snapshot()
        stream = {stream}
{way}

asyncio.run(main())
KEPT.clear()
gc.collect()
print("left")
"""
STREAMS = [
    "snapshot.scan().batches()",
    "snapshot.files_batches()",
    "adelta.changes(table, since=0)",
    "adelta.tail(table, poll=0.01)",
]


@pytest.fixture
def table(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    properties = {"delta.enableChangeDataFeed": "true"}
    for number in range(8):
        rows = pa.table({"id": pa.array(range(number, 20_000))})
        adelta.sync.write_table(uri, rows, properties=properties if not number else None)
    return uri


def check_quiet(program: str, table: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program, table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


@pytest.mark.parametrize(("stream", "run"), [*product(STREAMS, RUN)][:: cases(1, 3)])
def test_a_program_that_leaves_a_stream_says_nothing_of_it(
    table: str, stream: str, run: str
) -> None:
    check_quiet(PROGRAM.format(stream=stream, run=run), table)


@pytest.mark.parametrize(("stream", "way"), [*product(STREAMS, WAYS)][:: cases(1, 3)])
def test_a_stream_ends_without_a_word_however_it_is_left(table: str, stream: str, way: str) -> None:
    check_quiet(LEFT.format(stream=stream, way=WAYS[way]), table)


def test_an_iterator_of_the_blocking_face_that_is_left_says_nothing(table: str) -> None:
    program = """
import sys
import adelta.sync as adelta

kept = []
with adelta.open_table(sys.argv[1]) as table:
    for stream in (
        table.snapshot().scan().batches(), table.snapshot().files_batches(),
        adelta.changes(table, since=0), adelta.tail(table),
    ):
        kept.append(stream)
        for _ in stream:
            break
print("left")
"""
    check_quiet(program, table)
