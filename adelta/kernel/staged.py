"""StagedChanges and WinningCommit: what a transaction wants to write, and what others wrote first.

Plain values. Nothing here decides anything: `kernel/transaction` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adelta.kernel.actions.file_actions import (
    ADD_SCHEMA,
    REMOVE_SCHEMA,
    AddCDCFile,
    AddFile,
)
from adelta.kernel.actions.json import VERSION_COLUMN, ActionBatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction

__all__ = ["NO_ADDS", "NO_REMOVES", "StagedChanges", "WinningCommit", "winning_commits"]

NO_ADDS: pa.Table = ADD_SCHEMA.empty_table()
NO_REMOVES: pa.Table = REMOVE_SCHEMA.empty_table()


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """Everything that one commit is to hold, but for what depends on the version it becomes.

    New files are few and come from writers as rows; `removes` may name every file of a table, so
    it is an Arrow table of `REMOVE_SCHEMA`. `transaction_id` is the `txnId` by which a writer finds
    its own commit in the log.
    """

    transaction_id: str
    operation: str = "WRITE"
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)
    user_metadata: str | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    set_transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    adds: tuple[AddFile, ...] = ()
    removes: pa.Table = field(default=NO_REMOVES, hash=False, compare=False)
    cdc: tuple[AddCDCFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether committing this would change nothing."""
        return not (
            self.adds
            or self.cdc
            or self.removes.num_rows
            or self.set_transactions
            or self.domains
            or self.protocol
            or self.metadata
        )


@dataclass(frozen=True, slots=True)
class WinningCommit:
    """One commit that took a version which a transaction wanted, or that came before it."""

    version: int
    commit_info: CommitInfo | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    set_transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    adds: pa.Table = field(default=NO_ADDS, hash=False, compare=False)
    removes: pa.Table = field(default=NO_REMOVES, hash=False, compare=False)

    @property
    def operation(self) -> str | None:
        """What the commit says it did."""
        return self.commit_info.operation if self.commit_info else None

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit says that it read nothing."""
        return bool(self.commit_info and self.commit_info.is_blind_append)


def winning_commits(batch: ActionBatch) -> tuple[WinningCommit, ...]:
    """The commits of a decoded batch, one by one in ascending order."""
    protocols, metadata = dict(batch.protocols), dict(batch.metadata)
    return tuple(
        WinningCommit(
            version=version,
            commit_info=batch.commit_infos.get(version),
            protocol=protocols.get(version),
            metadata=metadata.get(version),
            set_transactions=tuple(txn for at, txn in batch.set_transactions if at == version),
            domains=tuple(domain for at, domain in batch.domain_metadata if at == version),
            adds=_of_version(batch.adds, version),
            removes=_of_version(batch.removes, version),
        )
        for version in batch.versions
    )


def _of_version(files: pa.Table, version: int) -> pa.Table:
    if not files.num_rows:
        return files
    return files.filter(pc.equal(files.column(VERSION_COLUMN), version))
