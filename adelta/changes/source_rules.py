"""SourceRules: from where a stream reads a table, what it passes over, and how much at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from adelta.changes.schema_log import SchemaTracking

__all__ = ["DEFAULT_MAX_FILES", "Admission", "SourceRules"]

DEFAULT_MAX_FILES = 1000
"""Files of a micro-batch, where neither files nor bytes are limited otherwise."""

_REMEDY = (
    "pass such commits over with the option skipChangeCommits (or ignoreDeletes, where they only "
    "delete), or read the changes themselves with readChangeFeed"
)


@dataclass(frozen=True, slots=True)
class SourceRules:
    """What a stream was asked for.

    Attributes:
        start: a version, ``latest`` for what is committed from now on, or a time; None to begin
            with the rows that are there.
        starts_beyond: whether it may be behind the latest version; nothing is read until then.
        read_changes: whether the change data feed is read.
        ignore_deletes: whether commits that only delete are passed over.
        ignore_changes: whether files that a commit wrote again are read again.
        skip_change_commits: whether commits that delete or change rows are passed over whole.
        exclude: files whose path it finds are left out.
        fail_on_data_loss: whether commits that have been cleaned up are an error.
        max_files: files of a micro-batch.
        max_bytes: bytes of a micro-batch, which its last file may exceed.
        event_time: the column by whose times the rows that are there are divided; None to read them
            file by file.
        tracking: how the stream keeps track of the table's schemas; None where it does not.
        stops_at_metadata: whether micro-batches end before commits that change the metadata, after
            which whoever reads opens another source, of the version that such a commit made.
        remedy: what to do where commits change or delete rows, and that is not allowed.
    """

    start: int | Literal["latest"] | datetime | None = None
    starts_beyond: bool = False
    read_changes: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    exclude: re.Pattern[str] | None = None
    fail_on_data_loss: bool = True
    max_files: int | None = None
    max_bytes: int | None = None
    event_time: str | None = None
    tracking: SchemaTracking | None = None
    stops_at_metadata: bool = False
    remedy: str = _REMEDY

    @property
    def allows_changes(self) -> bool:
        """Whether commits may change rows."""
        return self.ignore_changes or self.skip_change_commits

    @property
    def allows_deletes(self) -> bool:
        """Whether commits may delete rows."""
        return self.allows_changes or self.ignore_deletes

    def excludes(self, path: str) -> bool:
        """Whether a file is left out."""
        return self.exclude is not None and self.exclude.search(path) is not None


class Admission:
    """How much a micro-batch may still take. One file is always admitted."""

    def __init__(self, max_files: int | None, max_bytes: int | None) -> None:
        if max_files is None and max_bytes is None:
            max_files = DEFAULT_MAX_FILES
        self._files = float("inf") if max_files is None else max_files
        self._bytes = float("inf") if max_bytes is None else max_bytes
        self._untouched = True

    @classmethod
    def unlimited(cls) -> Admission:
        """Takes everything."""
        found = cls(None, None)
        found._files = float("inf")
        return found

    @property
    def is_unlimited(self) -> bool:
        """Whether everything is taken."""
        return self._files == self._bytes == float("inf")

    @property
    def room(self) -> tuple[float, float]:
        """How many files, and bytes, may still be taken."""
        return self._files, self._bytes

    @property
    def has_capacity(self) -> bool:
        """Whether another file may be taken."""
        return self._files > 0 and self._bytes > 0

    def admit(self, size: int) -> bool:
        """Whether a file of `size` bytes is taken: while there is any room, however large it is."""
        if not self.has_capacity:
            return False
        self._take(1, size)
        return True

    def admit_together(self, sizes: list[int]) -> bool:
        """Whether files that must not be parted are taken: those that come first always are."""
        if not sizes:
            return True
        fits = self._files >= len(sizes) and self._bytes >= sum(sizes)
        if not (fits or self._untouched):
            self._files = 0
            return False
        self._take(len(sizes), sum(sizes))
        return True

    def _take(self, files: int, size: int) -> None:
        self._untouched = False
        self._files -= files
        self._bytes -= size
