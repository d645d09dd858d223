"""Every figure that adelta is to reach, measured and put beside what is asked of it.

    python perf/report.py [--only TEXT] [--rounds 3] [--tables DIR] [--write]

Runs the benchmarks, which measure adelta and its peers in turn, and prints one table. The exit
status is 1 where a figure is missed. ``--write`` puts the table into perf/README.md, with the date
and the machine. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from figures import FILE, read_figures

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


@dataclass(frozen=True)
class Asked:
    """A bound on one figure: at least `least`, or at most `most`."""

    figure: str
    least: float | None = None
    most: float | None = None
    unit: str = "x"

    def __str__(self) -> str:
        sign, bound = (">=", self.least) if self.least is not None else ("<=", self.most)
        return f"{sign} {bound:g}{self.unit}"

    def holds(self, value: float) -> bool:
        """Whether the figure is within the bound."""
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


@dataclass(frozen=True)
class Row:
    """A line of the table: what is measured under the key `work`, and what is asked of it."""

    work: str
    title: str
    asked: tuple[Asked, ...]


def faster(least: float) -> Asked:
    """Time against the peer's."""
    return Asked("faster", least=least)


def lighter(least: float) -> Asked:
    """Peak memory against the peer's."""
    return Asked("lighter", least=least, unit="x less memory")


PAUSE = Asked("pause", most=20, unit=" ms pause")

DATASET = Asked("dataset", least=1, unit="x of pyarrow.dataset")
PEERS = (
    Asked("deltalake", least=1.5, unit="x of deltalake"),
    Asked("sql", least=1.5, unit="x of its SQL"),
)


SCANS = (*PEERS, PAUSE)


def _snapshot_rows() -> list[Row]:
    rows = []
    for shape, title in (
        ("1m-json", "1 M adds, JSON statistics"),
        ("1m-json-8", "1 M adds, JSON statistics, 8 parts"),
        ("1m-parsed", "1 M adds, stats_parsed"),
        ("1m-parsed-8", "1 M adds, stats_parsed, 8 parts"),
        ("1m-vectors", "1 M adds, half of them with deletion vectors"),
    ):
        by_id = (faster(10),) if "parsed" in shape else (faster(2.5), lighter(2))
        rows += [
            Row(f"{shape} open", f"cold open, {title}", (faster(15), lighter(4), PAUSE)),
            Row(f"{shape} files", f"whole file list, {title}", (faster(2.5), lighter(2), PAUSE)),
            Row(f"{shape} partition", f"one partition, {title}", (faster(6), lighter(2), PAUSE)),
            Row(f"{shape} id", f"files for one id, {title}", (*by_id, PAUSE)),
            Row(
                f"{shape} refresh",
                f"refresh after one commit, {title}",
                (Asked("ms", most=5, unit=" ms"), PAUSE),
            ),
        ]
    rows.append(Row("10k-commits open", "cold open of 10,000 JSON commits", (faster(4), PAUSE)))
    rows += [
        Row(f"{shape} {work} first", f"{title}, first use of a process", (faster(least),))
        for shape, work, title, least in (
            ("1m-json", "open", "cold open, 1 M adds, JSON statistics", 20),
            ("1m-json", "files", "whole file list, 1 M adds, JSON statistics", 3),
            ("1m-json", "partition", "one partition, 1 M adds, JSON statistics", 8),
            ("1m-json", "id", "files for one id, 1 M adds, JSON statistics", 3),
            ("10k-commits", "open", "cold open of 10,000 JSON commits", 5),
        )
    ]
    rows += [
        Row(f"3-commits {work}", f"{title}, 300,000 adds in three commits", (PAUSE,))
        for work, title in (("open", "cold open"), ("files", "whole file list"))
    ]
    return rows


