"""Bearer tokens that end, and how they are kept fresh.

A token is fetched in a worker thread, for the libraries that fetch them block. It is renewed before
its end, by one caller while the others go on with the old one. A fetch that fails has failed for
all who wait for it. A forked child renews it by itself, whatever its parent was doing.
"""

from __future__ import annotations

import copy
import os
from dataclasses import field
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta._locks import ForkSafeLock
from adelta.errors import AdeltaError, PermissionDeniedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BearerTokens", "Token", "unresolved"]

_RENEW_AHEAD = 5 * 60.0
_LAST_MOMENT = 30.0


@dataclass(frozen=True, slots=True)
class Token:
    """A token that ends at `ends`, in seconds since the Unix epoch, from what `source` names."""

    text: str = field(repr=False)
    ends: float
    source: str


class BearerTokens:
    """The newest token that `fetch` has given, which blocks and is called in a worker thread.

    With `fixed` there is one token, which nobody renews.
    """

    def __init__(
        self, fetch: Callable[[], Token] | None = None, fixed: Token | None = None
    ) -> None:
        self._fetch = fetch
        self._token = fixed
        self._lock = ForkSafeLock()  # held in worker threads alone
        self._renewing: int | None = None  # the process that does so ahead of time
        self._failures = 0
        self._failure: AdeltaError | None = None  # the last one

    @property
    def source(self) -> str:
        """In words, where the newest token is from."""
        return "none was fetched" if self._token is None else self._token.source

    def peek(self) -> Token | None:
        """The token at hand, where it need not be renewed now."""
        token = self._token
        if token is not None and (self._fetch is None or _now() < token.ends - _RENEW_AHEAD):
            return token
        return None

    async def current(self) -> Token:
        """The token to use now.

        Raises:
            PermissionDeniedError: there is none, or it cannot be renewed.
        """
        if (token := self.peek()) is not None:
            return token
        known = self._token
        if known is None or _now() >= known.ends - _LAST_MOMENT:
            return await self._renewed(known)
        if self._renewing == os.getpid():
            return known
        self._renewing = os.getpid()
        try:
            return await self._renewed(known)
        except StorageError:
            if _now() >= known.ends - _LAST_MOMENT:
                raise
            return known
        finally:
            self._renewing = None

    async def after_expiry(self, used: Token) -> Token | None:
        """A fresh token after the store refused `used`, or None where there is none.

        Raises:
            PermissionDeniedError: it cannot be renewed.
        """
        if self._fetch is None:
            return None
        return await self._renewed(used)

    async def _renewed(self, known: Token | None) -> Token:
        return await in_io_thread(self._renew, known, self._failures)

    def _renew(self, known: Token | None, failures: int) -> Token:
        """Another token than `known`, for who asked when there had been so many failures."""
        with self._lock:
            if self._token is not None and self._token is not known:
                return self._token
            if self._failure is not None and self._failures > failures:
                raise copy.copy(self._failure)
            assert self._fetch is not None
            try:
                self._token = self._fetch()
            except AdeltaError as error:
                self._failures += 1
                self._failure = copy.copy(error)
                raise
            return self._token


def unresolved(text: str, *, passes: bool) -> StorageError:
    """The error that says that there are no credentials: denied, unless that may pass by itself."""
    if passes:
        return StorageError(f"{text}; whoever gives them out cannot be asked now: try again later")
    return PermissionDeniedError(text)


def _now() -> float:
    """Seconds since the Unix epoch."""
    return SYSTEM_CLOCK.now_ms() / 1000
