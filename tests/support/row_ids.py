"""The ids of a table's rows, from the log's own lines: each its row's alone, and for good.

A row's id is what its file says, or the file's first id and the row's place in it. Who changes a
row, or moves it, lets it have its id; who puts others in its place gives them new ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.live_rows import FileKey, Row
    from tests.support.workload import Operation

__all__ = ["RowIds"]

_BY_HAND = ("delete", "add_one")  # then all rows are removed, and those that stay are appended
_Name = tuple[str, int]


@dataclass
class RowIds:
    """The ids of live rows, and what was wrong with those of a commit."""

    live: Counter[int] = field(default_factory=Counter)
    used: set[int] = field(default_factory=set)
    _files: dict[FileKey, Mapping[_Name, int]] = field(default_factory=dict)
    _gone: dict[_Name, int] = field(default_factory=dict)
    _new: dict[_Name, int] = field(default_factory=dict)

    def add(self, key: FileKey, rows: Iterable[tuple[Row, int]]) -> None:
        """A file becomes live whose rows, with their ids, are these."""
        self._files[key] = found = {row[:2]: row_id for row, row_id in rows}
        self._new |= found
        self.live.update(found.values())

    def end(self, key: FileKey) -> None:
        """A file is live no more."""
        found = self._files.pop(key)
        self._gone |= found
        self.live.subtract(found.values())

    def wrong(self, version: int, operations: Iterable[Operation]) -> list[str]:
        """What is wrong with the ids that a commit leaves, which becomes part of what was."""
        gone, new = self._gone, self._new
        self._gone, self._new = {}, {}
        kinds = {each.kind for each in operations}
        anew = any(each.kind in _BY_HAND and each.by_hand for each in operations)
        found = [
            f"version {version} gives the id {row_id} to {self.live[row_id]} rows"
            for row_id in new.values()
            if self.live[row_id] != 1
        ]
        if "restore" not in kinds:
            for name, row_id in new.items():
                before = None if anew or "overwrite" in kinds else gone.get(name)
                if before is not None and before != row_id:
                    found.append(f"version {version} changes the id of {name}: {before}, {row_id}")
                if before is None and row_id in self.used:
                    found.append(f"version {version} gives {name} the id {row_id}, another's")
        self.used.update(new.values())
        return found
