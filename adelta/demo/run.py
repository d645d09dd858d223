"""The demo from first line to last: data, pipeline, service and consumer, check, summary."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pyarrow.compute as pc

from adelta._concurrency import in_io_thread, map_concurrent, together
from adelta._dataclasses import dataclass
from adelta.console.render import counted, size
from adelta.demo.consumer import Consumer
from adelta.demo.dataset import Dataset, make_dataset
from adelta.demo.lake import Lake
from adelta.demo.pipeline import Pipeline
from adelta.demo.report import Report
from adelta.demo.service import Service
from adelta.errors import InvalidTableError, TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import pyarrow as pa

    from adelta.console.render import Output

__all__ = ["run_demo"]


@dataclass(frozen=True, slots=True)
class _Figures:
    """What the summary says of a table."""

    table: str
    rows: int
    files: int
    size: int
    version: int
    commits: int


async def run_demo(uri: str, scale: float, options: Mapping[str, str], output: Output) -> None:
    """Run the demo over the lake at `uri` and print what happened.

    Raises:
        InvalidUseError: something that the demo needs is not installed.
        InvalidTableError: a table is not what the raw data says that it must be.
    """
    lake = Lake(uri, options)
    with Report(output.console) as report:
        report.say("demo", f"lake {uri}, TPC-H at scale {scale:g}")
        async with _raw_folder(uri) as folder:
            dataset = await make_dataset(folder, scale)
            report.say("demo", f"{dataset.orders:,} orders, {dataset.lines:,} lines of raw Parquet")
            run = _Run(lake, dataset, report)
            figures = await run.run()
        seconds = report.seconds
    output.table(
        ("table", "rows", "files", "size", "version", "commits"),
        [(f.table, f"{f.rows:,}", f.files, size(f.size), f.version, f.commits) for f in figures],
        right=("rows", "size"),
    )
    output.say(
        f"{counted(sum(f.rows for f in figures), 'row')}, "
        f"{counted(sum(f.files for f in figures), 'file')}, "
        f"{counted(sum(f.commits for f in figures), 'commit')}, {seconds:.1f} seconds",
        "bold",
    )


@contextlib.asynccontextmanager
async def _raw_folder(uri: str) -> AsyncIterator[Path]:
    """Where raw files go: into a lake that is a folder, else into a folder that is removed again.

    Spark reads them by its own Parquet reader, and that one knows no object store.
    """
    if "://" not in uri:
        yield Path(uri, "raw")
        return
    with tempfile.TemporaryDirectory(prefix="adelta-demo-") as folder:
        yield Path(folder)


class _Run:
    """One run of the pipeline, with two observers beside it on the event loop."""

    def __init__(self, lake: Lake, dataset: Dataset, report: Report) -> None:
        self._lake = lake
        self._dataset = dataset
        self._report = report
        self._pipeline = Pipeline(lake, dataset, report)
        self._service = Service(lake, report)
        self._consumer = Consumer(lake, lake.bronze_lineitem, report)
        self._first: dict[str, int] = {}  # the version that each table gets first in this run
        self._figures: list[_Figures] = []
        self._ended = anyio.Event()

    async def run(self) -> list[_Figures]:
        self._report.expect(self._pipeline.steps)
        tables = self._lake.tables
        firsts = await map_concurrent(self._next_version, tables, limit=len(tables))
        self._first = dict(zip(tables, firsts, strict=True))
        parts = (self._fill, self._service.run, self._follow, self._stop_pipeline_when_cancelled)
        await together(*parts)
        return self._figures

    async def _next_version(self, name: str) -> int:
        """The version that the next commit makes: 0 where there is no table."""
        async with self._lake.open(name) as table:
            try:
                return (await table.snapshot()).version + 1
            except TableNotFoundError:
                return 0

    async def _fill(self) -> None:
        """Run the pipeline, look at what it made, and send the observers home."""
        expected = await in_io_thread(self._pipeline.run)
        tables = self._lake.tables
        self._figures = await map_concurrent(self._measure, tables, limit=len(tables))
        await self._check_gold(expected)
        await self._check_consumer()
        self._service.stop()
        self._consumer.stop()
        self._ended.set()
        self._report.say("service", self._pulse())

    def _pulse(self) -> str:
        """How well the event loop kept its beat while Spark had the machine."""
        delays = sorted(self._service.delays)
        usual = delays[len(delays) * 99 // 100] * 1000
        return (
            f"awaited {counted(self._service.snapshots, 'snapshot')}; the event loop was late by "
            f"less than {usual:.0f} ms in 99 of 100 cases, and never worked for more than "
            f"{self._service.busiest * 1000:.0f} ms at a stretch"
        )

    async def _follow(self) -> None:
        await self._consumer.run(since=self._first[self._lake.bronze_lineitem])

    async def _stop_pipeline_when_cancelled(self) -> None:
        """A thread cannot be cancelled; the Spark jobs that it waits for can."""
        try:
            await self._ended.wait()
        finally:
            if not self._ended.is_set():
                with anyio.CancelScope(shield=True):  # or the interrupt would wait for all of Spark
                    await in_io_thread(self._pipeline.stop)

    async def _measure(self, name: str) -> _Figures:
        async with self._lake.open(name) as table:
            snapshot = await table.snapshot()
            files = await snapshot.files()
            rows = await snapshot.scan().count()
        total = int(pc.sum(files.column("size")).as_py() or 0)
        commits = snapshot.version + 1 - self._first[name]
        return _Figures(name, rows, files.num_rows, total, snapshot.version, commits)

    async def _check_gold(self, expected: pa.Table) -> None:
        async with self._lake.open(self._lake.gold) as table:
            actual = await (await table.snapshot()).scan(columns=expected.column_names).to_arrow()
        if _as_set(actual) != _as_set(expected) or actual.num_rows != expected.num_rows:
            raise InvalidTableError(
                f"{self._lake.address(self._lake.gold)} has {actual.num_rows} rows that differ "
                f"from the {expected.num_rows} that the same query finds in {self._dataset.folder}"
            )
        self._report.say(
            "check", f"gold's {actual.num_rows} rows equal the same query's on the raw files"
        )

    async def _check_consumer(self) -> None:
        name = self._lake.bronze_lineitem
        last = next(figures.version for figures in self._figures if figures.table == name)
        await self._consumer.caught_up(last)
        met, rows = self._consumer.versions, self._consumer.rows
        if met != list(range(self._first[name], last + 1)) or rows != self._dataset.lines:
            raise InvalidTableError(
                f"the consumer of {self._lake.address(name)} met versions {met} with {rows:,} "
                f"rows; versions {self._first[name]} to {last} hold {self._dataset.lines:,}"
            )
        self._report.say(
            "check", f"the consumer met {len(met)} commits of {name}, each once and in order"
        )


def _as_set(table: pa.Table) -> set[tuple[object, ...]]:
    """The rows, in no order; gold has no two rows alike, as each is a group."""
    return {tuple(row.values()) for row in table.to_pylist()}
