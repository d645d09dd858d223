"""A process that consumes a table until it has it all, or is killed at a call to the system.

    python -m tests.support.consuming

It reads cases, a JSON object a line, and runs each in a process forked from itself; for each it
prints the exit status: 0 where everything was consumed, -9 where it was killed before.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import adelta
from tests.support.victim import ROOT, import_ahead, watch_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Consumers", "Run", "consumers"]


@dataclass(frozen=True)
class Run:
    """One process: it consumes ``folder/source`` and is killed at the call `number`; None is never.

    `into` is ``table``, which is ``folder/target``, or ``file``: ``folder/rows``, a line a batch.
    """

    folder: str
    into: str
    number: int | None = None
    of: str = "rows"


async def _consume(run: Run) -> None:
    source = f"{run.folder}/source"
    limits = {"max_rows": 7, "follow": False, "of": run.of}
    if run.into == "table":
        async with (
            adelta.open_table(f"{run.folder}/target") as target,
            adelta.Consumer(source, "copy", target, **limits) as consumer,
        ):
            async for batch in consumer:
                await consumer.append(batch)
        return
    positions = adelta.FilePositions(f"{run.folder}/positions")
    async with adelta.Consumer(source, "lines", positions, **limits) as consumer:
        async for batch in consumer:
            line = json.dumps(batch.data.column("id").to_pylist())
            with open(f"{run.folder}/rows", "a", encoding="utf-8") as file:  # noqa: ASYNC230
                file.write(f"{line}\n")
            await consumer.acknowledge(batch)


class Consumers:
    """Runs processes that consume."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, run: Run) -> bool:
        """Whether it came to the end; else it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(run)) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, -signal.SIGKILL), f"{run} ended with {status}"
        return status == 0


@contextmanager
def consumers() -> Iterator[Consumers]:
    """A process that forks consumers until the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.consuming"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        try:
            yield Consumers(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def main() -> None:
    import_ahead(_rehearse)
    gc.freeze()
    for line in sys.stdin:
        run = Run(**json.loads(line))
        child = os.fork()
        if child == 0:
            try:
                if run.number is not None:
                    watch_calls(run.folder, run.number)
                asyncio.run(_consume(run))
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


async def _rehearse(folder: str) -> None:
    import pyarrow as pa

    rows = pa.table({"id": [1]})
    await adelta.write_table(f"{folder}/source", rows)
    await adelta.create_table(f"{folder}/target", rows.schema)
    for into in ("table", "file"):
        await _consume(Run(folder, into))


if __name__ == "__main__":
    main()
