"""Staging: what a transaction has gathered so far, before it is one frozen value to commit."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._arrow_values import scalar_of
from adelta._chance import new_uuid
from adelta.errors import InvalidUseError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_schemas import REMOVE_SCHEMA
from adelta.kernel.file_id import FileId, FileIds
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.staged import StagedChanges
from adelta.kernel.table_features import IDENTITY_ADVANCED, with_high_water_marks
from adelta.kernel.transaction.read_set import ReadSet
from adelta.kernel.transaction.removal import removals, removes_table
from adelta.write.metrics import added_metrics, vector_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.actions.file_actions import AddCDCFile, AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.file_set import FileSet
    from adelta.write.deletion_vectors import VectorsWritten
    from adelta.write.transaction_request import TransactionRequest

__all__ = ["Staging"]


class Staging:
    """The changes of one transaction while they are gathered. Used by one task at a time.

    Attributes:
        root: the table's address.
        transaction_id: the `txnId` that the commit will bear.
        operation: what the history calls it.
        parameters: what the history says of how it was done.
        tags: what its provenance says beside.
        metrics: `operationMetrics` so far.
        read: what has been read.
        adds: files to add.
        removes: files to remove, of `REMOVE_SCHEMA`.
        cdc: change data files.
        set_transactions: application transactions by application.
        domains: domain metadata by domain.
        protocol: a new protocol.
        metadata: new metadata.
        existing: files to add that were not written for this transaction.
        existing_new: those of them that a user has staged as new ones.
        must_be_live: files that are removed or added again, and of which it has to be seen that
            they are live at the version that the transaction is based on.
        read_live: files of which that has been seen.
        fits_kept: whether files that stay are known to fit the metadata that are staged.
        replaces_by_hand: whether a user has staged files to remove that take rows out of the table.
        touched: whether files were staged, or would have been had there been any.
    """

    def __init__(
        self,
        root: str,
        request: TransactionRequest,
        now_ms: int,
    ) -> None:
        self.root = root
        self.transaction_id = request.transaction_id or str(new_uuid())
        self.operation = request.operation
        self.parameters: dict[str, object] = dict(request.parameters)
        self.user_metadata = request.user_metadata
        self.tags: dict[str, str] = {}
        self.metrics: dict[str, int] = {}
        self.read = ReadSet()
        self.adds: list[AddFile] = []
        self.removes: pa.Table = pa.Table.from_batches([], REMOVE_SCHEMA)
        self.cdc: list[AddCDCFile] = []
        self.set_transactions = request.applications(now_ms)
        self.domains: dict[str, DomainMetadata] = {}
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.existing = FileIds()
        self.existing_new = FileIds()
        self.must_be_live = FileIds()
        self.read_live = FileIds()
        self.fits_kept = False
        self.touched = False
        self.replaces_by_hand = False
        self._by_hand = request.by_hand
        self._added_by_hand = False
        self._removed_by_hand = False

    @property
    def depends_on_base(self) -> bool:
        """Whether anything hangs on the version that the transaction is based on."""
        return (
            self.touched
            or self.protocol is not None
            or self.metadata is not None
            or bool(self.domains)
            or self.read.has_domains
            or not self.read.is_empty
        )

    # ------------------------------------------------------------------------- files that come in

    def read_whole_table(self) -> None:
        """Take note that all files of the version that it began on have been read."""
        self.read = self.read.with_whole_table()

    def mark_read(self, files: Iterable[AddFile]) -> None:
        """Take note that the rows of live files have been read."""
        self._rest_on(FileIds.of(files, self.root))

    def add_existing(self, files: Iterable[AddFile]) -> None:
        """Take in files to add that were not written for this transaction."""
        taken = tuple(files)
        ids = FileIds.of(taken, self.root)
        self.existing |= ids
        self.existing_new |= ids
        self.add(taken)

    def settle_existing(self, live: FileIds) -> None:
        """Tell files that exist already and are live from those that are new to the table.

        `live` are the files that are live at the base. One that is there already is added again:
        its rows are no news. One that is new gets row ids of this table.

        Raises:
            InvalidUseError: live files are added again while others are removed.
        """
        if not len(self.existing_new):
            return
        again = self.existing_new & live
        if len(again) and self.removes.num_rows:
            raise InvalidUseError(
                f"the file {again.first().path!r} is live already, and is added again in a "
                "transaction that removes others; leave it out, or add it again by itself"
            )
        new = set(self.existing_new.without(again).texts.to_pylist())
        repeated = set(again.texts.to_pylist())
        for place, file in enumerate(self.adds):
            text = FileId.of(file, self.root).text
            if text in repeated:
                self.adds[place] = replace(file, data_change=False)
            elif text in new and file.base_row_id is not None:
                self.adds[place] = replace(file, base_row_id=None, default_row_commit_version=None)

    def add(self, files: Iterable[AddFile]) -> None:
        """Take in files to add."""
        taken = tuple(files)
        self.adds.extend(taken)
        self._added_by_hand |= self._by_hand
        for name, value in added_metrics(taken).items():
            self._count(name, value)
        self.touched = True

    def add_again(self, files: Iterable[AddFile]) -> None:
        """Take in live files to add once more without a change of data; they count as read."""
        taken = tuple(replace(file, data_change=False) for file in files)
        if not taken:
            return
        self.adds.extend(taken)
        again = FileIds.of(taken, self.root)
        self.existing |= again
        self._rest_on(again)
        self.touched = True

    def bring_back(self, files: Iterable[AddFile]) -> None:
        """Take in files to add that were in the table once, as they were then.

        All files that stay were in the table then too, and can be read by its metadata.
        """
        taken = tuple(files)
        self.adds.extend(taken)
        self.existing |= FileIds.of(taken, self.root)
        self.fits_kept = True
        self.touched = True

    def add_changes(self, files: Iterable[AddCDCFile]) -> None:
        """Take in change data files."""
        taken = tuple(files)
        self.cdc.extend(taken)
        self._count("numAddedChangeFiles", len(taken))
        self._count("changeFileBytes", sum(file.size for file in taken))

    def advance_identities(self, metadata: Metadata, marks: Mapping[str, int]) -> None:
        """Stage `metadata` with the values that identity columns have come to."""
        if not marks:
            return
        if self.metadata is None:
            self.tags[IDENTITY_ADVANCED] = "true"
        schema = with_high_water_marks(metadata.schema, marks)
        self.metadata = replace(metadata, schema_string=schema_to_string(schema))

    # ---------------------------------------------------------------------------- files that go

    def remove(self, files: Iterable[AddFile], now_ms: int, *, data_change: bool = True) -> None:
        """Take in live files to remove, which count as read."""
        taken = tuple(files)
        self._removed_by_hand |= self._by_hand
        self.replaces_by_hand |= self._by_hand and data_change
        rows = removes_table(file.remove(now_ms, data_change=data_change) for file in taken)
        self.removes = pa.concat_tables([self.removes, rows]) if self.removes.num_rows else rows
        self._rest_on(FileIds.of(taken, self.root))
        self._count("numRemovedFiles", len(taken))
        self._count("numRemovedBytes", sum(file.size for file in taken))
        self.touched = True

    def take_rows_out(self, written: VectorsWritten, now_ms: int) -> None:
        """Take in files under new deletion vectors, in place of themselves; they count as read."""
        rows = removes_table(file.remove(now_ms) for file in written.replaced)
        self.removes = pa.concat_tables([self.removes, rows])
        self._rest_on(FileIds.of(written.replaced, self.root))
        self.adds.extend(written.replacements)
        self.existing |= FileIds.of(written.replacements, self.root)
        for name, value in vector_metrics(written).items():
            self._count(name, value)
        self.touched = True

    def remove_set(self, files: FileSet, now_ms: int) -> None:
        """Take in the removal of files that have been read in this very transaction."""
        self.removes = pa.concat_tables([self.removes, removals(files.table, now_ms)])
        self._count("numRemovedFiles", files.num_files)
        self._count("numRemovedBytes", files.total_bytes)
        self.touched = True

    def rearrange(self) -> None:
        """Say of all files that come and go that no row does."""
        self.adds = [replace(file, data_change=False) for file in self.adds]
        place = self.removes.schema.get_field_index("data_change")
        values = pa.repeat(scalar_of(False, pa.bool_()), self.removes.num_rows)
        self.removes = self.removes.set_column(place, REMOVE_SCHEMA.field(place), values)

    # ------------------------------------------------------------------------------ what is beside

    def set_domain(self, domain: str, configuration: str | None) -> None:
        """Take in the configuration of a domain; None removes it."""
        removed = configuration is None
        self.domains[domain] = DomainMetadata(domain, configuration or "", removed)

    def frozen(self) -> StagedChanges:
        """Everything that the commit is to hold."""
        return StagedChanges(
            transaction_id=self.transaction_id,
            operation=self.operation,
            parameters=MappingProxyType(dict(self.parameters)),
            metrics=MappingProxyType(dict(self.metrics)),
            user_metadata=self.user_metadata,
            tags=MappingProxyType(dict(self.tags)),
            protocol=self.protocol,
            metadata=self.metadata,
            set_transactions=tuple(self.set_transactions.values()),
            domains=tuple(self.domains.values()),
            adds=tuple(self.adds),
            removes=self.removes,
            cdc=tuple(self.cdc),
            existing=self.existing,
            moves_rows_by_hand=self._added_by_hand and self._removed_by_hand,
        )

    def _rest_on(self, ids: FileIds) -> None:
        """Take note that the changes rest on files, which have to be live."""
        self.must_be_live |= ids
        self.read = self.read.with_files(ids)

    def _count(self, name: str, value: int) -> None:
        self.metrics[name] = self.metrics.get(name, 0) + value
