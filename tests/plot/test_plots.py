"""Plots: what is drawn is what the table has; without matplotlib there are the values."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import adelta
import adelta.plot
import adelta.sync.plot
from adelta.errors import InvalidOptionError, SchemaMismatchError

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "a value may be in 1.0 files"


@pytest.fixture
async def trips(tmp_path: Path) -> str:
    """Four files, whose values lie apart, and the third of which is gone."""
    uri = str(tmp_path / "trips")
    for n in range(4):
        await adelta.write_table(uri, pa.table({"km": range(10 * n, 10 * n + 10)}))
    await adelta.delete(uri, "km >= 20 and km < 30")
    return uri


async def test_a_layout_has_a_bar_for_each_file_and_the_depth_behind_them(trips: str) -> None:
    async with adelta.open_table(trips) as table:
        figure = await adelta.plot.layout(await table.snapshot(), "km")
    ranges, depth = figure.axes
    assert [round(bar.get_x() * 39) for bar in ranges.patches] == [0, 10, 30]
    assert [round((bar.get_x() + bar.get_width()) * 39) for bar in ranges.patches] == [9, 19, 39]
    assert [label.get_text() for label in ranges.get_xticklabels()] == ["0", "39"]
    assert ranges.get_title() == f"km at version 4: {TITLE}"
    assert max(depth.patches[0].get_data().values) == 1
    assert figure._repr_png_().startswith(b"\x89PNG")


async def test_a_history_has_bars_for_what_was_added_and_removed(trips: str) -> None:
    commits = await adelta.plot.history_data(trips)
    assert [commit.version for commit in commits] == [4, 3, 2, 1, 0]
    figure = await adelta.plot.history(trips)
    (axes,) = figure.axes
    heights = sorted(bar.get_height() for bar in axes.patches)
    removed = commits[0].removed
    assert removed is not None
    assert heights[0] == -removed.num_bytes / (1 << 20)
    assert sum(height > 0 for height in heights) == 4
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["WRITE", "DELETE"]
    assert len(await adelta.plot.history_data(trips, 2)) == 2


def test_the_blocking_twins_draw_the_same_into_axes_of_ones_own(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    odd = r"a $\frac$ {"
    adelta.sync.write_table(
        uri,
        pa.table({odd: ["$x^", "y\n\u202e"]}),
        properties={"delta.columnMapping.mode": "name"},
    )
    axes = Figure().add_subplot()
    with adelta.sync.open_table(uri) as table:
        snapshot = table.snapshot()
        (column,) = adelta.sync.plot.layout_columns(snapshot)
        figure = adelta.sync.plot.layout(snapshot, column, axes=axes)
        adelta.sync.plot.history(table).savefig(tmp_path / "history.svg")
        with pytest.raises(SchemaMismatchError):
            adelta.sync.plot.layout(snapshot, "nope")
        with pytest.raises(InvalidOptionError):
            adelta.sync.plot.history_data(table, 0)
    assert figure is axes.get_figure()
    assert axes.get_title().endswith(TITLE)
    figure.savefig(tmp_path / "layout.png")  # what looks like a formula is none


@pytest.mark.parametrize("name", ["layout", "layout_data", "history", "history_data"])
def test_both_faces_have_the_same_names_arguments_and_descriptions(name: str) -> None:
    assert sorted(adelta.plot.__all__) == sorted(adelta.sync.plot.__all__)
    original, twin = getattr(adelta.plot, name), getattr(adelta.sync.plot, name)
    parameters = [inspect.signature(each).parameters.values() for each in (original, twin)]
    theirs, ours = ([(p.name, p.kind, p.default) for p in each] for each in parameters)
    assert theirs == ours
    assert inspect.getdoc(original) == inspect.getdoc(twin)


def test_without_matplotlib_the_values_are_there_and_drawing_says_what_to_install(
    tmp_path: Path,
) -> None:
    program = """
import sys; sys.modules["matplotlib"] = None
import adelta.sync, adelta.sync.plot as plot, pyarrow as pa
adelta.sync.write_table(sys.argv[1], pa.table({"km": [1, 2]}))
with adelta.sync.open_table(sys.argv[1]) as table:
    print(plot.layout_data(table.snapshot(), "km").greatest)
    try:
        plot.layout(table.snapshot(), "km")
    except adelta.errors.InvalidOptionError as error:
        print(error)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2\n")
    assert "pip install 'adelta[plot]'" in done.stdout
