"""Commits under a lock in PostgreSQL, for stores that cannot exclude writers themselves.

A commit is a look whether the version is free, and a put where it is, both while an advisory lock
of the server is held. The lock belongs to a transaction, whose end is the proof that it was held
all along. Its key is the table's: every writer who takes the same lock keeps off, whatever program
it is (`lock_key` says how the key is made).

A lock whose connection breaks is lost, perhaps in the middle of a put. Where that is found out
before the put, the commit begins anew. Where it is found out afterwards, the lock is taken again,
and the file that is there then says whose version it is. One thing no lock outside the store can
prevent: a put that is under way when its lock is lost, and takes effect only after the next holder
has looked and put, replaces the commit of that one. Stores with conditional puts have no such hole.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from adelta._chance import fraction
from adelta._concurrency import in_io_thread
from adelta._dataclasses import dataclass
from adelta.commit.check_then_put import check_then_put
from adelta.commit.coordinator import CommitOutcome, Lost, Unknown, WithoutBase
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.errors import (
    InvalidOptionError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)

if TYPE_CHECKING:
    from adelta.commit.coordinator import HasBase
    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = ["PostgresCoordinator", "lock_key"]

_SCHEMES = ("postgresql://", "postgres://")
_LONGEST_WAIT = 60.0
_ATTEMPTS = 4
_PAUSE = 0.1
_ANSWER = 30.0  # for every statement but the one that waits for the lock
# Without a cache of statements PgBouncer may stand in between, whatever its mode.
_CONNECTION = {"timeout": _ANSWER, "command_timeout": _ANSWER, "statement_cache_size": 0}
_KEEPALIVE = {"idle": 15, "interval": 5, "count": 3}  # so that a machine that is gone lets go


def lock_key(uri: str) -> int:
    """The key of the advisory lock of the table at `uri`: the same for every writer.

    It is the first eight bytes of the SHA-256 of the address, as a signed integer with its highest
    byte first. The address has no slash at its end, and ``s3a`` is written ``s3``.

    >>> lock_key("s3a://bucket/table/") == lock_key("s3://bucket/table")
    True
    """
    scheme, separator, rest = uri.partition("://")
    if separator and scheme == "s3a":
        uri = f"s3://{rest}"
    digest = hashlib.sha256(uri.rstrip("/").encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class PostgresCoordinator:
    """Claims versions of the table in `store` under a lock in the server at `address`.

    `conditional_put` says that the store has conditional puts all the same, which are used then.
    A commit waits `wait` seconds for the lock at most. Every commit has its own connection: tables
    that are not written to hold none.
    """

    def __init__(
        self,
        store: ObjectStore,
        address: str,
        *,
        conditional_put: bool = False,
        wait: float = _LONGEST_WAIT,
    ) -> None:
        """Raises: InvalidOptionError: the address is none, or asyncpg is not installed."""
        if not address.startswith(_SCHEMES):
            raise InvalidOptionError(
                "storage option adelta_commit_lock is the address of a PostgreSQL server, such as "
                "postgresql://user:password@host:5432/database"
            )
        if importlib.util.find_spec("asyncpg") is None:
            raise InvalidOptionError(
                "a commit lock in PostgreSQL needs asyncpg: pip install 'adelta[postgres]'"
            )
        self._store = store
        self._address = address
        self._conditional_put = conditional_put
        self._wait = wait
        self._key = lock_key(store.uri)

    def __repr__(self) -> str:
        return f"PostgresCoordinator({self._store.uri!r})"

    async def commit(
        self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
    ) -> CommitOutcome:
        """Try to make `data` the commit of `version`.

        Raises:
            ThrottledError: others held the lock for too long; nothing was written.
            StorageError: store or server refused; certainly nothing was written.
        """
        attempts = 0
        while True:
            attempts += 1
            lock = await self._take()
            try:
                claims = self._claims(lock)
                outcome = await claims.commit(version, data, transaction_id, has_base)
            except StorageError:
                if await lock.release() or attempts == _ATTEMPTS:
                    raise
                continue  # the lock was lost before anything was written
            except BaseException:
                lock.drop()
                raise
            held = await lock.release()
            if held or self._conditional_put or isinstance(outcome, Lost | WithoutBase):
                return outcome
            return await self._look_again(version, transaction_id)

    def _claims(self, lock: _Lock) -> FilesystemCoordinator:
        """The way a version is claimed as long as `lock` is held."""
        if self._conditional_put:
            return FilesystemCoordinator(self._store)

        async def create(path: str, data: bytes) -> ObjectMeta:
            return await check_then_put(self._store, path, data, alone=lock.check)

        return FilesystemCoordinator(self._store, create)

    async def _look_again(self, version: int, transaction_id: str) -> CommitOutcome:
        """Whose the version is, after the lock was lost when it may have been put."""
        try:
            lock = await self._take()
        except StorageError as error:
            return Unknown(version, error)
        found = await FilesystemCoordinator(self._store).whose(version, transaction_id)
        if not await lock.release() or found is None:
            return Unknown(version, StorageError("the commit lock was lost during the commit"))
        return found

    async def _take(self) -> _Lock:
        """The lock, held by a new connection.

        Raises:
            ThrottledError: others held it for too long.
            StorageError: the server cannot be reached, or refused.
        """
        asyncpg = await in_io_thread(importlib.import_module, "asyncpg")
        attempts, readable = 0, True
        while True:
            attempts += 1
            try:
                lock = _Lock(await self._connect(), asyncpg)
                await lock.take(self._key, self._wait)
            except asyncpg.LockNotAvailableError as error:
                raise ThrottledError(
                    f"{self._store.uri}: other writers have held the commit lock for "
                    f"{self._wait:g} s; nothing was committed, try again when there are fewer of "
                    "them"
                ) from error
            except asyncpg.InvalidAuthorizationSpecificationError as error:
                raise PermissionDeniedError(f"{self._refused}: {error}") from error
            except ValueError:  # asyncpg's own or that of urllib, whose texts may hold the password
                readable = False
            except _failures(asyncpg) as error:
                if attempts == _ATTEMPTS:
                    reason = str(error) or type(error).__name__
                    raise StorageError(f"{self._refused}: {reason}") from error
                await anyio.sleep(_PAUSE * 2**attempts * (1 + fraction()))
            else:
                return lock
            if not readable:  # raised here, so that no other error is its context
                raise InvalidOptionError(
                    "storage option adelta_commit_lock cannot be read as an address; what is no "
                    "letter or digit in its password has to be percent-encoded"
                )

    async def _connect(self) -> Any:
        """A new connection. Raises: what asyncpg raises."""
        asyncpg = importlib.import_module("asyncpg")  # it is there by now
        return await asyncpg.connect(self._address, **_CONNECTION)

    @property
    def _refused(self) -> str:
        return f"{self._store.uri}: the PostgreSQL server of the commit lock cannot be used"

    async def recover(self) -> int | None:
        """Nothing is ever half-done: the file is the commit."""
        return None

    async def aclose(self) -> None:
        """There is nothing to give back between commits."""


@dataclass(frozen=True, slots=True)
class _Lock:
    """A connection whose transaction holds the lock."""

    connection: Any
    asyncpg: Any

    async def take(self, key: int, wait: float) -> None:
        """Wait for the lock; a connection that does not get it is closed."""
        keepalive = [f"SET LOCAL tcp_keepalives_{name} = {n}" for name, n in _KEEPALIVE.items()]
        statements = [
            "BEGIN",
            f"SET LOCAL lock_timeout = {max(1, round(wait * 1000))}",
            *keepalive,
            f"SELECT pg_advisory_xact_lock({key})",
        ]
        try:  # all in one round trip
            await self.connection.execute("; ".join(statements), timeout=wait + _ANSWER)
        except BaseException:
            self.drop()
            raise

    async def check(self) -> None:
        """Ask the server whether the transaction goes on.

        Raises:
            StorageError: it does not, so the lock is lost.
        """
        if not await self._answers("SELECT 1"):
            raise StorageError("the commit lock was lost before anything was written")

    async def release(self) -> bool:
        """Give the lock back; whether it was held until now."""
        if await self._answers("COMMIT"):
            with suppress(*_failures(self.asyncpg)):
                await self.connection.close(timeout=_ANSWER)
            return True
        self.drop()
        return False

    async def _answers(self, statement: str) -> bool:
        try:
            await self.connection.execute(statement)
        except _failures(self.asyncpg):
            return False
        return True

    def drop(self) -> None:
        """Close the connection: the server gives the lock to the next one."""
        self.connection.terminate()


def _failures(asyncpg: Any) -> tuple[type[Exception], ...]:
    """What asyncpg raises where the server refuses or the connection breaks."""
    # The last of its own comes where the server's farewell is read between two statements.
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
