"""What the operations that change a table's metadata alone have in common."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.table import begin, opened
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["AlterMetrics", "altering"]


@dataclass(frozen=True, slots=True)
class AlterMetrics:
    """The version that a change became; None where everything was as wanted already."""

    version: int | None


@asynccontextmanager
async def altering(
    table: TableOrAddress,
    operation: str,
    parameters: Mapping[str, object],
    *,
    user_metadata: str | None,
    storage_options: Mapping[str, str] | None,
) -> AsyncIterator[tuple[TransactionCore, Table]]:
    """A transaction on the latest version, which is committed at the end of the block.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
    """
    async with opened(table, storage_options) as handle:
        request = TransactionRequest(
            operation=operation,
            parameters=parameters,
            user_metadata=user_metadata,
            from_latest=True,
        )
        async with begin(handle, request) as tx:
            yield tx, handle
