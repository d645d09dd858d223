"""StagedChanges: what a transaction wants to write. `kernel/transaction` decides whether it may."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_schemas import REMOVE_SCHEMA
from adelta.kernel.file_id import FileIds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.file_actions import AddCDCFile, AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction

__all__ = ["StagedChanges"]


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """Everything that one commit is to hold, but for what depends on the version it becomes.

    New files are few and come from writers as rows; `removes` may name every file of a table, so
    it is an Arrow table of `REMOVE_SCHEMA`. `transaction_id` is the `txnId` by which a writer finds
    its own commit in the log. `existing` are the added files that were not written for this commit,
    so that others may know of them; `tags` and `commit_info`, entries that the user has asked for,
    go into its provenance. `moves_rows_by_hand` is whether
    a user has added files and removed others, so that rows may have been moved without their ids.
    """

    transaction_id: str
    operation: str = "WRITE"
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    metrics: Mapping[str, object] = field(default_factory=dict, hash=False)
    user_metadata: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    commit_info: Mapping[str, object] = field(default_factory=dict, hash=False)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    set_transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    adds: tuple[AddFile, ...] = ()
    removes: pa.Table = field(default_factory=REMOVE_SCHEMA.empty_table, hash=False, compare=False)
    cdc: tuple[AddCDCFile, ...] = ()
    existing: FileIds = field(default_factory=FileIds)
    moves_rows_by_hand: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether committing this would change nothing."""
        return not (self.set_transactions or self.depends_on_table)

    @property
    def num_files(self) -> int:
        """How many file actions there are."""
        return len(self.adds) + self.removes.num_rows + len(self.cdc)

    @property
    def depends_on_table(self) -> bool:
        """Whether anything in it could disagree with the table's schema or properties.

        An entry that only says what was done, or how far an application has got, fits any table.
        """
        return bool(
            self.adds
            or self.cdc
            or self.removes.num_rows
            or self.domains
            or self.protocol
            or self.metadata
        )
