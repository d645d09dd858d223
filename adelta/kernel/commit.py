"""Commit: one version's entry in the log, from its decoding to whoever judges, keeps or follows it.

A commit that a transaction lost against is called the winning commit, as in Delta's kernels.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.json import VERSION_COLUMN, ActionBatch, decode_commits
from adelta.kernel.position import Position
from adelta.kernel.timestamps import from_ms

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.actions.set_transaction import SetTransaction

__all__ = ["Commit", "decode_commit"]

_NO_INFO = CommitInfo()


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table.

    `info` is its provenance, empty where the writer left it out. `actions` are the same commit as
    log replay takes it. `modified_ms` is the modification time of its file, where that is known,
    and `table_id` the id of the table, where who read the commit has told it.
    """

    version: int
    info: CommitInfo
    protocol: Protocol | None
    metadata: Metadata | None
    set_transactions: tuple[SetTransaction, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    actions: ActionBatch = field(repr=False, compare=False)
    modified_ms: int | None = field(default=None, repr=False, compare=False)
    table_id: str | None = field(default=None, repr=False, compare=False)

    @property
    def timestamp(self) -> datetime:
        """When it was made: its in-commit timestamp, else its file's modification time, in UTC."""
        return from_ms(self.timestamp_ms or 0)

    @property
    def timestamp_ms(self) -> int | None:
        """`timestamp` in milliseconds since the Unix epoch; None where nothing tells."""
        stamp = self.info.in_commit_timestamp
        return self.modified_ms if stamp is None else stamp

    @property
    def position(self) -> Position:
        """Where to go on after this commit."""
        return Position(self.version + 1, table_id=self.table_id)

    @property
    def adds(self) -> pa.Table:
        """The files added, of `ADD_SCHEMA`; paths are percent-encoded, as the log has them."""
        return self.actions.adds.drop_columns([VERSION_COLUMN])

    @property
    def removes(self) -> pa.Table:
        """The files removed, of `REMOVE_SCHEMA`; paths are percent-encoded."""
        return self.actions.removes.drop_columns([VERSION_COLUMN])

    @property
    def cdc(self) -> pa.Table:
        """The files of row changes, of `CDC_SCHEMA`; paths are percent-encoded."""
        return self.actions.cdc.drop_columns([VERSION_COLUMN])


def decode_commit(version: int, data: bytes, modified_ms: int | None = None) -> Commit:
    """The commit file of `version` decoded.

    Raises:
        InvalidTableError: the file is damaged.
    """
    actions = decode_commits([(version, data)], lazily=True)
    protocols, metadata = actions.protocols, actions.metadata
    return Commit(
        version=version,
        info=actions.commit_infos.get(version, _NO_INFO),
        protocol=protocols[-1][1] if protocols else None,
        metadata=metadata[-1][1] if metadata else None,
        set_transactions=tuple(txn for _, txn in actions.set_transactions),
        domain_metadata=tuple(domain for _, domain in actions.domain_metadata),
        actions=actions,
        modified_ms=modified_ms,
    )
