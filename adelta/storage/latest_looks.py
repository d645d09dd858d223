"""What the disk cache had of objects a moment ago, for the next step with them.

Whoever reads an object asks for its end and then for parts of it, or looks for all in a thread and
then asks the store: to look through the folder each time takes as long as to read what is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._clock import monotonic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.storage.cache_file import Extent

__all__ = ["LatestLooks"]

_MOMENT = 1.0  # seconds
_MOST = 1024


class LatestLooks:
    """For each of the latest objects, the extents of it that were found; each is told once.

    What has gone since, or has come, is a miss to the one who is told. For any thread.
    """

    def __init__(self) -> None:
        self._looks: dict[str, tuple[float, Sequence[Extent]]] = {}

    def note(self, entry: str, extents: Sequence[Extent]) -> None:
        """What was found just now."""
        looks = self._looks
        looks[entry] = monotonic(), extents
        if len(looks) > _MOST:  # those that nobody has asked for
            self._looks = {}

    def taken(self, entry: str) -> Sequence[Extent] | None:
        """What was found a moment ago; None where nobody looked, or somebody was told."""
        told = self._looks.pop(entry, None)
        return None if told is None or monotonic() - told[0] > _MOMENT else told[1]
