"""Consumers of a table's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._exports import exports

if TYPE_CHECKING:
    from adelta.changes.feed import changes as changes
    from adelta.changes.tail import tail as tail

__all__ = exports(
    __name__,
    {
        "adelta.changes.feed": ("changes",),
        "adelta.changes.tail": ("tail",),
    },
)
