"""Position: how far a consumer of a table's log has got."""

from __future__ import annotations

import re
from dataclasses import dataclass

from adelta._fields import check_fields
from adelta.errors import InvalidOptionError

__all__ = ["Position"]

_TEXT = re.compile(r"(\d{1,19}):(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The next thing to read: `index` things of the commit `version` have been read already.

    Positions are ordered, and their text form, which `parse` reads, can be stored anywhere.
    """

    version: int
    index: int = 0

    def __post_init__(self) -> None:
        """Check that there can be such a position.

        Raises:
            InvalidOptionError: a part is negative, or no whole number of 64 bits.
        """
        check_fields(self)
        if self.version < 0 or self.index < 0:
            raise InvalidOptionError(f"{self.version}:{self.index} is no position in a log")

    def __str__(self) -> str:
        """The text form, such as ``12:0``."""
        return f"{self.version}:{self.index}"

    @property
    def first_version(self) -> int:
        """The version of the next commit, for consumers of whole commits.

        Raises:
            InvalidOptionError: a part of that commit has been read already.
        """
        if self.index:
            raise InvalidOptionError(
                f"the position {self} stands within the commit {self.version}, and commits are "
                "read whole here; go on from the position of a commit"
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
        return cls(int(match[1]), int(match[2]))
