"""The port to the ledger's database: what is asked of SQLite and of PostgreSQL alike.

The ledger is written once, as programs: generators that yield statements and get their rows. A
database runs a program in one transaction, SQLite's in a thread and PostgreSQL's on the loop, and
neither is known to the program. Values are only ever arguments of a statement, never part of its
text; they are numbered ``$1``, ``$2`` in the order in which they first occur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

__all__ = ["CONNECTIONS", "Database", "Make", "Program", "Rows", "Statement", "open_database"]

T = TypeVar("T")

CONNECTIONS = 16
"""To a PostgreSQL server, of one instance, unless it is told otherwise."""

Rows: TypeAlias = "Sequence[Sequence[Any]]"


class Statement(NamedTuple):
    """One statement of SQL, and the arguments of its ``$1``, ``$2`` and so on."""

    text: str
    arguments: tuple[object, ...] = ()


Program: TypeAlias = "Generator[Statement, Rows, T]"
Make: TypeAlias = "Callable[[], Program[T]]"
"""What makes a program: it is made anew where its transaction has to be."""


class Database(Protocol):
    """A database that the ledger's tables are in."""

    @property
    def joins_writes(self) -> bool:
        """Whether a statement may write to several tables: ``WITH x AS (UPDATE ...) INSERT``."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other instances of the service may work on it."""
        ...

    async def run(self, make: Make[T], *, reads: bool = False) -> T:
        """What a program returns, run in one transaction; nothing is changed where it raises.

        With `reads` it changes nothing, and all of its statements see one moment.

        Raises:
            StorageError: the database refused or failed, and nothing was changed.
            CommitOutcomeUnknownError: it may have been carried out.
        """
        ...

    async def ask(self, statement: Statement) -> Rows:
        """The rows of one statement, which is a transaction by itself. Raises: as `run`."""
        ...

    async def announce(self, text: str) -> None:
        """Tell the other instances, sooner or later, or never. It raises nothing."""
        ...

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Call `hear` with what other instances announce, until this is cancelled."""
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


async def open_database(address: str, connections: int = CONNECTIONS) -> Database:
    """The database at `address`, with the ledger's tables as this version has them.

    ``postgresql://...`` is a PostgreSQL server's, to which there are so many `connections` at most,
    anything else a file of SQLite.

    Raises:
        InvalidOptionError: the address is none, or the database is of a later version of adelta.
        StorageError: it cannot be reached or opened.
    """
    from adelta.owner.schema import migrate

    database: Database
    if address.startswith(("postgresql://", "postgres://")):
        from adelta.owner.postgresql import PostgresDatabase

        database = await PostgresDatabase.open(address, connections)
    else:
        from adelta.owner.sqlite import SqliteDatabase

        database = await SqliteDatabase.open(address)
    try:
        await migrate(database)
    except BaseException:
        await database.aclose()
        raise
    return database
