"""Position: how far a consumer of a table's log has got."""

from __future__ import annotations

import re
from dataclasses import field
from urllib.parse import quote, unquote

from adelta._dataclasses import dataclass
from adelta._fields import check_fields
from adelta.errors import InvalidOptionError

__all__ = ["Position"]

_NUMBER = r"(\d{1,19})"
_SHARE = r"[\w.%~-]*:\d{1,9}/\d{1,9}"
_TEXT = re.compile(
    rf"(s?){_NUMBER}:{_NUMBER}(?:\+{_NUMBER})?(?:@([\w.%~-]+))?(?:#({_SHARE}))?", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The next thing to read: `index` things of the commit `version` have been read already.

    `row` rows of the next thing have been read, too. With `in_snapshot` the things are the files
    that the table had at `version`, by modification time and path, else what the commit did.
    `table_id` is the id of the table that was read, so that no other one is read from there on.
    `share` says which of the rows were read, where several consumers share them: ``city:0/4``.

    Positions of one table are ordered, whoever has noted its id and a share. Their text form, which
    `parse` reads, can be stored anywhere.
    """

    version: int
    index: int = 0
    row: int = 0
    in_snapshot: bool = False
    table_id: str | None = field(default=None, compare=False)
    share: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check that there can be such a position.

        Raises:
            InvalidOptionError: a part is negative, or no whole number of 64 bits.
        """
        check_fields(self)
        if self.share is not None and re.fullmatch(_SHARE, self.share, re.ASCII) is None:
            raise InvalidOptionError(f"{self.share!r:.60} is no share; one looks like city:0/4")
        if self.version < 0 or self.index < 0 or self.row < 0:
            raise InvalidOptionError(f"{self} is no position in a log")

    def __str__(self) -> str:
        """The text form: ``12:0``, or ``s12:3+400@ID#SHARE``, where ``s`` is of snapshots."""
        text = f"{'s' if self.in_snapshot else ''}{self.version}:{self.index}"
        if self.row:
            text += f"+{self.row}"
        if self.table_id is not None:
            text += f"@{quote(self.table_id, safe='')}"
        return text if self.share is None else f"{text}#{self.share}"

    @property
    def first_version(self) -> int:
        """The version of the next commit, for consumers of whole commits.

        Raises:
            InvalidOptionError: a part of that commit, or of a snapshot, has been read already.
        """
        if self.index or self.row or self.in_snapshot:
            within = "snapshot of version" if self.in_snapshot else "commit"
            raise InvalidOptionError(
                f"the position {self} stands within the {within} {self.version}, and commits are "
                "read whole here; go on from the position of a commit, or with the Consumer that "
                "has noted it"
            )
        return self.version

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that a text form stands for.

        Raises:
            InvalidOptionError: the text is no position.
        """
        given: object = text
        match = _TEXT.fullmatch(given.strip()) if isinstance(given, str) else None
        if match is None:
            raise InvalidOptionError(f"{text!r:.60} is no position in a log; one looks like 12:0")
        snapshot, version, index, row, table_id, share = match.groups()
        return cls(
            int(version),
            int(index),
            int(row or 0),
            bool(snapshot),
            None if table_id is None else unquote(table_id),
            share,
        )
