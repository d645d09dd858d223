"""LatestState: the newest state that a handle knows of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from adelta._clock import SYSTEM_CLOCK, Clock
from adelta.log.state import LogState, load_state, refresh_state

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore

__all__ = ["LatestState"]

_FRESH_MS = 600_000
_LONG_TAIL = 1000  # commits


class LatestState:
    """The newest known state of the table in `store`. It only ever moves to newer versions."""

    def __init__(self, store: ObjectStore, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self._seen_ms = 0
        self._state: LogState | None = None
        self._longest_tail = _LONG_TAIL
        self._lock = anyio.Lock()

    async def known_state(self) -> LogState:
        """A recent state: without I/O where one is known that was the latest in the last minutes.

        An older one is refreshed: in a log that was cleaned up meanwhile, the version after it may
        look free. One that has followed very many commits begins anew with the newest checkpoint,
        since all of them are kept in memory.

        Raises:
            TableNotFoundError: there is no table.
            InvalidTableError: the log is damaged.
        """
        if self._state is None or not self._is_recent():
            return await self.latest_state()
        if self._state.tail_length >= self._longest_tail:
            await self._begin_anew()
        return self._state

    async def _begin_anew(self) -> None:
        async with self._lock:
            if self._state is not None and self._state.tail_length < self._longest_tail:
                return
            fresh = await load_state(self._store)
            self._longest_tail = fresh.tail_length + _LONG_TAIL  # where there is no checkpoint
            self.publish_state(fresh)

    def _is_recent(self) -> bool:
        return self._clock.now_ms() - self._seen_ms <= _FRESH_MS

    async def latest_state(self) -> LogState:
        """The latest state. Of concurrent callers each reads what is new, one after the other.

        Raises:
            TableNotFoundError: there is no table.
            InvalidTableError: the log is damaged.
        """
        async with self._lock:
            if self._state is None:
                state = await load_state(self._store)
            else:
                state = await refresh_state(self._state, recent=self._is_recent())
            self.publish_state(state)
            return state

    async def state_at(self, version: int) -> LogState:
        """The state of `version`.

        Raises:
            TableNotFoundError: there is no table.
            VersionNotFoundError: the version does not exist, or is no longer kept.
            InvalidTableError: the log is damaged.
        """
        if self._state is not None and self._state.version == version:
            return self._state
        return await load_state(self._store, version=version)

    def publish_state(self, state: LogState) -> None:
        """Take note of a state, where it is newer than the one that is known."""
        if self._state is None or state.version >= self._state.version:
            self._state = state
            self._seen_ms = self._clock.now_ms()
