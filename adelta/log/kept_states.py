"""KeptStates: the states of many tables that are kept in memory, within so many bytes of it.

The one that was used longest ago goes first: whoever asks for it again has it loaded anew. What
somebody holds a snapshot of stays in memory with that, and is not counted.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.log.latest import LatestState

__all__ = ["KeptStates"]


@dataclass(slots=True)
class _Kept:
    holder: object
    nbytes: int = 0


class KeptStates:
    """The states of `LatestState`s that were used last; `limit` is in bytes. Of one event loop.

    The one used last is kept, be it larger than that. `forgotten` is told the holder of each that
    goes.
    """

    def __init__(self, limit: int, forgotten: Callable[[object], None]) -> None:
        self._limit = limit
        self._forgotten = forgotten
        self._kept: OrderedDict[LatestState, _Kept] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """The memory of all, by when each was last looked at."""
        return self._nbytes

    def used(self, source: LatestState, holder: object) -> None:
        """Keep the state of `source`, and `holder` with it, as the last that goes."""
        last = next(reversed(self._kept), None)
        if last is not None and last is not source:
            self._weigh(last)  # by what was done with it since, it may have grown
        if source not in self._kept:
            self._kept[source] = _Kept(holder)
        self._kept.move_to_end(source)
        self._weigh(source)
        self._make_room()

    def weigh(self) -> None:
        """Look anew how much memory each state takes, and let go what is too much."""
        for source in self._kept:
            self._weigh(source)
        self._make_room()

    def clear(self) -> None:
        """Let go of all, without telling."""
        self._kept.clear()
        self._nbytes = 0

    def _weigh(self, source: LatestState) -> None:
        kept, state = self._kept[source], source.at_hand
        nbytes = 0 if state is None else state.nbytes
        self._nbytes += nbytes - kept.nbytes
        kept.nbytes = nbytes

    def _make_room(self) -> None:
        while self._nbytes > self._limit and len(self._kept) > 1:
            source, kept = self._kept.popitem(last=False)
            self._nbytes -= kept.nbytes
            source.forget()
            self._forgotten(kept.holder)
