"""Who may do what: bearer tokens, of which only hashes are kept, and the rights that they give.

A token gives one right, for the tables below one prefix. Tokens are looked up anew every other
second, so that a new one is taken, and a revoked one refused, by every instance without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from enum import IntEnum
from typing import TYPE_CHECKING

import anyio

from adelta._clock import SYSTEM_CLOCK, monotonic
from adelta._dataclasses import dataclass
from adelta.errors import AdeltaError, InvalidOptionError, PermissionDeniedError
from adelta.owner.database import Statement
from adelta.owner.table_key import lies_below, root_of
from adelta.storage.addresses import Place

if TYPE_CHECKING:
    from adelta._clock import Clock
    from adelta.owner.database import Database

__all__ = ["Grant", "NotAuthenticatedError", "Right", "Tokens", "check_prefix"]

_FRESH = 1.5  # seconds for which tokens that were read are taken to count
_BEARER = re.compile(r"bearer +(adelta_([0-9a-f]{12})_[0-9a-f]{48}) *", re.IGNORECASE)
_LONGEST_LABEL = 200


class Right(IntEnum):
    """What a token allows; each right has those before it."""

    READ = 1
    WRITE = 2
    OWN = 3


class NotAuthenticatedError(Exception):
    """There is no token, or none that is known."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A token, without its secret. Times are in milliseconds since the Unix epoch."""

    token_id: str
    right: Right
    prefix: str
    label: str = ""
    created_ms: int = 0
    expires_ms: int | None = None
    revoked_ms: int | None = None

    def check(self, uri: str, right: Right) -> None:
        """Refuse what the token does not allow at the root of a table.

        Raises:
            PermissionDeniedError: its right is less, or for other tables.
        """
        if not lies_below(uri, self.prefix):
            raise PermissionDeniedError(f"the token is for other tables than {uri}")
        if self.right < right:
            raise PermissionDeniedError(
                f"the token allows to {self.right.name.lower()}, and not to {right.name.lower()}; "
                "ask whoever runs the commit owner for another one"
            )

    def is_valid(self, now_ms: int) -> bool:
        """Whether it counts at a time."""
        ends = [time for time in (self.expires_ms, self.revoked_ms) if time is not None]
        return all(now_ms < time for time in ends)


class Tokens:
    """The tokens in a `database`."""

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, tuple[str, Grant]] = {}
        self._read_at = -_FRESH
        self._reading = anyio.Lock()

    async def authenticate(self, header: str | None, *, known: bool = False) -> Grant:
        """Who sends a request, by its header `Authorization`.

        With `known` a token of an id that is not known is not looked for in the database.

        Raises:
            NotAuthenticatedError: it has no token that counts.
            StorageError: the database failed.
        """
        found = _BEARER.fullmatch(header or "")
        if found is None:
            raise NotAuthenticatedError
        given, token_id = _hash(found[1]), found[2]
        is_new = token_id not in self._known and not known
        if monotonic() - self._read_at > _FRESH or is_new:
            await self._read()
        kept, grant = self._known.get(token_id, ("", None))
        same = hmac.compare_digest(kept, given)
        if grant is None or not same or not grant.is_valid(self._clock.now_ms()):
            raise NotAuthenticatedError
        return grant

    async def _read(self) -> None:
        asked = monotonic()
        async with self._reading:
            if self._read_at > asked:
                return  # another request has begun to read them meanwhile
            read_at = monotonic()
            self._known = {grant.token_id: (kept, grant) for kept, grant in await self._all()}
            self._read_at = read_at

    async def _all(self) -> list[tuple[str, Grant]]:
        rows = await self._database.ask(
            Statement(
                "SELECT hash, token_id, rights, prefix, label, created_ms, expires_ms, revoked_ms "
                "FROM owner_tokens ORDER BY created_ms, token_id"
            )
        )
        return [(row[0], Grant(row[1], Right[row[2]], *tuple(row)[3:])) for row in rows]

    async def list(self) -> list[Grant]:
        """All tokens, also those that no longer count. Raises: StorageError."""
        return [grant for _, grant in await self._all()]

    async def create(
        self, right: Right, prefix: str, *, label: str = "", expires_ms: int | None = None
    ) -> tuple[str, Grant]:
        """A new token, and what it gives. It is told here, and never again.

        Raises:
            InvalidOptionError: the prefix is none.
            StorageError: the database failed.
        """
        prefix, token_id = check_prefix(prefix), secrets.token_hex(6)
        token = f"adelta_{token_id}_{secrets.token_hex(24)}"
        grant = Grant(
            token_id, right, prefix, label[:_LONGEST_LABEL], self._clock.now_ms(), expires_ms
        )
        row = (token_id, _hash(token), right.name, prefix, grant.label, grant.created_ms)
        text = "INSERT INTO owner_tokens VALUES ($1, $2, $3, $4, $5, $6, $7)"
        columns = "token_id, hash, rights, prefix, label, created_ms, expires_ms"
        text = text.replace("owner_tokens", f"owner_tokens ({columns})")
        await self._database.ask(Statement(text, (*row, expires_ms)))
        return token, grant

    async def revoke(self, token_id: str, *, after_ms: int = 0) -> None:
        """Let a token count no longer, from now on or after some time.

        Raises:
            InvalidOptionError: there is no such token.
            StorageError: the database failed.
        """
        rows = await self._database.ask(
            Statement(
                "UPDATE owner_tokens SET revoked_ms = $2 WHERE token_id = $1 RETURNING token_id",
                (token_id, self._clock.now_ms() + after_ms),
            )
        )
        if not rows:
            raise InvalidOptionError(f"there is no token {token_id!r:.100}; list them")

    async def rotate(self, token_id: str, *, after_ms: int) -> tuple[str, Grant]:
        """A new token for the same, beside which the old one counts for some time.

        Raises: as `create` and `revoke`; and InvalidOptionError where the old one does not count.
        """
        found = [grant for grant in await self.list() if grant.token_id == token_id]
        counts = found and found[0].is_valid(self._clock.now_ms())
        if not counts or found[0].revoked_ms is not None:
            raise InvalidOptionError(f"there is no token {token_id!r:.100} that counts; list them")
        old = found[0]
        made = await self.create(old.right, old.prefix, label=old.label, expires_ms=old.expires_ms)
        await self.revoke(token_id, after_ms=after_ms)
        return made


def check_prefix(prefix: str) -> str:
    """What tables a token is for: ``*``, a bucket, or a folder.

    Raises:
        InvalidOptionError: it is none of these.
    """
    if prefix == "*":
        return prefix
    try:
        place = Place.of(prefix)
        if place.authority and not place.path and prefix.isprintable():
            return place.address
        return root_of(prefix)
    except AdeltaError as error:
        raise InvalidOptionError(
            f"{prefix!r:.200} is no prefix of tables: give *, a bucket or a folder: {error}"
        ) from error


def _hash(token: str) -> str:
    """What is kept of a token: it is random, and long, so that salt would add nothing."""
    return hashlib.sha256(token.encode()).hexdigest()
