"""Consumers of a table's log."""

from adelta.changes.feed import changes
from adelta.changes.tail import tail

__all__ = ["changes", "tail"]
