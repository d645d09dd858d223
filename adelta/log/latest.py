"""LatestState: the newest state that a handle knows of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from adelta._clock import SYSTEM_CLOCK, Clock, Since, monotonic
from adelta._shared_work import SharedWork
from adelta.errors import InvalidUseError, TableNotFoundError
from adelta.log.load import load_state
from adelta.log.refresh import refresh_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["LatestState"]

_FRESH_MS = 600_000
_LONG_TAIL = 1000  # commits


class LatestState:
    """The newest known state of the table in `store`.

    It moves to newer versions, and to another table only where that has been found in its place.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock = SYSTEM_CLOCK,
        used: Callable[[LatestState], None] | None = None,
    ) -> None:
        """Of the table in `store`; `used` is called whenever its state is given out or replaced."""
        self.store = store
        self._clock = clock
        self._used = used
        self._seen: Since | None = None
        self._doubted_at = -math.inf
        self._state: LogState | None = None
        self._gone: frozenset[str] = frozenset()  # ids of tables that were here before
        self._longest_tail = _LONG_TAIL
        self._turn = anyio.Lock()
        self._look: SharedWork[LogState] = SharedWork(self._turn)

    @property
    def at_hand(self) -> LogState | None:
        """The newest state that is known, however old that knowledge is; no I/O."""
        return self._state

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
        elif self._used is not None:
            self._used(self)
        return self._state

    async def _begin_anew(self) -> None:
        async with self._turn:
            before = self._state
            if before is not None and before.tail_length < self._longest_tail:
                return
            asked_at = monotonic()
            fresh = await load_state(self.store)
            self._longest_tail = fresh.tail_length + _LONG_TAIL  # where there is no checkpoint
            self._settle(before, fresh, asked_at)

    def _is_recent(self) -> bool:
        return self._seen is not None and self._seen.passed_ms <= _FRESH_MS

    async def latest_state(self) -> LogState:
        """The latest state, by a look at the log that begins after this was called.

        Any number of callers at one moment share one look, and wait for the one that is under way.

        Raises:
            TableNotFoundError: there is no table.
            InvalidTableError: the log is damaged.
            InvalidUseError: the handle is closed meanwhile.
        """
        return await self._look.result(self._read_latest)

    def forget(self) -> None:
        """Keep the state no longer: the next who asks for it has it loaded anew."""
        self._state = self._seen = None

    async def aclose(self) -> None:
        """End the looks that are under way."""
        await self._look.stop(
            InvalidUseError(
                f"{self.store.uri}: the handle was closed while it was looking at the log; await "
                "what is under way before you close it"
            )
        )

    async def _read_latest(self) -> LogState:
        before, asked_at = self._state, monotonic()
        try:
            if before is None:
                state = await load_state(self.store)
            else:
                state = await refresh_state(before, recent=self._is_recent())
        except TableNotFoundError:
            if before is not None:
                self._gone |= {before.metadata.id}
            self._state = None
            raise
        self._settle(before, state, asked_at)
        return state

    def _settle(self, before: LogState | None, state: LogState, asked_at: float) -> None:
        """Take what the log says when it was asked, where `before` was known of it."""
        state.note_newest(asked_at)
        if before is None or state.continues(before):
            self._gone -= {state.metadata.id}
            if self._state is None or state.version >= self._state.version:
                self._take(state)
            elif self._used is not None:
                self._used(self)
        else:
            self.replace_state(state)
        if asked_at < self._doubted_at:
            self._seen = None

    async def state_at(self, version: int) -> LogState:
        """The state of `version`.

        Raises:
            TableNotFoundError: there is no table.
            VersionNotFoundError: the version does not exist, or is no longer kept.
            InvalidTableError: the log is damaged.
        """
        held = self._state
        if held is not None and held.version == version and await held.mark.stands(held.store):
            return held
        return await load_state(self.store, version=version)

    def publish_state(self, state: LogState) -> None:
        """Take note of a state, where it is newer than the one that is known.

        That of a table that has been found gone is none. A first version is: where it was made,
        there was no table.
        """
        known = self._state
        if state.metadata.id in self._gone:
            return
        if known is None or state.version > known.version:
            self._take(state)
        elif state.version == 0 and state.metadata.id != known.metadata.id:
            self.replace_state(state)

    def doubt_state(self) -> None:
        """Have the log looked at before what is known of it is given out again."""
        self._seen = None
        self._doubted_at = monotonic()  # a look that has begun does not settle that

    def replace_state(self, state: LogState) -> None:
        """Go on with a state that the log has been found to make now, whatever its version."""
        if self._state is not None:
            self._gone |= {self._state.metadata.id}
        self._gone -= {state.metadata.id}
        self._take(state)

    def _take(self, state: LogState) -> None:
        self._state = state
        self._seen = Since.now(self._clock)
        if self._used is not None:
            self._used(self)
