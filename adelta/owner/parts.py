"""The parts of one instance of the service, made of its settings."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.owner.access import Tokens
from adelta.owner.announcements import Announcements
from adelta.owner.backfiller import Backfiller
from adelta.owner.catalog_names import CatalogNames
from adelta.owner.commits import Commits
from adelta.owner.database import CONNECTIONS, Database, open_database
from adelta.owner.ledger import Ledger, LedgerLimits
from adelta.owner.limits import ServiceLimits
from adelta.owner.metrics import Metrics
from adelta.owner.ownership import Ownership
from adelta.owner.table_logs import TableLogs
from adelta.owner.turns import Turns
from adelta.serving.connections import Guards
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adelta.storage.object_store import ObjectStore

__all__ = ["Parts", "Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a service is run.

    Attributes:
        database: a file of SQLite, or the address of a PostgreSQL server.
        host: the address of this machine on which it listens.
        port: 0 for any that is free.
        certificate: a file with its certificate, and those that vouch for it, in PEM.
        key: a file with the certificate's key, where that is in another file.
        storage_options: what the tables' stores are opened with.
        roots: where tables may lie; anywhere where there are none.
        managed_root: where tables of the catalog are given their places; nowhere where empty.
        without_tls: whether it may listen to other machines without a certificate.
        service: what one client may take.
        ledger: how much may wait.
        sweep_seconds: between two looks for what is to be backfilled.
        connections: to the PostgreSQL server, at most, beside the one by which it is heard.
    """

    database: str = field(repr=False)  # with a password, perhaps
    host: str = "127.0.0.1"
    port: int = 8787
    certificate: str | None = None
    key: str | None = None
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    roots: tuple[str, ...] = ()
    managed_root: str = ""
    without_tls: bool = False
    service: ServiceLimits = field(default_factory=ServiceLimits)
    ledger: LedgerLimits = field(default_factory=LedgerLimits)
    sweep_seconds: float = 5.0
    connections: int = CONNECTIONS


class Parts:
    """What the service consists of, over a `database` and the stores that `opens` gives."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        opens: Callable[[str, Mapping[str, str]], ObjectStore] = open_store,
    ) -> None:
        self.settings = settings
        self.limits = settings.service
        self.database = database
        self.metrics = Metrics()
        self.ledger = Ledger(database, settings.ledger)
        self.names = CatalogNames(database)
        self.tokens = Tokens(database)
        self.logs = TableLogs(settings.storage_options, settings.roots, opens=opens)
        self.backfiller = Backfiller(self.ledger, self.logs, self.metrics)
        self.ownership = Ownership(self.ledger, self.logs, self.backfiller)
        self.announcements = Announcements(self.ledger)
        self.turns = Turns()
        self.commits = Commits(
            self.ledger,
            self.ownership,
            self.logs,
            self.backfiller,
            self.announcements,
            self.turns,
            self.metrics,
            self.limits.inline_bytes,
        )
        self.guards = Guards(self.limits, self.metrics)
        self.is_stopping = False

    @classmethod
    async def open(cls, settings: Settings) -> Parts:
        """Open the database, and make the parts. Raises: InvalidOptionError, StorageError."""
        database = await open_database(settings.database, settings.connections)
        try:
            return cls(settings, database)
        except BaseException:
            await database.aclose()
            raise

    def stop(self) -> None:
        """Let go whoever waits for something that may be long in coming."""
        self.is_stopping = True
        self.announcements.stop()
        self.turns.stop()

    async def aclose(self) -> None:
        """Give back what was opened."""
        await self.logs.aclose()
        await self.database.aclose()
