"""Positions of consumers as `txn` of the table that they write to: rows and position in one commit.

Of a consumer there are two applications. The version of the one is where the consumer stands, in
the source's log; that of the other counts the commits, and says how many rows of the next file
have been read. An application's version never goes back, so a consumer that is sent back goes on
under the next epoch, which is part of their names, as the source's id and the share of its rows
are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from adelta._dataclasses import dataclass
from adelta.consumers.positions import (
    PositionStore,
    StoredPosition,
    check_consumer_name,
    taken_over,
)
from adelta.errors import ConcurrentTransactionError, InvalidOptionError, InvalidUseError
from adelta.kernel.position import Position
from adelta.table import begin, latest_state
from adelta.transaction import Transaction
from adelta.write.commit_timeout import COMMIT_TIMEOUT
from adelta.write.transaction_request import asked_of_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.table import Table
    from adelta.write.spec import DataFileOptions
    from adelta.write.transaction_core import TransactionCore

__all__ = ["TablePositions"]

_PREFIX = "adelta-consumer"
_ROWS = "rows"
_INDEX_BITS, _ROW_BITS = 26, 32


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a table has of a consumer. `stands` and `counts` are the applications' versions."""

    epoch: int
    table_id: str
    share: str | None
    stands: int
    counts: int

    @property
    def read(self) -> str:
        """Of which table, and which share of it, this is: as it is part of applications' names."""
        text = quote(self.table_id, safe="")
        return text if self.share is None else f"{text}/{quote(self.share, safe='')}"

    @property
    def stored(self) -> StoredPosition:
        """The position that the two versions say."""
        version, index = divmod(self.stands >> 1, 1 << _INDEX_BITS)
        revision, row = divmod(self.counts, 1 << _ROW_BITS)
        found = Position(version, index, row, bool(self.stands & 1), self.table_id, self.share)
        return StoredPosition(found, revision)

    @classmethod
    def of(cls, stored: StoredPosition, before: _Recorded | None) -> _Recorded:
        """What `stored` is recorded as, after what was `before`.

        Raises:
            InvalidOptionError: it is too far in for the versions of applications.
        """
        position = stored.position
        stands = (position.version << _INDEX_BITS | position.index) << 1 | position.in_snapshot
        counts = stored.revision << _ROW_BITS | position.row
        if (
            position.index >> _INDEX_BITS
            or position.row >> _ROW_BITS
            or stands >> 63
            or counts >> 63
        ):
            raise InvalidOptionError(
                f"the position {position} is too far in to be recorded in a table; keep positions "
                "in a folder or in PostgreSQL"
            )
        if position.table_id is None:
            raise InvalidOptionError(
                f"the position {position} does not say of which table it is, and a table keeps "
                "positions by that"
            )
        epoch = 0 if before is None else before.epoch
        now = cls(epoch, position.table_id, position.share, stands, counts)
        if before is not None and (now.read != before.read or stands < before.stands):
            return replace(now, epoch=before.epoch + 1)
        return now

    def applications(self, name: str, before: _Recorded | None) -> Iterator[tuple[str, int]]:
        """The applications that have to be set, after what was `before`, and their versions."""
        names = _names(name, self.epoch, self.read)
        known = before is not None and before.epoch == self.epoch
        if before is None or not known or self.stands > before.stands:
            yield names[0], self.stands
        yield names[1], self.counts


def _names(name: str, epoch: int, read: str) -> tuple[str, str]:
    one = f"{_PREFIX}:{name}:{epoch}:{read}"
    return one, f"{one}:{_ROWS}"


def _recorded(name: str, known: Mapping[str, SetTransaction]) -> _Recorded | None:
    """What the applications of a table say of the consumer `name`; None where they say nothing."""
    found: list[_Recorded] = []
    for app_id, txn in known.items():
        parts = app_id.split(":")
        if parts[:2] != [_PREFIX, name] or len(parts) != 4 or not parts[2].isdigit():
            continue
        counts = known.get(f"{app_id}:{_ROWS}")
        if counts is not None:
            table_id, _, share = (unquote(part) for part in parts[3].partition("/"))
            versions = txn.version, counts.version
            found.append(_Recorded(int(parts[2]), table_id, share or None, *versions))
    return max(found, key=lambda each: each.epoch, default=None)


