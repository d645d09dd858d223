"""Many processes append to one table: are all commits there, and what does a commit cost?

    python perf/bench_contention.py [--processes 32] [--commits 20] [--local] [--s3]

Without --local or --s3 both are run: a folder on local disk, and Ceph's RADOS gateway (or moto
where that is not installed). Every row is checked to be there once before a figure is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from typing import TYPE_CHECKING

from tests.support.appender import race
from tests.support.s3_server import running_server

if TYPE_CHECKING:
    from collections.abc import Mapping


async def run(
    what: str, uri: str, processes: int, commits: int, options: Mapping[str, str]
) -> None:
    result = await race(uri, processes, commits, options)
    result.check([f"w{number}" for number in range(processes)], commits)
    median, longest = result.seconds_of_a_commit
    print(
        f"{what}: {processes} processes x {commits} commits = {result.versions} versions, every "
        f"row once; {result.seconds:.1f} s with process start, a commit {median * 1000:.0f} ms "
        f"(median), {longest * 1000:.0f} ms (longest)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--s3", action="store_true")
    arguments = parser.parse_args()
    both = arguments.local == arguments.s3
    sizes = (arguments.processes, arguments.commits)
    if arguments.local or both:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run("local disk", f"{folder}/table", *sizes, {}))
    if arguments.s3 or both:
        with running_server() as server:
            server.make_bucket("contention")
            asyncio.run(run(server.kind, "s3://contention/table", *sizes, server.storage_options))


if __name__ == "__main__":
    main()
