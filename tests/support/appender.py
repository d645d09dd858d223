"""A process that appends rows to a table, one commit after the other, as fast as it can.

    python -m tests.support.appender URI NAME COMMITS [KEY=VALUE ...]

Row i of the process NAME is ``(NAME, i)``. The storage options follow, among which
``test_catalog=DATABASE`` is for a table that a catalog manages. It prints the seconds that
each of its commits took.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa

from adelta._concurrency import map_concurrent
from adelta.operations import write_table
from tests.support.catalogs import create_managed, open_managed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["RaceResult", "race"]

_ROOT = Path(__file__).resolve().parents[2]
_OVERWRITTEN = (b"CommitConflictError: ", b"CommitOutcomeUnknownError: ")
_START, _WRITERS = "ADELTA_TEST_RACE_START", "ADELTA_TEST_RACE_WRITERS"
SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])


@dataclass(frozen=True, slots=True)
class RaceResult:
    """What a race left: `versions` beside the first one, and how often each row is there."""

    versions: int
    rows: Mapping[tuple[str, int], int]
    seconds: float
    seconds_of_a_commit: tuple[float, float]

    def check(self, writers: Iterable[str], commits: int) -> None:
        """Every row is there, and once, and every commit is a version of its own."""
        expected = {(name, number): 1 for name in writers for number in range(commits)}
        assert self.rows == expected
        assert self.versions == len(expected)


async def race(
    uri: str,
    writers: int,
    commits: int,
    options: Mapping[str, str] | None = None,
    *,
    may_stop: bool = False,
) -> RaceResult:
    """Let `writers` processes append `commits` commits each to a new table at `uri`.

    With `may_stop` one may stop early that finds its own commits overwritten, or cannot tell.
    """
    options = dict(options or {})
    await create_managed(uri, SCHEMA, options)
    names = [f"w{number}" for number in range(writers)]
    pairs = [f"{key}={value}" for key, value in options.items()]

    async def run(name: str) -> list[float]:
        done = await anyio.run_process(
            [sys.executable, "-m", "tests.support.appender", uri, name, str(commits), *pairs],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT), _START: start, _WRITERS: str(writers)},
            check=False,
        )
        stopped = may_stop and any(error in done.stderr for error in _OVERWRITTEN)
        assert done.returncode == 0 or stopped, done.stderr.decode()
        return [float(line) for line in done.stdout.split()]

    begun = time.monotonic()
    with TemporaryDirectory() as start:
        ran = await map_concurrent(run, names, limit=writers)
    times = sorted(each for one in ran for each in one)
    seconds = time.monotonic() - begun
    async with open_managed(uri, options) as table:
        snapshot = await table.snapshot()
        rows = (await snapshot.scan().to_arrow()).to_pylist()
        return RaceResult(
            versions=snapshot.version,
            rows=Counter((row["writer"], row["number"]) for row in rows),
            seconds=seconds,
            seconds_of_a_commit=(times[len(times) // 2], times[-1]),
        )


async def _line_up(name: str) -> None:
    """Wait for the other writers, so that they race from the first commit on."""
    start, writers = anyio.Path(os.environ[_START]), int(os.environ[_WRITERS])
    await (start / name).touch()
    while len([each async for each in start.iterdir()]) < writers:  # noqa: ASYNC110 - no event
        await anyio.sleep(0.005)


async def _append(uri: str, name: str, commits: int, options: Mapping[str, str]) -> None:
    async with open_managed(uri, options) as table:
        await table.snapshot()
        await _line_up(name)
        for number in range(commits):
            row = pa.table({"writer": [name], "number": [number]}, schema=SCHEMA)
            begun = time.monotonic()
            await write_table(table, row)
            print(time.monotonic() - begun)


if __name__ == "__main__":
    address, writer, count, *given = sys.argv[1:]
    asyncio.run(_append(address, writer, int(count), dict(pair.split("=", 1) for pair in given)))