ROWS: tuple[Row, ...] = (
    Row(
        "import",
        "`import adelta` in a fresh process, against `import deltalake`",
        (
            Asked("ms", most=60, unit=" ms"),
            Asked("mb", most=45, unit=" MB"),
            faster(1),
            lighter(1),
        ),
    ),
    Row("help", "`adelta --help`", (Asked("ms", most=150, unit=" ms"),)),
    *(
        Row(f"request {name}", f"CPU of a request: {name}", (Asked("cpu", most=most),))
        for name, most in (("get, 4 KiB", 1.5), ("list, 1000 keys", 1.5))
    ),
    *_snapshot_rows(),
    Row("tables", "100 snapshots of 100 tables in one loop, against 100 threads", (faster(1.5),)),
    Row(
        "far young",
        "cold open over S3 at 2 x 20 ms, young table",
        (Asked("trips", most=2, unit=" round trips"),),
    ),
    Row(
        "far hinted",
        "cold open over S3 at 2 x 20 ms, checkpoint hint",
        (Asked("trips", most=3, unit=" round trips"),),
    ),
    Row("scan local all", "scan of 1 GB on local disk, all columns", (DATASET, PAUSE)),
    Row("scan local two of 16", "scan of 1 GB on local disk, 2 of 16 columns", (DATASET, PAUSE)),
    Row("scan local 1,000 rows", "1,000 rows of it by predicate", (DATASET, PAUSE)),
    Row(
        "scan tiny all",
        "scan of 200 files of 1,000 rows on local disk",
        (Asked("deltalake", least=1.2, unit="x of deltalake"),),
    ),
    *(
        Row(f"scan {where} {work}", f"scan over S3 at 2 x 20 ms, {files}, {columns}", SCANS)
        for where, files in (("far", "files of 45 MB"), ("many", "files of 2 MB"))
        for work, columns in (("all", "all columns"), ("two of 16", "2 of 16 columns"))
    ),
    Row(
        "checkpoint 1m-json adelta",
        "checkpoint of 1 M adds, JSON statistics",
        (faster(2), lighter(2), PAUSE),
    ),
    *(
        Row(
            f"spark partitions {count}",
            f"one partition of {count:,} in Spark, first query of a session",
            (Asked("seconds", most=5, unit=" s"),),
        )
        for count in (1_000, 100_000, 1_000_000)
    ),
    *(
        Row(
            f"layout {name}",
            f"files of 100 that a query for one value of one of four columns skips, {name}",
            (
                Asked("least", least=least, unit=" % for each column"),
                Asked("average", least=average, unit=" % on average"),
            ),
        )
        for name, least, average in (("Z-order", 43, 54), ("Hilbert curve", 43, 54))
    ),
    Row("commit one", "commits of one writer over S3 at 2 x 10 ms", (faster(1.5),)),
    Row("commit service", "appends of 32 tasks of one service, S3 at 2 x 10 ms", (faster(5),)),
    Row("commit service group", "the same with group commit", (faster(5),)),
    Row(
        "commit writers",
        "appends of 24 writers at once that fail, of 96 on local disk and 96 on S3",
        (Asked("failed", most=0, unit=" failed"),),
    ),
    Row(
        "owner one",
        "a commit through a commit owner against put-if-absent, S3 at 2 x 20 ms",
        (Asked("ratio", most=0.6, unit="x the time"),),
    ),
    Row("owner writers", "commits of 32 writers of one table through it", (faster(10),)),
    Row("owner tables", "commits to 100 tables through it, 32 at a time", (faster(1),)),
    Row(
        "owner tail",
        "until a consumer in another process has a commit, against polling",
        (Asked("ratio", most=0.33, unit="x the time"),),
    ),
    Row("upkeep convert", "CONVERT of 2,000 files on S3 at 2 x 20 ms", (faster(5),)),
    Row("upkeep vacuum", "VACUUM of 20,000 objects there", (faster(5),)),
    Row(
        "lake poll",
        "10,000 tables on S3 polled for news by one process, a table",
        (
            Asked("requests", most=1.05, unit=" requests"),
            Asked("cpu", most=2000, unit=" us of CPU"),
            Asked("memory", most=2, unit=" KiB"),
        ),
    ),
    Row(
        "service reads",
        "point reads of 500 readers of a service, beside 50 writers, S3 at 2 x 20 ms",
        (Asked("p99", most=1000, unit=" ms p99"),),
    ),
    Row(
        "service appends",
        "appends of its 50 writers",
        (
            Asked("p99", most=3000, unit=" ms p99"),
            Asked("pause", most=50, unit=" ms pause"),
        ),
    ),
)

