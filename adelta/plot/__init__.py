"""Plots of tables, with matplotlib (the extra ``plot``), and the values that they are drawn of.

``await layout(snapshot, "id")`` draws where the values of a column lie in the files, and
``await history(table)`` what the commits did. `layout_data` and `history_data` give what is drawn,
without matplotlib, for plots of one's own. `adelta.sync.plot` has the same names, without await.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._exports import exports

if TYPE_CHECKING:
    from adelta.operations.inspect.column_layout import ColumnLayout as ColumnLayout
    from adelta.operations.inspect.column_layout import FileRange as FileRange
    from adelta.operations.inspect.column_layout import layout_columns as layout_columns
    from adelta.operations.inspect.commit_summary import CommitSummary as CommitSummary
    from adelta.operations.inspect.commit_summary import FileCount as FileCount
    from adelta.plot.plots import history as history
    from adelta.plot.plots import history_data as history_data
    from adelta.plot.plots import layout as layout
    from adelta.plot.plots import layout_data as layout_data

__all__ = exports(
    __name__,
    {
        "adelta.operations.inspect.column_layout": (
            "ColumnLayout",
            "FileRange",
            "layout_columns",
        ),
        "adelta.operations.inspect.commit_summary": ("CommitSummary", "FileCount"),
        "adelta.plot.plots": ("history", "history_data", "layout", "layout_data"),
    },
)
