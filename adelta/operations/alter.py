"""What the operations that change a table's metadata alone have in common."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adelta.table import Table, latest_state, open_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from adelta.transaction import Transaction

__all__ = ["AlterMetrics", "altering", "opened"]


@dataclass(frozen=True, slots=True)
class AlterMetrics:
    """The version that a change became; None where everything was as wanted already."""

    version: int | None


@asynccontextmanager
async def altering(
    table: Table | str,
    operation: str,
    parameters: Mapping[str, object],
    *,
    user_metadata: str | None,
    storage_options: Mapping[str, str] | None,
) -> AsyncIterator[tuple[Transaction, Table]]:
    """A transaction on the latest version, which is committed at the end of the block.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
    """
    async with opened(table, storage_options) as handle:
        await latest_state(handle)  # what is changed here should not be out of date already
        tx = handle.transaction(operation, parameters=parameters, user_metadata=user_metadata)
        async with tx:
            yield tx, handle


def opened(
    table: Table | str, storage_options: Mapping[str, str] | None
) -> AbstractAsyncContextManager[Table]:
    """A handle on the table, which is closed at the end of the block if it was opened here."""
    return nullcontext(table) if isinstance(table, Table) else open_table(table, storage_options)
