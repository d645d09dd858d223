"""An hour's work of one process, on local disk and on S3: does what it holds stay what it is?

    python -m tests.soak                      an hour
    python -m tests.soak --minutes 10

The process changes, reads, follows and cleans up table after table (``tests.soak.service``), one
on local disk and one on a real S3 server in turn; a few of its requests to that fail in one of
the ways of ``tests.support.network_faults``. The history of each table is checked as it ends. In
the end memory, descriptors, threads and tasks are to be what they were after the first quarter;
where one has grown, or a history is wrong, the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adelta.table import open_table
from tests.soak.growth import MEASURES, Sample, growth
from tests.storage.faulty_proxy import FaultyProxy
from tests.support.linearizability import History, violations
from tests.support.network_faults import NETWORK_FAULTS, Weather
from tests.support.s3_server import S3Server, running_server

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 40
CLEAR = 0.9  # of all requests meet nothing
UNCHECKED = {"moto": {"a flipped bit in a put"}}
IMPATIENT = {"aws_read_timeout": "1 s", "aws_init_backoff": "10 ms", "aws_max_backoff": "200 ms"}


@dataclass
class Soak:
    """What was heard of the process, and what is wrong."""

    server: S3Server
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    checked: int = 0
    commits: int = 0

    async def watch(self, lines: asyncio.StreamReader) -> None:
        """Hear the process to its end, and check each history when it has ended."""
        said: list[dict[str, Any]] = []
        uri, options = "", dict[str, str]()
        async for line in lines:
            what = json.loads(line)
            if "round" in what:
                said, uri = [], what["uri"]
                options = self.server.storage_options if what["root"] else {}
            elif "ended" in what and "round" not in what and len(what) == 1:
                await self._check(uri, options, said)
            elif "sample" in what:
                self._hear(Sample(**what["sample"]), what["steady"])
            else:
                said.append(what)

    async def _check(self, uri: str, options: dict[str, str], said: list[dict[str, Any]]) -> None:
        async with open_table(uri, options) as table:
            found = await violations(table, History(said))
            self.commits += (await table.snapshot()).version
        self.wrong += [f"{uri}: {each}" for each in found]
        self.checked += 1
        if not options and not found:
            await asyncio.to_thread(shutil.rmtree, uri)

    def _hear(self, sample: Sample, steady: int) -> None:
        self.samples.append(sample)
        figures = ", ".join(f"{name} {getattr(sample, name):,}" for name in MEASURES)
        figures += f", and {sample.workers} of pools"
        made = f"{self.commits} commits, {steady} of the steady table"
        print(f"{sample.seconds:6.0f} s, {made}: {figures}", flush=True)


async def soak(minutes: float, commits: int, server: S3Server, folder: str) -> Soak:
    """Let the process work for so long."""
    chance = random.Random(16)
    left_out = UNCHECKED.get(server.kind, set())
    faults = [
        each for name, each in NETWORK_FAULTS.items() if name not in left_out and not each.ages
    ]
    weather = Weather(faults)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultyProxy(server.endpoint))
        proxy.choose = lambda method, target: (
            None if chance.random() < CLEAR else weather(method, target)
        )
        through = {**server.storage_options, **IMPATIENT, "aws_endpoint_url": proxy.endpoint}
        roots = [folder, f"s3://adelta-test/soak-{os.getpid()}"]
        plan = {"minutes": minutes, "commits": commits, "roots": roots, "options": [{}, through]}
        errors = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack is one
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.service", json.dumps(plan)),
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        done = Soak(server)
        try:
            await done.watch(process.stdout)
            if code := await process.wait():
                errors.seek(0)
                last = errors.read()[-3000:].decode(errors="replace")
                done.wrong.append(f"the process ended with {code}: {last}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return done


def main() -> int:
    """Run it, and say what has grown."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--commits", type=int, default=COMMITS, help="of each table")
    given = parser.parse_args()
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        server.make_bucket("adelta-test")
        done = asyncio.run(soak(given.minutes, given.commits, server, folder))
    wrong = done.wrong or growth(done.samples)
    print(f"{done.checked} histories of {done.commits} commits together")
    print("\n".join(wrong) if wrong else "every history is right, and nothing has grown")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
