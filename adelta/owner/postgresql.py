"""The ledger in PostgreSQL, for any number of instances of the service.

A statement that is a transaction by itself takes one round trip, and is prepared once for each
connection. Instances tell each other of commits by NOTIFY, outside of the transactions, which
NOTIFY would put one behind the other; whoever hears nothing looks by itself.
"""

from __future__ import annotations

import importlib.util
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from adelta._chance import fraction
from adelta._concurrency import in_io_thread
from adelta.errors import CommitOutcomeUnknownError, InvalidOptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.owner.database import Make, Rows, Statement

__all__ = ["PostgresDatabase"]

T = TypeVar("T")

_log = logging.getLogger("adelta.owner.postgresql")

_CHANNEL = "adelta_owner"
_ANSWER = 30.0  # seconds, of each statement and of connecting
_ATTEMPTS = 4
_PAUSE = 0.05
_UNSURE = ("08", "57P", "XX")  # connection lost, server shut down or broken: it may have committed
_AGAIN = ("40", "23505")  # deadlock, serialization failure, or who inserted the same row at once


class PostgresDatabase:
    """A pool of connections to the server at an address."""

    joins_writes = True
    is_shared = True

    def __init__(self, pool: Any, asyncpg: Any, connect: Callable[[], Awaitable[Any]]) -> None:
        self._pool = pool
        self._connect = connect
        # The third comes where the server's farewell is read between two statements.
        self._lost = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
        self._refusals = asyncpg.PostgresError

    @classmethod
    async def open(cls, address: str, connections: int) -> PostgresDatabase:
        """Connect to the server, by so many connections at most, and one by which it is heard.

        Raises:
            InvalidOptionError: the address cannot be read, or asyncpg is not installed.
            StorageError: the server cannot be reached, or refuses.
        """
        if importlib.util.find_spec("asyncpg") is None:
            raise InvalidOptionError(
                "a ledger in PostgreSQL needs asyncpg: pip install 'adelta[owner]'"
            )
        asyncpg = await in_io_thread(importlib.import_module, "asyncpg")
        settings: dict[str, Any] = {"timeout": _ANSWER, "command_timeout": _ANSWER}
        settings["server_settings"] = {"application_name": "adelta owner"}
        try:
            pool = await asyncpg.create_pool(
                address,
                min_size=1,
                max_size=connections,
                connection_class=_without_reset(asyncpg),
                **settings,
            )
        except ValueError:  # whose text may hold the password
            pool = None
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise StorageError(f"the PostgreSQL server of the ledger: {reason}") from error
        if pool is None:
            raise InvalidOptionError(
                "the address of the database cannot be read; what is no letter or digit in its "
                "password has to be percent-encoded"
            )
        return cls(pool, asyncpg, partial(asyncpg.connect, address, **settings))

    async def run(self, make: Make[T], *, reads: bool = False) -> T:
        """What a program returns, run in one transaction.

        Raises:
            StorageError: the server refused or cannot be reached, and nothing was changed.
            CommitOutcomeUnknownError: it may have been carried out.
        """
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if reads else "BEGIN"
        return await self._attempts(partial(self._transaction, make, begin), repeats=reads)

    async def ask(self, statement: Statement) -> Rows:
        """The rows of one statement, which is a transaction by itself. Raises: as `run`."""
        reads = statement.text.startswith("SELECT")
        return await self._attempts(partial(self._asked, statement), repeats=reads)

    async def _attempts(self, attempt: Callable[[], Awaitable[T]], *, repeats: bool) -> T:
        """The result of an attempt; of one that did nothing, or where it `repeats`, another."""
        for count in range(1, _ATTEMPTS + 1):
            try:
                return await attempt()
            except _Failed as failed:
                error, unsure, again = failed.cause, failed.unsure, failed.again
            if unsure and not repeats:
                raise CommitOutcomeUnknownError(
                    f"the ledger's PostgreSQL server did not answer: {error!r}"
                ) from error
            if count == _ATTEMPTS or not (again or unsure):
                break
            _log.info("a transaction is tried again: %r", error)
            await anyio.sleep(_PAUSE * 2**count * (1 + fraction()))
        raise StorageError(f"the ledger's PostgreSQL server: {error!r}") from error

    async def _asked(self, statement: Statement) -> Rows:
        connection = await self._acquired()
        try:
            rows: Rows = await connection.fetch(statement.text, *statement.arguments)
        except Exception as error:
            raise self._failed(error, in_doubt=True) from error
        finally:
            await self._pool.release(connection)
        return rows

    async def _transaction(self, make: Make[T], begin: str) -> T:
        connection = await self._acquired()
        committing = False
        try:
            await connection.execute(begin)
            try:
                result = await _driven(make(), connection)
            except BaseException:
                with suppress(Exception):  # a connection that cannot is not used again
                    await connection.execute("ROLLBACK")
                raise
            committing = True
            await connection.execute("COMMIT")
        except (self._refusals, *self._lost) as error:
            raise self._failed(error, in_doubt=committing) from error
        finally:
            if connection.is_in_transaction():
                connection.terminate()
            await self._pool.release(connection)
        return cast("T", result)

    async def _acquired(self) -> Any:
        try:
            return await self._pool.acquire(timeout=_ANSWER)
        except (self._refusals, *self._lost) as error:
            raise _Failed(error, unsure=False, again=True) from error

    def _failed(self, error: Exception, *, in_doubt: bool) -> Exception:
        """What a failure means; with `in_doubt` the server may have committed before it."""
        if isinstance(error, self._refusals):
            state = str(getattr(error, "sqlstate", None) or "XX000")
            unsure = state.startswith(_UNSURE)
            return _Failed(error, unsure and in_doubt, state.startswith(_AGAIN) or unsure)
        if isinstance(error, self._lost):
            return _Failed(error, unsure=in_doubt, again=True)
        return error

    async def announce(self, text: str) -> None:
        """Tell the other instances, if the server can be reached."""
        try:
            async with self._pool.acquire(timeout=_ANSWER) as connection:
                await connection.execute("SELECT pg_notify($1, $2)", _CHANNEL, text)
        except (self._refusals, *self._lost) as error:
            _log.warning("other instances were not told of commits: %r", error)

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Call `hear` with what other instances announce, until this is cancelled."""
        pause = _PAUSE
        while True:
            try:
                connection = await self._connect()
            except (self._refusals, *self._lost) as error:
                _log.warning("the ledger's PostgreSQL server cannot be listened to: %r", error)
                pause = min(2 * pause, 5.0)
                await anyio.sleep(pause)
                continue
            pause = _PAUSE
            ended = anyio.Event()
            try:
                connection.add_termination_listener(lambda _, ended=ended: ended.set())
                await connection.add_listener(_CHANNEL, lambda *heard: hear(heard[3]))
                await ended.wait()
            except (self._refusals, *self._lost) as error:
                _log.warning("the ledger's PostgreSQL server hung up: %r", error)
            finally:
                connection.terminate()

    async def aclose(self) -> None:
        """Close the connections, after what is under way."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_ANSWER):
            await self._pool.close()
            return
        self._pool.terminate()


class _Failed(Exception):
    """A failure: whether the server may have committed, and whether another attempt may help."""

    def __init__(self, cause: Exception, unsure: bool, again: bool) -> None:
        super().__init__(cause)
        self.cause, self.unsure, self.again = cause, unsure, again


async def _driven(program: Any, connection: Any) -> Any:
    try:
        statement: Statement = next(program)
        while True:
            rows = await connection.fetch(statement.text, *statement.arguments)
            statement = program.send(rows)
    except StopIteration as end:
        return end.value


def _without_reset(asyncpg: Any) -> type:
    """Connections that need no clearing up between users: none changes their state."""

    class Connection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
        __slots__ = ()

        def get_reset_query(self) -> str:
            return ""

    return Connection
