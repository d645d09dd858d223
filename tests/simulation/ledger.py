"""The database of a simulated commit owner: SQL by an SQLite in memory, over a network.

All instances of the owner share it. A program is one transaction and happens at one moment, as
serializable ones do; its answer may be lost before that and after, and it may be carried out when
nobody waits any more.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from adelta.errors import StorageError
from adelta.owner.schema import migrate
from adelta.owner.sqlite import _in_sqlite
from tests.simulation.store import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.owner.database import Make, Program, Rows, Statement
    from tests.simulation.store import Network
    from tests.simulation.world import Process, World

__all__ = ["LedgerBase", "SimulatedDatabase"]

T = TypeVar("T")

_PATH = ".ledger"
_DELAY = 0.01  # seconds that an announcement takes, at most


class LedgerBase:
    """What is in the database, and who listens to announcements.

    In one that is `torn` each statement is a transaction of its own.
    """

    def __init__(self, world: World, *, torn: bool = False) -> None:
        self.world = world
        self.torn = torn
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.listening: list[tuple[Process, Callable[[str], None]]] = []


@dataclass(frozen=True)
class _Outcome:
    """What a program returned, or raised."""

    value: Any = None
    error: Exception | None = None

    def told(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class SimulatedDatabase:
    """The way to the database of one instance, which runs in `process`; None is the world's own."""

    joins_writes = False

    def __init__(self, base: LedgerBase, network: Network, process: Process | None) -> None:
        self.base = base
        self.network = network
        self.process = process
        self.is_shared = False

    async def prepare(self) -> SimulatedDatabase:
        """Make the ledger's tables where they are not there; from now on it is a shared one."""
        await migrate(self)
        self.is_shared = True
        return self

    async def run(self, make: Make[T], *, reads: bool = False) -> T:
        """What a program returns, run in one transaction."""
        if self.base.torn and self.process is not None:
            return await self._run_torn(make())
        request = Request("get" if reads else "create", _PATH)
        outcome = await self.network.carry(request, lambda: self._carried_out(make))
        result: T = outcome.told()
        return result

    async def ask(self, statement: Statement) -> Rows:
        """The rows of one statement."""
        return await self.run(partial(_one, statement))

    async def announce(self, text: str) -> None:
        """Tell those who listen, most of them."""
        world = self.base.world
        for process, hear in self.base.listening:
            if process is self.process or world.random.random() < 0.1:
                continue

            def tell(process: Process = process, hear: Callable[[str], None] = hear) -> None:
                if process.alive:
                    hear(text)

            world.loop.call_later(world.random.uniform(0, _DELAY), tell, context=world.context)

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Hear what others announce."""
        assert self.process is not None
        self.base.listening.append((self.process, hear))
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        """There are no connections."""

    # -------------------------------------------------------------------------------- at one moment

    def _carried_out(self, make: Make[T]) -> _Outcome:
        execute = self.base.connection.execute
        execute("BEGIN")
        program = make()
        try:
            statement = next(program)
            while True:
                statement = program.send(self._rows(statement))
        except StopIteration as end:
            execute("COMMIT")
            return _Outcome(end.value)
        except Exception as error:
            execute("ROLLBACK")
            return _Outcome(error=error)

    def _rows(self, statement: Statement) -> Rows:
        try:
            found = self.base.connection.execute(_in_sqlite(statement.text), statement.arguments)
            return found.fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"the ledger: {error}; nothing was changed") from error

    async def _run_torn(self, program: Program[T]) -> T:
        try:
            statement = next(program)
            while True:
                rows = await self.network.carry(
                    Request("create", _PATH), partial(self._rows_alone, statement)
                )
                statement = program.send(rows.told())
        except StopIteration as end:
            result: T = end.value
            return result

    def _rows_alone(self, statement: Statement) -> _Outcome:
        try:
            return _Outcome(self._rows(statement))
        except StorageError as error:
            return _Outcome(error=error)


def _one(statement: Statement) -> Program[Rows]:
    return (yield statement)
