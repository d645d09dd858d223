"""Consumers of a table's log."""

from adelta.changes.feed import changes
from adelta.changes.position import Position
from adelta.changes.tail import Commit, tail

__all__ = ["Commit", "Position", "changes", "tail"]
