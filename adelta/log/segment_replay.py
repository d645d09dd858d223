"""SegmentReplay: what one opened segment of the log says, derived when it is first asked for.

All that is derived from a segment is kept in its replay, which never looks at another segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.replay import ReconciledTail
    from adelta.log.opened_segment import OpenedSegment

__all__ = ["SegmentReplay"]

_FILE_BYTES = 50_000  # of memory of an open file of a checkpoint, about: its footer


class SegmentReplay:
    """What one opened segment says, derived when it is first asked for.

    Attributes:
        opened: the segment.
        root: the table's URI.
    """

    def __init__(self, opened: OpenedSegment, root: str) -> None:
        self.opened = opened
        self.root = root
        self._tail: ReconciledTail | None = None
        self._tail_lock = anyio.Lock()
        self._transactions: Mapping[str, SetTransaction] | None = None
        self._domains: Mapping[str, DomainMetadata] | None = None

    @property
    def nbytes(self) -> int:
        """The memory of what has been read and derived, about, in bytes."""
        tail = 0 if self._tail is None else self._tail.nbytes
        reader = self.opened.reader
        kept = _FILE_BYTES * (0 if reader is None else reader.num_held)
        return tail + kept + sum(batch.nbytes for batch in self.opened.batches)

    async def tail(self) -> ReconciledTail:
        """What the commits after the checkpoint leave.

        Raises:
            InvalidTableError: a commit is damaged.
        """
        from adelta.log.version_replay import reconciled

        async with self._tail_lock:
            if self._tail is None:
                self._tail = await reconciled(self.opened.batches, self.root)
            return self._tail

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        """The latest `txn` of every application.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        if self._transactions is None:
            reader = self.opened.reader
            read = await reader.set_transactions() if reader else []
            found = {txn.app_id: txn for txn in read}
            for batch in self.opened.batches:
                found.update({txn.app_id: txn for _, txn in batch.set_transactions})
            self._transactions = found
        return self._transactions

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The latest `domainMetadata` of every domain, removed ones too.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        if self._domains is None:
            reader = self.opened.reader
            read = await reader.domain_metadata() if reader else []
            found = {domain.domain: domain for domain in read}
            for batch in self.opened.batches:
                found.update({domain.domain: domain for _, domain in batch.domain_metadata})
            self._domains = found
        return self._domains
