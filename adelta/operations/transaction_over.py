"""Transactions over several tables of one commit owner: one version of each, all of them or none.

Each table has a transaction of its own, which is filled, checked and prepared as if it were alone.
The commits are then proposed to the owner together, who ratifies all in one transaction of its
database, or none. Where one has lost a race, that one goes behind the winners, and all are proposed
again; where it cannot, none is committed.

It is the owner who decides, and readers who ask it see all or nothing. The commits are published to
each table's log one after the other. A reader of the filesystem alone may see some of them a moment
before the others, never one that was not ratified.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._async_handle import AsyncHandle
from adelta._chance import new_uuid
from adelta._concurrency import to_the_end, together
from adelta.errors import (
    ConcurrentTransactionError,
    InvalidUseError,
)
from adelta.table import begin, check_tables, states_of_one_moment
from adelta.transaction import Transaction
from adelta.write.commit_queue import commit_over
from adelta.write.commit_timeout import COMMIT_TIMEOUT
from adelta.write.transaction_request import asked_of_transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from adelta.table import Table
    from adelta.write.spec import DataFileOptions
    from adelta.write.transaction_core import TransactionCore
    from adelta.write.transaction_request import TransactionRequest

__all__ = ["TransactionOver", "transaction_over"]


def transaction_over(
    *tables: Table,
    operation: str = "WRITE",
    parameters: Mapping[str, object] | None = None,
    user_metadata: str | None = None,
    isolation: str | None = None,
    timeout: float = COMMIT_TIMEOUT,
    data_files: DataFileOptions | None = None,
    rebase: bool = True,
) -> TransactionOver:
    """Changes to be committed as one version of each table, all or none: a context manager.

    All tables have to have one commit owner, which makes the versions in one transaction of its
    database. The block is given a `Transaction` for each table, in the order of the tables, made
    against the versions that were the latest ones of all at one moment; they bear the same `txnId`.
    A table of which nothing is changed gets no version, unless something of it has been read: then
    it gets one that changes nothing, by which what was read is known to hold when the others are
    committed. Where the work of one has been done before, as `set_transaction` shows, all are
    skipped. Lost races are run again for `timeout` seconds; the other arguments are those of
    `Table.transaction`.

    The commits are published one table after the other: readers who do not ask the owner may see
    the one before the other. `snapshots` never shows half of such a transaction.

    Example::

        async with adelta.transaction_over(orders, stock) as (tx_orders, tx_stock):
            await tx_orders.append(order)
            tx_stock.remove_files(await tx_stock.read())
            await tx_stock.append(left)
        print(tx_orders.version, tx_stock.version)

    Raises:
        InvalidOptionError: no table is passed, or one twice; there is no such isolation level; or
            an argument is of the wrong type.
    """
    request = asked_of_transaction(
        operation,
        parameters=parameters,
        user_metadata=user_metadata,
        isolation=isolation,
        timeout=timeout,
        data_files=data_files,
        rebase=rebase,
    )
    check_tables(tables)
    return TransactionOver(tables, replace(request, from_latest=True))


class TransactionOver(AsyncHandle):
    """Changes of several tables that become one version of each, all or none.

    Used as an asynchronous context manager, which gives the tables' transactions: the end of the
    block commits, an error inside gives up. Where one of them cannot be committed, none is.
    """

    def __init__(self, tables: Sequence[Table], request: TransactionRequest) -> None:
        self._tables = tables
        self._request = replace(request, transaction_id=str(new_uuid()))
        self._parts: list[TransactionCore] = []
        self._begun = False

    def __repr__(self) -> str:
        named = ", ".join(table.uri for table in self._tables)
        return f"<TransactionOver {self._request.transaction_id} {named}>"

    async def __aenter__(self) -> tuple[Transaction, ...]:
        """Begin on the latest versions of one moment: the transactions, in the tables' order.

        Raises:
            InvalidUseError: it has begun before.
            InvalidOptionError: a table has no commit owner that can be asked, or another one than
                the others, or the owner cannot commit to several tables at once; or the isolation
                level is weaker than a table's.
            TableNotFoundError: there is no table, or its owner does not know it.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        """
        if self._begun:
            raise InvalidUseError("this transaction has begun before: begin another one")
        self._begun = True
        states = await states_of_one_moment(self._tables)
        parts = [
            begin(table, self._request, state=state)
            for table, state in zip(self._tables, states, strict=True)
        ]
        for part in parts:
            await part.__aenter__()  # it holds nothing yet that would have to be given back
        self._parts = parts
        return tuple(Transaction(part) for part in parts)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit all, or give all up where the block failed.

        Raises:
            InvalidUseError: a verb is still under way, or one that writes has failed.
            SchemaMismatchError: files that stay live could not be read under new metadata.
            CommitConflictError: another commit to a table, which the message names, came first and
                the work has to be done again.
            CommitOutcomeUnknownError: all commits may have happened, or none.
            StorageError: a store or the owner refused; nothing was committed.
        """
        parts, self._parts = self._parts, []
        try:
            if exc_type is None:
                await self._commit(parts)
        finally:
            await to_the_end(_conclude(parts))

    async def _commit(self, parts: Sequence[TransactionCore]) -> None:
        for part in parts:
            part.check_open("commit")
        for part in parts:
            part.check_ready()
        if all(part.is_empty for part in parts):
            for part in parts:
                part.leave_empty()
            return
        if await _are_applied(parts):
            for part in parts:
                part.skip()
            return
        taking = [part for part in parts if not part.is_empty or part.has_read]
        for part in parts:
            if part not in taking:
                part.leave_empty()
        members = [(part.queue, await part.submit()) for part in taking]
        if len(members) == 1:
            ((queue, submission),) = members
            results = [await queue.commit(submission)]
        else:
            results = await commit_over(members)
        await _conclude(taking)
        upkeep = [partial(p.keep_up, r) for p, r in zip(taking, results, strict=True)]
        await together(*upkeep)


async def _conclude(parts: Sequence[TransactionCore]) -> None:
    for part in parts:
        await part.conclude()


async def _are_applied(parts: Sequence[TransactionCore]) -> bool:
    """Whether the tables show that the work has been done.

    Raises:
        ConcurrentTransactionError: some do, and others do not.
    """
    wanting = [part for part in parts if part.records_applications]
    applied = [part for part in wanting if await part.is_applied()]
    if applied and len(applied) < len(wanting):
        other = next(part for part in wanting if part not in applied)
        raise ConcurrentTransactionError(
            f"{applied[0].root}: its application transactions have been recorded before, and those "
            f"of {other.root}, which go together with them, have not; nothing was committed: "
            "commit the work table by table",
            retryable=False,
        )
    return bool(applied)
