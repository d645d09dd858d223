"""TransactionCore: what every transaction is inside, adelta's own operations included.

Its verbs read the table, write rows and stage changes; `TransactionLife` begins it and commits it.
Creating a table is a transaction without a base, which becomes version 0.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError
from adelta.kernel.file_id import FileIds
from adelta.kernel.file_set import FileSet
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import DOMAIN_METADATA, check_change, check_succession
from adelta.write.conditions import condition_of
from adelta.write.spec import WriteSpec
from adelta.write.transaction_life import Stage, TransactionLife

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddCDCFile, AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.transaction.creation import NewTable
    from adelta.write.batches import Data
    from adelta.write.change_data import ChangeDataWriter
    from adelta.write.deletion_vectors import VectorsWritten
    from adelta.write.spec import DataFileOptions, FileContent

__all__ = ["TransactionCore"]


class TransactionCore(TransactionLife):
    """Changes that become one version of a table, all or nothing: how they are gathered."""

    @property
    def data_files(self) -> DataFileOptions:
        """How its data files are to be."""
        return self._request.data_files

    def describe(self, **parameters: object) -> None:
        """Add to what the history will say of how the operation was done."""
        self._staging.parameters.update(parameters)

    async def read_set(self, where: Where | None = None) -> FileSet:
        """The live files that may hold rows for which `where` is true, which count as read.

        The first read looks at the latest version, as long as nothing has been staged.

        Raises:
            InvalidExpressionError: the predicate cannot be parsed, or does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        self.check_open("read")
        if self._creates is not None:
            self._staging.read_whole_table()
            return FileSet.empty()
        await self._take_latest()
        predicate = await condition_of(where, now=moment(self._clock))
        if predicate is None:
            self._staging.read_whole_table()
            return await self.base.files()
        from adelta.kernel.data_skipping.prune import Skipping

        now = self.configuration
        skipping = await in_thread(
            Skipping.of,
            predicate,
            now.schema,
            now.partition_columns,
            mode=now.column_mapping_mode,
        )
        found = await self.base.files_matching(skipping)
        files = await in_thread(FileIds.of_table, found.table, self.root)
        self._staging.read = self._staging.read.with_predicate(skipping).with_files(files)
        self._staging.read_live |= files
        return found

    async def read(self, where: Where | None = None) -> list[AddFile]:
        """`read_set` as rows.

        Raises: as `read_set` does.
        """
        found = await self.read_set(where)
        return await in_thread(lambda: list(found.rows()))

    async def live_files(self) -> FileSet:
        """The live files of the version that the transaction is based on; none counts as read.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        self.check_open("live_files")
        return await self.base.files()

    async def read_domains(self) -> Mapping[str, str]:
        """The configuration of every domain; others must not change any, or add one.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        self.check_open("read_domains")
        self._staging.read = self._staging.read.with_all_domains()
        found = await self.base.domain_metadata()
        return {name: domain.configuration for name, domain in found.items()}

    async def read_domain(self, name: str) -> str | None:
        """The configuration of a domain, None where there is none; others must not change it.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        self.check_open("read_domain")
        self._staging.read = self._staging.read.with_domain(name)
        if not self.base.configuration.supports(DOMAIN_METADATA):
            return None
        found = (await self.base.domain_metadata()).get(name)
        return None if found is None else found.configuration

    async def write(
        self,
        data: Data,
        where: Where | None = None,
        content: FileContent = "rows",
        *,
        data_change: bool = True,
        changes: ChangeDataWriter | None = None,
    ) -> list[AddFile]:
        """Write the rows of `data` into new files, and stage these; the files.

        With the content ``copies`` they are rows of the table, complete, under its logical names,
        with the hidden columns of row ids where it has these. `changes` takes in the rows too.
        Where the work has been done before, nothing is written.

        Raises:
            InvalidUseError: the transaction has ended before all was written.
            InvalidOptionError: `data` holds no rows.
            SchemaMismatchError: its columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null, or a row violates
                a constraint of the table or `where`.
            InvalidExpressionError: a constraint, or `where`, cannot be evaluated.
        """
        self.check_open("append")
        if await self.is_applied():
            self._staging.touched = True
            return []
        from adelta.write.batches import record_batches  # not loaded by what writes no rows
        from adelta.write.write_data_files import write_rows

        now = moment(self._clock)
        spec = WriteSpec.of(
            self.configuration,
            files=self._request.data_files,
            where=await condition_of(where, now=now),
            content=content,
            zone=self._request.assignment_zone or "UTC",
            now=now,
            assigns=self._request.assignment_zone is not None,
        )
        async with aclosing(record_batches(data)) as batches:
            written = await write_rows(self.store, spec, batches, changes=changes)
            self.own(written.files)
        files = list(written.files)
        if self.stage is not Stage.OPEN:
            await self.refuse_late(files)
        if not data_change:
            files = [replace(file, data_change=False) for file in files]
        self._staging.parameters.setdefault("partitionBy", list(spec.partition_columns))
        self._staging.add(files)
        self._staging.advance_identities(self.metadata, written.high_water_marks)
        return files

    async def overwrite(self, data: Data) -> None:
        """Stage the removal of every live file of the latest version, and rows in their place.

        Where something has been read or staged before, it is the version that this was based on.

        Raises:
            InvalidUseError: something else has been staged before.
            InvariantViolationError: the table only takes appends.
            AdeltaError: as `write` does.
        """
        self.check_untouched()
        await self._take_latest()
        self.configuration.check_removable(self.root)
        if await self.is_applied():
            self._staging.touched = True
            return
        self._staging.read_whole_table()
        live = await self.base.files()
        await self.write(data)
        self._staging.parameters.setdefault("mode", "Overwrite")
        self._staging.remove_set(live, self.now_ms)

    def check_untouched(self) -> None:
        """Refuse to overwrite where files have been staged.

        Raises:
            InvalidUseError: they have.
        """
        if self.staging.touched:
            raise InvalidUseError("overwrite() comes first: other files have been staged before it")

    async def _take_latest(self) -> None:
        """Begin anew from the latest version, while nothing depends on the one begun with.

        One that was asked for stays: what was found of it depends on it.
        """
        told = self._request.at_version is not None
        if told or self._staging.depends_on_base or self.has_looked:
            return
        self.take_base(await self._source.latest_state())

    def stage_written(
        self,
        *,
        adds: Iterable[AddFile] = (),
        cdc: Iterable[AddCDCFile] = (),
    ) -> None:
        """Stage files that an operation has written, and change data; own them.

        Raises:
            InvalidUseError: the transaction is not open.
        """
        added, changed = tuple(adds), tuple(cdc)
        self.own(added)
        self.own(changed)
        staging = self.staging
        if added:
            staging.add(added)
        if changed:
            staging.add_changes(changed)

    async def stage_rewrite(
        self,
        *,
        adds: Sequence[AddFile] = (),
        cdc: Sequence[AddCDCFile] = (),
        vectors: VectorsWritten | None = None,
        removed: Sequence[AddFile] = (),
    ) -> None:
        """Stage what an operation has written, and the removal of live files all of whose rows go.

        There may be very many. What is written is owned before anything is waited for.

        Raises:
            InvalidUseError: the transaction is not open.
            InvariantViolationError: the table only takes appends.
        """
        self.own(adds)
        self.own(cdc)
        self.own_paths(vectors.paths if vectors is not None else ())
        staging, now_ms = self.staging, self.now_ms
        if removed or vectors is not None:
            self.configuration.check_removable(self.root)

        def stage() -> None:
            if adds:
                staging.add(adds)
            if cdc:
                staging.add_changes(cdc)
            if vectors is not None:
                staging.take_rows_out(vectors, now_ms)
            if removed:
                staging.remove(removed, now_ms)

        await in_thread(stage)

    def remove(self, files: FileSet | Iterable[AddFile]) -> None:
        """Stage the removal of live files all of whose rows go, whatever is added beside them.

        A `FileSet` is one that this transaction has read. What a change data feed needs is the
        caller's to see to.

        Raises:
            InvariantViolationError: the table only takes appends.
        """
        self.configuration.check_removable(self.root)
        if isinstance(files, FileSet):
            self.staging.remove_set(files, self.now_ms)
        else:
            self.staging.remove(files, self.now_ms)

    def update_metadata(self, metadata: Metadata, protocol: Protocol | None = None) -> None:
        """Stage new metadata, and a new protocol where the metadata need one.

        Raises:
            InvalidUseError: the transaction is not open, or files have been staged before.
            UnsupportedFeatureError: the table would need a feature that adelta does not have.
            InvalidPropertyError: a feature of the table does not allow such properties.
            SchemaMismatchError: a feature of the table does not allow such a schema.
            InvalidTableError: ids or physical names of columns are wrong.
        """
        staging = self.staging
        if staging.touched:
            raise InvalidUseError("update_metadata() comes before the files that it is for")
        before = self.configuration
        changed = TableConfiguration(protocol or before.protocol, metadata)
        check_change(before, changed)
        changed.check_writable(self.root)
        staging.metadata = metadata
        staging.protocol = protocol or staging.protocol

    def replace_definition(self, table: NewTable) -> None:
        """Stage the metadata of another table in place of this one's, and its protocol.

        That files which stay can be read by it is the caller's to see to.

        Raises:
            InvalidUseError: the transaction is not open.
            UnsupportedFeatureError: the table would need a feature that adelta does not have.
            InvalidPropertyError: clients that follow the table could not follow this one.
        """
        table.configuration.check_writable(self.root)
        check_succession(self.base.configuration, table.configuration)
        staging = self.staging
        staging.metadata = table.metadata
        if table.protocol != self.base.protocol:
            staging.protocol = table.protocol
