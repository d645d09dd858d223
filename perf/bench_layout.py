"""Files that a query for one value skips, under each layout of the same rows.

    python perf/bench_layout.py [--rows 2000000] [--files 100] [--folder FOLDER] [--plot]

The experiment of the paper on Delta Lake: a table of network flows has four columns of evenly
spread values, source and destination address and port, in 100 files. A query asks for one value of
one of the columns, and reads the files whose bounds leave it open. Sorted by all columns at once in
their order, the table helps who asks for the first one alone; along a Z-order or a Hilbert curve it
helps all.

With ``--plot`` a picture goes to perf/layout.png, for which matplotlib has to be there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from figures import record

import adelta.sync

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ("sourceIP", "sourcePort", "destIP", "destPort")
_HIGHEST = {"sourceIP": 2**32, "sourcePort": 2**16, "destIP": 2**32, "destPort": 2**16}
_POINTS = 200  # queries of each column


def flows(rows: int, seed: int = 7) -> pa.Table:
    """Rows of evenly spread values."""
    random = np.random.default_rng(seed)
    return pa.table({name: random.integers(0, _HIGHEST[name], rows) for name in COLUMNS})


def sort_all(place: str, rows: pa.Table, files: int) -> None:
    """The table sorted by all columns in their order."""
    rows = rows.sort_by([(name, "ascending") for name in COLUMNS])
    with adelta.sync.open_table(place) as table, table.transaction() as transaction:
        count = -(-rows.num_rows // files)
        for start in range(0, rows.num_rows, count):
            transaction.append(rows.slice(start, count))


def layouts(folder: Path, rows: pa.Table, files: int) -> Mapping[str, str]:
    """The address of a table in each layout."""
    places = {name: str(folder / name) for name in ("global sort", "Z-order", "Hilbert curve")}
    adelta.sync.write_table(places["global sort"], rows.slice(0, 0))
    sort_all(places["global sort"], rows, files)
    adelta.sync.write_table(places["Z-order"], rows)
    adelta.sync.write_table(places["Hilbert curve"], rows, cluster_by=COLUMNS)
    for name, columns in (("Z-order", COLUMNS), ("Hilbert curve", None)):
        with adelta.sync.open_table(places[name]) as table:
            size = sum(table.snapshot().files()["size"].to_pylist())
        adelta.sync.optimize(places[name], zorder_by=columns, target_size=size // files)
    return places


def skipped(place: str, points: Mapping[str, list[int]]) -> tuple[int, dict[str, float]]:
    """How many files there are, and the share of them that a query of each column skips."""
    with adelta.sync.open_table(place) as table:
        snapshot = table.snapshot()
        count = snapshot.files().num_rows
        shares = {}
        for name, values in points.items():
            read = [snapshot.files(where=f"{name} = {value}").num_rows for value in values]
            shares[name] = 1 - statistics.mean(read) / count
        return count, shares


def draw(path: Path, found: Mapping[str, Mapping[str, float]], files: int) -> None:
    """Write a picture of bars: a group a layout, a bar a column."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.2), dpi=150)
    colours = ("#0b6fa4", "#5aa9d6", "#b4552d", "#e0a080")
    width = 0.2
    for place, (name, colour) in enumerate(zip(COLUMNS, colours, strict=True)):
        at = [group + (place - 1.5) * width for group in range(len(found))]
        shares = [100 * each[name] for each in found.values()]
        bars = axes.bar(at, shares, width * 0.92, label=name, color=colour)
        axes.bar_label(bars, [f"{share:.0f}" for share in shares], padding=2, fontsize=8)
    names = [
        f"{name}\n{100 * statistics.mean(each.values()):.0f} % on average"
        for name, each in found.items()
    ]
    axes.set_xticks(range(len(found)), names)
    axes.set_ylim(0, 108)
    axes.set_ylabel("files skipped, %")
    axes.set_title(f"Files that a query for one value of a column skips, of {files}", fontsize=11)
    axes.legend(
        title="the query's column", ncols=4, fontsize=8, title_fontsize=8, loc="upper center"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, 130)
    axes.set_yticks(range(0, 101, 20))
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--folder", "--tables", type=Path, help="make the tables here")
    parser.add_argument("--rounds", type=int, help="makes no difference")
    parser.add_argument("--plot", action="store_true")
    asked = parser.parse_args()
    rows = flows(asked.rows)
    random = np.random.default_rng(11)
    points = {name: random.integers(0, _HIGHEST[name], _POINTS).tolist() for name in COLUMNS}
    found: dict[str, Mapping[str, float]] = {}
    print(f"| layout | files | {' | '.join(COLUMNS)} | average |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        for name, place in layouts(Path(folder), rows, asked.files).items():
            count, shares = skipped(place, points)
            found[name] = shares
            mean = statistics.mean(shares.values())
            cells = [f"{100 * share:.1f} %" for share in (*shares.values(), mean)]
            print(f"| {name} | {count} | {' | '.join(cells)} |", flush=True)
            record(f"layout {name}", least=100 * min(shares.values()), average=100 * mean)
    if asked.plot:
        draw(Path(__file__).with_name("layout.png"), found, asked.files)


if __name__ == "__main__":
    main()
