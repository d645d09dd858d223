"""What the disk cache had of objects a moment ago, for the next step with them.

Whoever reads an object asks for its end and then for parts of it, or looks for all in a thread and
then asks the store: to look through the folder each time takes as long as to read what is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from adelta._clock import monotonic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.storage.cache_file import Extent

__all__ = ["Contents", "LatestLooks", "Look"]

Contents: TypeAlias = dict[tuple[str, tuple[tuple[int, int], ...]], memoryview]
"""What was read of files that have several extents, by their tag and their parts."""

_MOMENT = 1.0  # seconds
_MOST = 128


class Look(NamedTuple):
    """The extents of an object that were found, and what was read of them meanwhile."""

    extents: Sequence[Extent]
    contents: Contents


class LatestLooks:
    """For each of the latest objects, what was found of it; each is told once.

    What has gone since, or has come, is a miss to the one who is told. For any thread.
    """

    def __init__(self) -> None:
        self._looks: dict[str, tuple[float, Look]] = {}

    def note(self, entry: str, look: Look) -> None:
        """What was found just now."""
        looks = self._looks
        looks[entry] = monotonic(), look
        if len(looks) > _MOST:  # those that nobody has asked for
            self._looks = {}

    def taken(self, entry: str) -> Look | None:
        """What was found a moment ago; None where nobody looked, or somebody was told."""
        told = self._looks.pop(entry, None)
        return None if told is None or monotonic() - told[0] > _MOMENT else told[1]
