"""What the page shows of a table, a file each: an answer in JSON to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from adelta.ui.views.history import history
from adelta.ui.views.layout import layout, partitions
from adelta.ui.views.log import log
from adelta.ui.views.overview import count, overview, sizes
from adelta.ui.views.rows import changes, rows, skipped
from adelta.ui.views.schema import schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["VIEWS", "View"]

View: TypeAlias = "Callable[[Table, Asked, Kept], Awaitable[Mapping[str, Any]]]"

VIEWS: dict[str, View] = {
    "changes": changes,
    "count": count,
    "history": history,
    "layout": layout,
    "log": log,
    "overview": overview,
    "partitions": partitions,
    "rows": rows,
    "schema": schema,
    "sizes": sizes,
    "skipped": skipped,
}
"""By the last part of their addresses."""