class TablePositions(PositionStore):
    """Positions in the table that a consumer writes to."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._known: dict[str, _Recorded | None] = {}
        self._tried: dict[str, _Recorded] = {}

    def __repr__(self) -> str:
        return f"TablePositions({self.table.uri!r})"

    async def load(self, name: str) -> StoredPosition | None:
        """What was committed last; None where nothing was.

        Raises:
            TableNotFoundError: there is no table.
            InvalidOptionError: the table forgets applications after a while.
        """
        state = await latest_state(self.table)
        if state.configuration.properties.set_transaction_retention_ms is not None:
            raise InvalidOptionError(
                f"{self.table.uri} forgets applications after a while "
                "(delta.setTransactionRetentionDuration), and with them how far the consumer has "
                "got; unset that property, or keep positions elsewhere"
            )
        found = _recorded(check_consumer_name(name), await state.set_transactions())
        self._known[name] = found
        return None if found is None else found.stored

    async def save(self, name: str, stored: StoredPosition) -> None:
        """Commit `stored` alone, without rows.

        Raises:
            ConsumerTakenOverError: another process has committed since.
            CommitConflictError: another commit changed what the table is.
            StorageError: the store refused or failed.
        """
        async with self.transaction(name, stored):
            pass

    def transaction(
        self,
        name: str,
        stored: StoredPosition,
        done: Callable[[], None] | None = None,
        *,
        operation: str = "STREAMING UPDATE",
        parameters: Mapping[str, object] | None = None,
        user_metadata: str | None = None,
        timeout: float = COMMIT_TIMEOUT,
        data_files: DataFileOptions | None = None,
    ) -> Transaction:
        """A transaction of the table that commits `stored` too; `done` is called when it has.

        Raises:
            InvalidOptionError: an argument is of the wrong type, or the position too far in.
        """
        before = self._known.get(name)
        after = _Recorded.of(stored, before)
        request = asked_of_transaction(
            operation,
            parameters=parameters,
            user_metadata=user_metadata,
            isolation=None,
            timeout=timeout,
            data_files=data_files,
        )

        def committed() -> None:
            self._known[name] = after
            if done is not None:
                done()

        def tried() -> bool:
            again = self._tried.get(name) == after
            self._tried[name] = after
            return again

        core = begin(self.table, replace(request, from_latest=True))
        return _PositionTransaction(core, name, before, after, tried, committed)

    async def aclose(self) -> None:
        """Give back nothing: the table is its owner's to close."""


class _PositionTransaction(Transaction):
    """A transaction that goes from one position of a consumer to the next, or not at all.

    One that was tried before, and has committed without that being known here, is skipped.
    """

    def __init__(
        self,
        core: TransactionCore,
        name: str,
        before: _Recorded | None,
        after: _Recorded,
        tried: Callable[[], bool],
        committed: Callable[[], None],
    ) -> None:
        super().__init__(core)
        self._name = name
        self._before = before
        self._after = after
        self._tried = tried
        self._committed = committed
        self._is_there = False

    async def __aenter__(self) -> Self:
        """Begin, and hold what the table has of the consumer to what is known here."""
        await super().__aenter__()
        try:
            found = _recorded(self._name, await self._core.base.set_transactions())
            self._is_there = self._tried() and found == self._after
            if found != self._before and not self._is_there:
                raise taken_over(self._name, self._core.root)
            for app_id, version in self._after.applications(self._name, self._before):
                self.set_transaction(app_id, version)
        except BaseException as error:
            await super().__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or give up where the block failed.

        Raises:
            ConsumerTakenOverError: another process has committed since.
            CommitConflictError: another commit came first and the work has to be done again.
        """
        try:
            await super().__aexit__(exc_type, exc, traceback)
        except ConcurrentTransactionError as error:
            raise taken_over(self._name, self._core.root) from error
        if exc_type is not None:
            return
        if self.skipped and not self._is_there:
            raise taken_over(self._name, self._core.root)
        if self.version is None and not self._is_there:
            raise InvalidUseError(f"{self._core.root}: nothing was committed")
        self._committed()
