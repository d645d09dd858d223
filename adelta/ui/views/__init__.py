"""What the page shows of a table, a file each: an answer in JSON to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from adelta.ui.views.history import history
from adelta.ui.views.log import log
from adelta.ui.views.overview import columns, count, overview, sizes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["VIEWS", "View"]

View: TypeAlias = "Callable[[Table, Asked, Kept], Awaitable[Mapping[str, Any]]]"

VIEWS: dict[str, View] = {
    "columns": columns,
    "count": count,
    "history": history,
    "log": log,
    "overview": overview,
    "sizes": sizes,
}
"""By the last part of their addresses."""
