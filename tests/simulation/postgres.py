"""A PostgreSQL server, as the commit lock uses one: sessions, and an advisory lock of one of them.

Whoever asks for the lock waits in a queue, for as long as the session's `lock_timeout` says. Where
a statement breaks its connection the client knows that at once, and the server soon: it ends the
session, and gives the lock to the next one. Of a client that dies it knows when its keepalive has
had no answer. The server itself may fail: then all sessions are gone, and for a while there is
nobody to connect to.

What a client had sent to the store when it lost its lock has arrived by then: a put that comes
later than that is what no lock outside of the store can prevent.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg

from adelta.commit.postgresql import PostgresCoordinator
from adelta.errors import AdeltaError
from tests.simulation.store import Request
from tests.simulation.world import here

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.storage.object_store import ObjectStore
    from tests.simulation.store import Network
    from tests.simulation.world import Process, World

__all__ = ["LockServer", "SimulatedLock"]

_ADDRESS = "postgresql://simulated/locks"
_PATH = ".postgres"
_KEEPALIVE = 10.0  # seconds until a session ends whose client is dead: less than in the world
_BROKEN = 0.5  # whose connection is broken
_TAKES = re.compile(r"SET LOCAL lock_timeout = (\d+);.*pg_advisory_xact_lock\((-?\d+)\)")


class LockServer:
    """The server: who holds the lock, who waits for it, and whether it is up."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.holder: _Session | None = None
        self.waiting: deque[_Session] = deque()
        self.sessions: list[_Session] = []
        self.back_at = 0.0
        self.keys: set[int] = set()

    def fail_over(self) -> None:
        """End all sessions, and be back when what their clients have sent has arrived."""
        self.back_at = self.world.loop.time() + _KEEPALIVE
        self.world.note("the server of locks fails over")
        for session in list(self.sessions):
            session.end()

    def connect(self, network: Network, client: Process | None) -> _Session:
        """A new session of a client. Raises: ConnectionRefusedError."""
        if self.world.loop.time() < self.back_at:
            raise ConnectionRefusedError("nobody listens there")
        session = _Session(self, network, client)
        self.sessions.append(session)
        return session

    def grant(self) -> None:
        """Give the lock to who has waited for it longest, where it is free."""
        if self.holder is None and self.waiting:
            self.holder = self.waiting.popleft()
            self.holder.told(None)


class _Session:
    """A session, and its client's connection, which has asyncpg's names."""

    def __init__(self, server: LockServer, network: Network, client: Process | None) -> None:
        self._server = server
        self._network = network
        self._lock: asyncio.Future[None] | None = None
        self._ended = False
        self._broken = False
        if client is not None:
            client.crashed.add_done_callback(
                lambda _: self._leave(_KEEPALIVE), context=server.world.context
            )

    async def execute(self, statements: str, *, timeout: float = 30.0) -> None:
        """Run statements. Raises: what asyncpg raises."""
        takes = _TAKES.search(statements)
        if takes is not None:
            await self._ask(partial(self._begin, int(takes[2])))
            await self._wait(int(takes[1]) / 1000)
        elif statements == "COMMIT":
            await self._ask(self._commit)
        else:
            await self._ask(self._check)

    async def close(self, *, timeout: float = 30.0) -> None:
        """Part from the server."""
        self._broken = True
        self._server.world.loop.call_soon(self.end, context=self._server.world.context)

    def terminate(self) -> None:
        """Leave without a word."""
        self._leave()

    # --------------------------------------------------------------------------------- the client

    async def _ask(self, effect: Callable[[], None]) -> None:
        if self._broken:
            raise asyncpg.InterfaceError("the connection is closed")
        await asked(self._network, effect, self._leave)

    async def _wait(self, seconds: float) -> None:
        """Wait for the lock."""
        assert self._lock is not None
        done, _ = await asyncio.wait((self._lock,), timeout=seconds)
        if not done:
            self._give_back()
            raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
        self._lock.result()
        await self._ask(self._check)

    def _leave(self, seconds: float = _BROKEN) -> None:
        """The client is gone, which the server notices after so many seconds."""
        if not self._broken:
            self._broken = True
            world = self._server.world
            world.loop.call_later(seconds, self.end, context=world.context)

    # --------------------------------------------------------------------------------- the server

    def _check(self) -> None:
        if self._ended:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle")

    def _begin(self, key: int) -> None:
        self._check()
        self._server.keys.add(key)
        assert len(self._server.keys) == 1, "one table has one lock"
        if self._lock is None:
            self._lock = self._server.world.loop.create_future()
            self._server.waiting.append(self)
            self._server.grant()

    def _commit(self) -> None:
        self._check()
        self._give_back()

    def _give_back(self) -> None:
        if self._server.holder is self:
            self._server.holder = None
        elif self in self._server.waiting:
            self._server.waiting.remove(self)
        self._server.grant()

    def end(self) -> None:
        """End the session, and what it holds."""
        if self._ended:
            return
        self._ended = True
        self._server.sessions.remove(self)
        self._give_back()
        self.told(asyncpg.ConnectionDoesNotExistError("terminating connection"))

    def told(self, error: Exception | None) -> None:
        """Let the client know whether it has the lock."""
        if self._lock is None or self._lock.done():
            return
        if error is None:
            self._lock.set_result(None)
        else:
            self._lock.set_exception(error)
            self._lock.exception()  # the client may be gone


async def asked(network: Network, effect: Callable[[], Any], broken: Callable[[], None]) -> Any:
    """The answer of the server, over a connection that may break. Raises: what asyncpg raises."""

    def carried_out() -> tuple[Any, Exception | None]:
        try:
            return effect(), None
        except (asyncpg.PostgresError, OSError) as error:
            return None, error

    try:
        result, error = await network.carry(Request("query", _PATH), carried_out)
    except AdeltaError as failed:
        broken()
        raise ConnectionResetError("connection reset by peer") from failed
    if error is not None:
        raise error
    return result


class SimulatedLock(PostgresCoordinator):
    """The coordinator, which connects to a simulated server."""

    def __init__(self, store: ObjectStore, server: LockServer, network: Network) -> None:
        super().__init__(store, _ADDRESS)
        self._server = server
        self._network = network

    async def _connect(self) -> Any:
        connect = partial(self._server.connect, self._network, here())
        return await asked(self._network, connect, lambda: None)
