"""Figures of matplotlib. They are of no backend, and leave what is current in pyplot alone."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise InvalidOptionError(
        "plots need matplotlib: pip install 'adelta[plot]'; layout_data and history_data give "
        "what would be drawn without it"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from adelta.operations.inspect.column_layout import ColumnLayout
    from adelta.operations.inspect.commit_summary import CommitSummary, FileCount

__all__ = ["draw_history", "draw_layout"]

_WIDE, _TALL = 9.0, 5.0  # inches
_LONGEST = 40  # characters of a text out of the table
_OPERATIONS = 9  # that have a colour of their own


class _Drawing(Figure):
    """A figure that a notebook shows, whether or not pyplot has been imported."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=96)
        return content.getvalue()


def draw_layout(found: ColumnLayout, axes: Axes | None = None) -> Figure:
    """The ranges of files from bottom to top by their least values, and the depth behind them."""
    figure, axes = _begun(axes)
    files = found.files
    axes.barh(
        range(len(files)),
        [max(file.end - file.start, 0.002) for file in files],
        left=[file.start for file in files],
        height=0.9,
        color="C0",
    )
    shown = f"{len(files):,} of {found.num_files:,} files, by their least values"
    axes.set_ylabel(shown)
    axes.set_yticks([])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 1], [_plain(found.least), _plain(found.greatest)])
    depth = "-" if found.average_depth is None else f"{found.average_depth:,.1f}"
    axes.set_title(
        f"{_plain(found.column)} at version {found.version}: a value may be in {depth} files"
    )
    if found.depths:
        behind = axes.twinx()
        parts = len(found.depths)
        edges = [part / parts for part in range(parts + 1)]
        behind.stairs(found.depths, edges, color="C1", label="files over each other")
        behind.set_ylim(0, 1.05 * max(found.depths))
        behind.set_ylabel("files that may hold a value")
        behind.legend(loc="lower right")
    return figure


def draw_history(commits: Sequence[CommitSummary], axes: Axes | None = None) -> Figure:
    """Bytes that commits added, above, and removed, below; a colour for each operation."""
    figure, axes = _begun(axes)
    names = [_plain(commit.info.operation or "not said") for commit in commits]
    common = sorted(set(names), key=lambda name: (-names.count(name), name))[:_OPERATIONS]
    for number, operation in enumerate([*common, "others"]):
        some = [
            commit
            for commit, name in zip(commits, names, strict=True)
            if (name if name in common else "others") == operation
        ]
        if some:
            versions, colour = [commit.version for commit in some], f"C{number}"
            axes.bar(versions, [_mebibytes(c.added) for c in some], color=colour, label=operation)
            axes.bar(versions, [-_mebibytes(c.removed) for c in some], color=colour, alpha=0.6)
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.set_xlabel("version")
    axes.set_ylabel("MiB added (above) and removed (below)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if commits:
        axes.legend(loc="best")
    return figure


def _begun(axes: Axes | None) -> tuple[Figure, Axes]:
    if axes is not None:
        figure = axes.get_figure(root=True)
        assert figure is not None  # axes are made by their figures
        return figure, axes
    own = _Drawing(figsize=(_WIDE, _TALL), layout="constrained")
    return own, own.add_subplot()


def _mebibytes(files: FileCount | None) -> float:
    return 0.0 if files is None else files.num_bytes / (1 << 20)


def _plain(text: str | None) -> str:
    """A text of the table as it is: a dollar sign would begin a formula."""
    text = "-" if text is None else text
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text).replace(
        "$", r"\$"
    )
