"""The ledger in a file of SQLite: the default, for one instance of the service.

All that waits when the file is free is carried out in one transaction, each program under a
savepoint of its own: so many commits at once cost one wait for the disk. A commit that has been
acknowledged survives a loss of power (`synchronous=FULL`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import deque
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from adelta._clock import monotonic
from adelta._concurrency import in_io_thread, to_the_end
from adelta.errors import CommitOutcomeUnknownError, InvalidOptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.owner.database import Make, Program, Rows, Statement

__all__ = ["SqliteDatabase"]

T = TypeVar("T")

_BUSY_SECONDS = 30.0
_BUSY_PAUSE = 0.01  # seconds
_ARGUMENT = re.compile(r"\$(\d+)")


@cache
def _in_sqlite(text: str) -> str:
    """The statement as SQLite spells it."""
    return _ARGUMENT.sub(r"?\1", text.replace(" FOR UPDATE", ""))


class _Job:
    """A program that waits to be run, and what became of it."""

    __slots__ = ("error", "is_over", "make", "result")

    def __init__(self, make: Make[Any]) -> None:
        self.make = make
        self.is_over = False
        self.result: Any = None
        self.error: Exception | None = None


class SqliteDatabase:
    """The file `path`, over one connection."""

    joins_writes = False
    is_shared = False

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._turn = anyio.Lock()
        self._waiting: deque[_Job] = deque()

    def __repr__(self) -> str:
        return f"SqliteDatabase({self._path!r})"

    @classmethod
    async def open(cls, path: str) -> SqliteDatabase:
        """Open or create the file, which its owner alone may read.

        Raises:
            InvalidOptionError: it is no database, or cannot be opened.
        """
        return cls(path, await in_io_thread(_connect, path))

    async def run(self, make: Make[T], *, reads: bool = False) -> T:
        """What a program returns, run in one transaction.

        Raises:
            StorageError: SQLite refused or failed, and nothing was changed.
            CommitOutcomeUnknownError: it may have been carried out.
        """
        job = _Job(make)
        self._waiting.append(job)
        try:
            async with self._turn:  # whoever has it carries out what all others wait for
                if not job.is_over:
                    jobs, self._waiting = self._waiting, deque()
                    # Cancelled before it begins, it would never run, and they are others' too.
                    await to_the_end(in_io_thread(self._carry_out, jobs))
        except BaseException:
            if job in self._waiting:
                self._waiting.remove(job)
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    async def ask(self, statement: Statement) -> Rows:
        """The rows of one statement. Raises: as `run`."""
        return await self.run(partial(_one, statement))

    async def announce(self, text: str) -> None:
        """Nobody else is there."""

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Nobody else is there."""
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        """Close the file, when what is under way has ended."""
        async with self._turn:
            await in_io_thread(self._connection.close)

    # ------------------------------------------------------------------------------- in a thread

    def _carry_out(self, jobs: deque[_Job]) -> None:
        """Run the programs of all jobs in one transaction, and in others what that one leaves.

        Where SQLite gives up a transaction by itself, as it does when the disk is full, the jobs
        that were to come are left.
        """
        connection = self._connection
        while jobs:
            begun: list[_Job] = []
            try:
                connection.execute("BEGIN IMMEDIATE")
                run = self._run_alone if len(jobs) == 1 else self._run_among_others
                while jobs and connection.in_transaction:
                    begun.append(jobs.popleft())
                    run(begun[-1])
                failed: Exception | None = begun[-1].error
                if connection.in_transaction:
                    failed = self._commit()
            except sqlite3.Error as error:  # the file is locked, or cannot be read
                failed = self._failed(error)
                begun += jobs
                jobs.clear()
            for job in begun:
                job.error, job.is_over = job.error or failed, True

    def _run_alone(self, job: _Job) -> None:
        """Run the one program of a transaction, which is rolled back with it."""
        try:
            job.result = self._driven(job.make())
        except Exception as error:
            self._connection.rollback()
            job.error = self._failed(error)

    def _run_among_others(self, job: _Job) -> None:
        """Run one program of a transaction, which goes on without it."""
        execute = self._connection.execute
        try:
            execute("SAVEPOINT job")
            job.result = self._driven(job.make())
            execute("RELEASE job")
        except Exception as error:
            job.error = self._failed(error)
            try:
                execute("ROLLBACK TO job")
                execute("RELEASE job")
            except sqlite3.Error as broken:  # there is no transaction any more, or shall be none
                self._connection.rollback()
                if not isinstance(error, sqlite3.Error):
                    job.error = self._failed(broken)

    def _commit(self) -> CommitOutcomeUnknownError | None:
        """Commit the transaction; what is to be said of its jobs where that fails."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._connection.rollback()
            unknown = CommitOutcomeUnknownError(f"{self._path} may not have kept it: {error}")
            unknown.__cause__ = error
            return unknown
        return None

    def _failed(self, error: Exception) -> Exception:
        """The error that a job, of which nothing was changed, ends with."""
        if not isinstance(error, sqlite3.Error):
            return error
        failed = StorageError(f"{self._path}: {error}; nothing was changed")
        failed.__cause__ = error
        return failed

    def _driven(self, program: Program[T]) -> T:
        try:
            statement = next(program)
            while True:
                text, arguments = statement
                statement = program.send(
                    self._connection.execute(_in_sqlite(text), arguments).fetchall()
                )
        except StopIteration as end:
            result: T = end.value
            return result


def _one(statement: Statement) -> Program[Rows]:
    return (yield statement)


def _connect(path: str) -> sqlite3.Connection:
    """A connection to the file. Raises: InvalidOptionError."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # it holds hashes of tokens
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        _keep_a_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except (OSError, sqlite3.Error) as error:
        raise InvalidOptionError(
            f"the database {path!r} cannot be opened: {error}; give the path of a file of SQLite, "
            "or the address of a PostgreSQL server: postgresql://user@host/database"
        ) from error
    return connection


def _keep_a_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Have the file kept with a write-ahead log, once nobody else who opens it is in the way.

    The change of the mode does not wait by itself: SQLite refuses at once what could be a deadlock
    of two who read the file and would both write it.
    """
    deadline = monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or monotonic() > deadline:
                raise
        time.sleep(_BUSY_PAUSE)
