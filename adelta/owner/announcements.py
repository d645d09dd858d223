"""Announcements: who waits for a table's next commit learns of it, whichever instance ratified it.

Instances tell each other of versions in batches, outside of any transaction. What is not heard,
since an instance died or a connection broke, is found in the ledger a moment later.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

import anyio

from adelta.errors import AdeltaError

if TYPE_CHECKING:
    from adelta.owner.ledger import Ledger
    from adelta.owner.table_key import TableKey

__all__ = ["Announcements"]

_log = logging.getLogger("adelta.owner.announcements")

_LOOK = 1.0  # seconds between two looks into the ledger for what was not heard
_GATHER = 0.002  # seconds for which announcements are gathered
_LONGEST = 200  # in one message, of 8000 bytes at most


class _Awaited:
    """A table that somebody waits for."""

    __slots__ = ("changed", "latest", "table", "waiting")

    def __init__(self, table: TableKey) -> None:
        self.table = table
        self.latest = -1
        self.waiting = 0
        self.changed = anyio.Event()

    def learn(self, version: int) -> None:
        if version > self.latest:
            self.latest = version
            self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class Announcements:
    """Tells those who wait of versions, as long as `run` runs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._awaited: dict[str, _Awaited] = {}
        self._to_tell: dict[str, int] = {}
        self._has_mail = anyio.Event()
        self._stopped = False

    async def wait(self, table: TableKey, after: int, timeout: float) -> int | None:
        """The latest version once it is later than `after`; None after `timeout` seconds.

        Raises:
            TableNotFoundError: the table is not owned.
            UnsettledError: it may be; the log says so.
            StorageError: the ledger cannot be read.
        """
        name = _name(table)
        awaited = self._awaited.setdefault(name, _Awaited(table))
        awaited.waiting += 1
        try:
            told = await self._ledger.get_commits(table, 1, 0)  # the latest version alone
            awaited.learn(told.latest_version)
            with anyio.move_on_after(timeout):
                while awaited.latest <= after and not self._stopped:
                    await awaited.changed.wait()
        finally:
            awaited.waiting -= 1
            if not awaited.waiting:
                del self._awaited[name]
        return awaited.latest if awaited.latest > after else None

    def ratified(self, table: TableKey, version: int) -> None:
        """Tell of a version that this instance has ratified."""
        shared = self._ledger.database.is_shared
        if not shared and not self._awaited:
            return
        name = _name(table)
        self._learn(name, version)
        if shared:
            self._to_tell[name] = version
            self._has_mail.set()

    def _learn(self, name: str, version: int) -> None:
        if awaited := self._awaited.get(name):
            awaited.learn(version)

    def _hear(self, text: str) -> None:
        for each in text.split(","):
            name, _, version = each.partition(":")
            if version.isdecimal():
                self._learn(name, int(version))

    async def run(self) -> None:
        """Tell other instances, and listen to them, until this is cancelled."""
        if not self._ledger.database.is_shared:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._ledger.database.listen, self._hear)
            group.start_soon(self._look)
            while True:
                await self._has_mail.wait()
                await anyio.sleep(_GATHER)
                self._has_mail = anyio.Event()
                mail, self._to_tell = [*self._to_tell.items()], {}
                for start in range(0, len(mail), _LONGEST):
                    some = mail[start : start + _LONGEST]
                    text = ",".join(f"{name}:{version}" for name, version in some)
                    await self._ledger.database.announce(text)

    async def _look(self) -> None:
        """Look for versions that nobody told of."""
        while True:
            await anyio.sleep(_LOOK)
            tables = [awaited.table for awaited in self._awaited.values()]
            try:
                found = await self._ledger.latest_of(tables) if tables else {}
            except AdeltaError as error:
                _log.warning("the latest versions cannot be read: %s", error)
                continue
            for table, version in found.items():
                self._learn(_name(table), version)

    def stop(self) -> None:
        """Let all who wait go."""
        self._stopped = True
        for awaited in self._awaited.values():
            awaited.wake()


def _name(table: TableKey) -> str:
    """A short name of a table, the same in all instances."""
    text = f"{table.uri}\n{table.table_id}".encode()
    return hashlib.blake2b(text, digest_size=12).hexdigest()