RUNS: tuple[tuple[str, ...], ...] = (
    ("bench_import.py",),
    (
        "bench_snapshot.py",
        "--shapes",
        "1m-json",
        "1m-json-8",
        "1m-parsed",
        "1m-parsed-8",
        "1m-vectors",
    ),
    ("bench_snapshot.py", "--shapes", "10k-commits", "3-commits", "--work", "open", "files"),
    ("bench_snapshot.py", "--first-use", "--shapes", "1m-json"),
    ("bench_snapshot.py", "--first-use", "--shapes", "10k-commits", "--work", "open"),
    ("bench_log.py", "tables", "far", "slope"),
    ("bench_scan.py", "local", "far", "many"),
    ("bench_scan.py", "tiny", "--only", "all"),
    ("bench_requests.py",),
    ("bench_checkpoint.py", "--shapes", "1m-json"),
    ("bench_layout.py",),
    ("bench_commit.py",),
    ("bench_lake.py",),
    ("bench_service.py",),
    ("bench_owner.py",),
    ("bench_upkeep.py",),
    ("bench_partitions.py", "--partitions", "1", "1000", "100000", "1000000", "--listed", "0"),
)


def run(figures: Path, tables: Path, rounds: int, only: str) -> None:
    """Run the benchmarks one after another; what they print goes to the terminal."""
    environment = os.environ | {FILE: str(figures)}
    for program, *arguments in RUNS:
        if only and only not in program:
            continue
        command = [sys.executable, str(HERE / program), *arguments]
        command += ["--rounds", str(rounds), "--tables", str(tables)]
        print("$ python perf/" + " ".join([program, *arguments]), flush=True)
        subprocess.run(command, env=environment, check=True)
        print(flush=True)


def table(found: dict[str, dict[str, float]]) -> tuple[list[str], int]:
    """The lines of the table, and how many figures are missed."""
    lines = ["| work | asked | measured |", "|---|---|---|"]
    missed = 0
    for row in ROWS:
        figures = found.get(row.work)
        if figures is None:
            continue
        cells = []
        for asked in row.asked:
            value = figures[asked.figure]
            held = asked.holds(value)
            missed += not held
            cells.append(f"{_digits(value)}{asked.unit}" + ("" if held else " **missed**"))
        bounds = ", ".join(map(str, row.asked))
        lines.append(f"| {row.title} | {bounds} | {', '.join(cells)} |")
    for way, title in (("whole", "the whole file list"), ("batches", "the same list in batches")):
        slope = found.get(f"slope {way}")
        if slope is not None:
            grows = f"{slope['seconds']:.2f} s, {slope['mb']:,.0f} MB"
            lines.append(f"| {title}, every further million of files | linear | {grows} |")
    return lines, missed


def _digits(value: float) -> str:
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 3 else f"{value:.1f}"


def machine() -> str:
    """Where and with what the figures were measured."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        named = re.search(r"^model name\s*:\s*(.+)$", information.read_text(), re.MULTILINE)
        model = named[1] if named else model
    packages = ", ".join(f"{name} {version(name)}" for name in ("deltalake", "pyarrow"))
    day = time.strftime("%Y-%m-%d")
    cores = os.cpu_count()
    python = platform.python_version()
    return f"Measured {day} on {cores} cores ({model}), Python {python}, {packages}."


def write(lines: list[str]) -> None:
    """Put the table into the README between its two marks."""
    readme = HERE / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{machine()}\n\n" + "\n".join(lines) + f"\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="benchmarks with this name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="keep the tables here for the next run")
    parser.add_argument("--write", action="store_true", help="put the table into perf/README.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = Path(scratch) / "figures"
        figures.touch()
        tables = arguments.tables or Path(scratch) / "tables"
        tables.mkdir(parents=True, exist_ok=True)
        run(figures, tables, arguments.rounds, arguments.only)
        lines, missed = table(read_figures(figures))
    print(machine(), "", *lines, sep="\n")
    print(f"\n{missed} figures missed" if missed else "\nevery figure reached")
    if arguments.write:
        write(lines)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
