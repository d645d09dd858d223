"""Bearer tokens that end, and how they are kept fresh.

A token is fetched in a worker thread, for the libraries that fetch them block, and renewed before
its end, as `renewal` says.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._dataclasses import dataclass
from adelta.errors import PermissionDeniedError, StorageError
from adelta.storage.renewal import Renewed

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
        self._tokens = None if fetch is None else Renewed(fetch)
        self._fixed = fixed

    @property
    def source(self) -> str:
        """In words, where the newest token is from."""
        token = self._fixed if self._tokens is None else self._tokens.newest
        return "none was fetched" if token is None else token.source

    def peek(self) -> Token | None:
        """The token at hand, where it need not be renewed now."""
        if self._tokens is None:
            return self._fixed
        token = self._tokens.newest
        return token if token is not None and _now() < token.ends - _RENEW_AHEAD else None

    async def current(self) -> Token:
        """The token to use now.

        Raises:
            PermissionDeniedError: there is none, or it cannot be renewed.
        """
        if (token := self.peek()) is not None:
            return token
        assert self._tokens is not None
        known = self._tokens.newest
        if known is None:
            return await self._tokens.after(None)
        return await self._tokens.ahead(known, partial(_is_over, known))

    async def after_expiry(self, used: Token) -> Token | None:
        """A fresh token after the store refused `used`, or None where there is none.

        Raises:
            PermissionDeniedError: it cannot be renewed.
        """
        return None if self._tokens is None else await self._tokens.after(used)


def unresolved(text: str, *, passes: bool) -> StorageError:
    """The error that says that there are no credentials: denied, unless that may pass by itself."""
    if passes:
        return StorageError(f"{text}; whoever gives them out cannot be asked now: try again later")
    return PermissionDeniedError(text)


def _is_over(token: Token) -> bool:
    return _now() >= token.ends - _LAST_MOMENT


def _now() -> float:
    """Seconds since the Unix epoch."""
    return SYSTEM_CLOCK.now_ms() / 1000
