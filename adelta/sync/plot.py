"""The blocking twin of `adelta.plot`, written by hand: what is drawn is drawn by the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.operations.inspect.column_layout import ColumnLayout, FileRange
from adelta.operations.inspect.column_layout import layout_columns as _layout_columns
from adelta.operations.inspect.commit_summary import CommitSummary, FileCount
from adelta.plot.plots import history_data as _history_data
from adelta.plot.plots import layout_data as _layout_data
from adelta.sync import _portal
from adelta.sync._handle import unwrap

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from adelta.sync.snapshot import Snapshot
    from adelta.sync.table import Table

__all__ = [
    "ColumnLayout",
    "CommitSummary",
    "FileCount",
    "FileRange",
    "history",
    "history_data",
    "layout",
    "layout_columns",
    "layout_data",
]


def layout_columns(snapshot: Snapshot) -> list[str]:
    """The columns whose ranges files state, as `layout` takes them."""
    return _layout_columns(unwrap(snapshot))


def layout_data(snapshot: Snapshot, column: str) -> ColumnLayout:
    """Where the values of a column lie in the files of a version, however many these are.

    `column` is dotted below structs. Of more than 50,000 files every so many-th is looked at.

    Raises:
        SchemaMismatchError: there is no such column, or files state no ranges of it.
        InvalidTableError: a checkpoint is damaged.
    """
    return _portal.call(_layout_data, unwrap(snapshot), column)


def layout(snapshot: Snapshot, column: str, *, axes: Axes | None = None) -> Figure:
    """A figure of what `layout_data` gives: the files' ranges, and how many lie over each other.

    It is drawn into `axes` where these are given, else into a figure of its own.

    Raises:
        InvalidOptionError: matplotlib is not installed.
        SchemaMismatchError: there is no such column, or files state no ranges of it.
        InvalidTableError: a checkpoint is damaged.
    """
    from adelta.plot.drawing import draw_layout

    return draw_layout(layout_data(snapshot, column), axes)


def history_data(
    table: Table | str | os.PathLike[str],
    limit: int = 200,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[CommitSummary]:
    """What each of the last commits did, newest first; at most `limit` of them.

    Raises:
        InvalidOptionError: `limit` is below 1.
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    return _portal.call(_history_data, unwrap(table), limit, storage_options=storage_options)


def history(
    table: Table | str | os.PathLike[str],
    limit: int = 200,
    *,
    axes: Axes | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Figure:
    """A figure of what `history_data` gives: bytes added and removed, by version and operation.

    It is drawn into `axes` where these are given, else into a figure of its own.

    Raises:
        InvalidOptionError: `limit` is below 1, or matplotlib is not installed.
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    from adelta.plot.drawing import draw_history

    return draw_history(history_data(table, limit, storage_options=storage_options), axes)
