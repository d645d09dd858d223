"""Requests that bear tokens, which end: what the clients of Azure, of Google and of HDFS share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.storage.object_client import ObjectClient, Target

if TYPE_CHECKING:
    from adelta.storage.bearer import BearerTokens, Token
    from adelta.storage.http import HttpOptions
    from adelta.storage.retry import RetryPolicy

__all__ = ["TokenClient", "TokenTarget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTarget(Target):
    """Where requests go now, and the token that they bear, if any."""

    token: Token | None


class TokenClient(ObjectClient[TokenTarget]):
    """Sends requests that bear the newest of its tokens; without any they bear none."""

    def __init__(
        self,
        name: str,
        http: HttpOptions,
        retry: RetryPolicy,
        concurrency: int,
        tokens: BearerTokens | None = None,
    ) -> None:
        super().__init__(name, http, retry, concurrency)
        self._tokens = tokens
        self._target: TokenTarget | None = None

    async def _aim_at(self, origin: str) -> TokenTarget:
        """The target of a request to `origin`. Raises: PermissionDeniedError, StorageError."""
        token = None
        if self._tokens is not None:
            token = self._tokens.peek() or await self._tokens.current()
        target = self._target
        if target is None or target.token is not token or target.origin != origin:
            proxy = self.proxy_before(origin)
            target = self._target = TokenTarget(origin=origin, proxy=proxy, token=token)
        return target

    async def renew(self, used: TokenTarget) -> bool:
        """Whether there is another token than that of `used`, which the store refuses."""
        if self._tokens is None or used.token is None:
            return False
        return await self._tokens.after_expiry(used.token) is not None
