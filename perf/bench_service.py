"""A service under load: 500 readers and 50 writers of one table, on a store that is 20 ms away.

    python perf/bench_service.py [--readers 500] [--writers 50] [--every 10] [--seconds 20]

One process, one event loop, one handle. A reader takes a snapshot and reads the row of one id, out
of a table of 300 files; a writer appends one row. Each of them begins another call `--every` so
many seconds, or at once where the one before took longer; with `--every 0` always at once, which is
more than one processor does. How long does a call take at the median and at the 99th percentile,
and for how long is the event loop held up at most? What there is when the service has started is
frozen (`gc.freeze`), as README advises.

The S3 is Ceph's RADOS gateway in memory (moto where that is not installed), behind a proxy that
delays. Every row that was written is checked to be there once before a figure is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from child import run_child
from far_server import far_server
from figures import record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import adelta

ONE_WAY = 0.020
FILES, ROWS_OF_A_FILE = 300, 1000
URI = "s3://far/service"
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.int64()), ("note", pa.string())])
TICK = 0.001

Options = dict[str, str]


def rows(first: int, count: int, writer: int = -1) -> pa.Table:
    ids = range(first, first + count)
    notes = [f"a note on {number}" for number in ids]
    return pa.table({"id": ids, "writer": [writer] * count, "note": notes}, schema=SCHEMA)


async def make(options: Options) -> None:
    """A table of 300 files, each with a range of ids."""
    import adelta

    table = await adelta.create_table(URI, SCHEMA, storage_options=options)
    async with table, table.transaction() as tx:
        for number in range(FILES):
            await tx.append(rows(number * ROWS_OF_A_FILE, ROWS_OF_A_FILE))


class Load:
    """The calls that the service answers, and how long each took."""

    def __init__(self, table: adelta.Table, every: float, seconds: float) -> None:
        self.table = table
        self.every = every
        self.ends = time.perf_counter() + seconds
        self.reads: list[float] = []
        self.appends: list[float] = []
        self.longest_pause = 0.0
        self.written = 0

    async def run(self, readers: int, writers: int) -> None:
        """Make the load to its end."""
        watch = asyncio.ensure_future(self._watch())
        readings = [self._each(self._read, self.reads) for _ in range(readers)]
        writings = [self._each(self._append, self.appends) for _ in range(writers)]
        await asyncio.gather(*readings, *writings)
        watch.cancel()

    async def _each(self, call: Callable[[], Awaitable[None]], taken: list[float]) -> None:
        due = time.perf_counter() + random.random() * self.every
        while due < self.ends:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            began = time.perf_counter()
            await call()
            ended = time.perf_counter()
            taken.append(ended - began)
            due = max(due + self.every, ended)

    async def _read(self) -> None:
        wanted = random.randrange(FILES * ROWS_OF_A_FILE)
        snapshot = await self.table.snapshot()
        found = await snapshot.scan(where=f"id = {wanted}").to_arrow()
        assert found.column("note").to_pylist() == [f"a note on {wanted}"]

    async def _append(self) -> None:
        import adelta

        number, self.written = self.written, self.written + 1
        first = FILES * ROWS_OF_A_FILE + number
        await adelta.write_table(self.table, rows(first, 1, number))

    async def _watch(self) -> None:
        """How late the loop gets round to what is due."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            self.longest_pause = max(self.longest_pause, time.perf_counter() - began - TICK)


async def serve(options: Options, readers: int, writers: int, every: float, seconds: float) -> Any:
    import adelta

    async with adelta.open_table(URI, options) as table:
        await Load(table, 1.0, 1.0).run(readers // 10, 1)  # connections, imports
        gc.collect()
        gc.freeze()
        before = (await (await table.snapshot()).scan(["writer"]).to_arrow()).num_rows
        load = Load(table, every, seconds)
        load.written = before - FILES * ROWS_OF_A_FILE
        seen: Counter[str] = Counter()
        table.store.inner.observe_requests(lambda method, _key, _query: seen.update([method]))
        cpu = time.process_time()
        await load.run(readers, writers)
        cpu = time.process_time() - cpu
        table.store.inner.observe_requests(None)
        found = await (await table.snapshot()).scan(["writer"], where="writer >= 0").to_arrow()
        assert sorted(found.column("writer").to_pylist()) == list(range(load.written))
    return {
        "reads": len(load.reads),
        "appends": len(load.appends),
        "pause": load.longest_pause,
        "requests": seen.total(),
        "cpu": cpu,
        **{f"read {name}": value for name, value in _quantiles(load.reads).items()},
        **{f"append {name}": value for name, value in _quantiles(load.appends).items()},
    }


def _quantiles(taken: list[float]) -> dict[str, float]:
    parts = statistics.quantiles(taken, n=100)
    return {"median": parts[49], "p99": parts[98]}


def _run(options: str, *numbers: str) -> Any:
    import uvloop

    readers, writers, every, seconds = map(float, numbers)
    return uvloop.run(serve(json.loads(options), int(readers), int(writers), every, seconds))


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_run(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tables", type=Path, help="not used: the table is made in the store")
    given = parser.parse_args()
    sizes = [str(each) for each in (given.readers, given.writers, given.every, given.seconds)]
    print(f"S3 at 2 x {ONE_WAY * 1000:.0f} ms, a table of {FILES} files")
    with far_server(ONE_WAY) as (near, far):
        asyncio.run(make(near))
        found = [run_child(__file__, json.dumps(far), *sizes) for _ in range(given.rounds)]
    middle = {name: statistics.median(each[name] for each in found) for name in found[0]}
    rate = middle["reads"] / given.seconds, middle["appends"] / given.seconds
    print(
        f"  {given.readers} readers, {given.writers} writers, a call every {given.every:g} s each"
    )
    for what, each in zip(("read", "append"), rate, strict=True):
        print(
            f"  {what:<8} {each:>6.1f} a second, {middle[f'{what} median'] * 1000:>6.0f} ms "
            f"(median), {middle[f'{what} p99'] * 1000:>6.0f} ms (99 of 100)"
        )
    print(
        f"  longest pause of the loop {middle['pause'] * 1000:.1f} ms, "
        f"{middle['requests'] / (middle['reads'] + middle['appends']):.1f} requests a call, "
        f"{middle['cpu'] / given.seconds:.2f} cores",
        flush=True,
    )
    record("service reads", p99=middle["read p99"] * 1000)
    record("service appends", p99=middle["append p99"] * 1000, pause=middle["pause"] * 1000)


if __name__ == "__main__":
    main()
