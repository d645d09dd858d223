"""What is drawn of a table, and its drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import check_count, check_text
from adelta.operations.inspect.column_layout import column_layout
from adelta.operations.inspect.commit_summary import commit_summaries
from adelta.table import opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from adelta.operations.inspect.column_layout import ColumnLayout
    from adelta.operations.inspect.commit_summary import CommitSummary
    from adelta.snapshot import Snapshot
    from adelta.table import TableOrAddress

__all__ = ["history", "history_data", "layout", "layout_data"]


async def layout_data(snapshot: Snapshot, column: str) -> ColumnLayout:
    """Where the values of a column lie in the files of a version, however many these are.

    `column` is dotted below structs. Of more than 50,000 files every so many-th is looked at.

    Raises:
        SchemaMismatchError: there is no such column, or files state no ranges of it.
        InvalidTableError: a checkpoint is damaged.
    """
    return await column_layout(snapshot, check_text("column", column))


async def layout(snapshot: Snapshot, column: str, *, axes: Axes | None = None) -> Figure:
    """A figure of what `layout_data` gives: the files' ranges, and how many lie over each other.

    It is drawn into `axes` where these are given, else into a figure of its own.

    Raises:
        InvalidOptionError: matplotlib is not installed.
        SchemaMismatchError: there is no such column, or files state no ranges of it.
        InvalidTableError: a checkpoint is damaged.
    """
    from adelta.plot.drawing import draw_layout

    return draw_layout(await layout_data(snapshot, column), axes)


async def history_data(
    table: TableOrAddress,
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
    check_count("limit", limit, least=1)
    async with opened(table, storage_options) as handle:
        return await commit_summaries(handle, limit=limit)


async def history(
    table: TableOrAddress,
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

    return draw_history(await history_data(table, limit, storage_options=storage_options), axes)
