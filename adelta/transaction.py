"""Transaction: stage changes, commit them as one version, on a lost race rebase and try again.

A commit is optimistic. It is put straight onto the version after the one that the transaction was
made against; where another writer has that version, the commits that came between are read and
judged, and the same changes are put after them. Data files are written once, whatever happens. An
append to an open table costs one request beside its data files, a small one for the version that it
builds on, which `write_table` makes while the rows are uploaded, and one for upkeep after it. The
transactions of one process on one table commit in turn, without racing each other.

An error inside the ``async with`` block, or a conflict, leaves the table as it was, and the data
files that the transaction wrote are deleted again. Only where nobody can say whether the commit
happened, `CommitOutcomeUnknownError`, is everything left as it is.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from adelta._arguments import check_flag, check_long, check_text
from adelta._async_handle import AsyncHandle
from adelta._fields import check_fields
from adelta.errors import InvalidOptionError, InvalidUseError, UnsupportedFeatureError
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.table_features import DOMAIN_METADATA, supported_names
from adelta.kernel.transaction.precommit import check_existing_files, check_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.dnf import Where
    from adelta.write.batches import Data
    from adelta.write.transaction_core import TransactionCore

__all__ = ["Transaction"]


class Transaction(AsyncHandle):
    """Changes that become one version of a table, all or nothing.

    Used as an asynchronous context manager: the end of the block commits, an error inside gives up.
    Its verbs are called one after the other: a second one at a time is refused. Where `append` or
    `overwrite` fails, nothing is committed any more, even if the error is caught inside the block.

    Example::

        async with table.transaction() as tx:
            await tx.append(data)
            tx.set_transaction("nightly-load", 7)
        print(tx.version)
    """

    def __init__(self, core: TransactionCore) -> None:
        self._core = core

    def __repr__(self) -> str:
        return repr(self._core)

    # ------------------------------------------------------------------------------- what it is

    @property
    def version(self) -> int | None:
        """The version that it became; None before the commit, or where nothing was committed."""
        return self._core.version

    @property
    def skipped(self) -> bool:
        """Whether nothing was committed because `set_transaction` showed the work as done."""
        return self._core.skipped

    @property
    def metrics(self) -> Mapping[str, int]:
        """`operationMetrics` of the commit: files, rows and bytes that it added and removed.

        Empty where nothing was committed.
        """
        return MappingProxyType(self._core.metrics)

    @property
    def read_version(self) -> int:
        """The version that the changes are made against.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self._core.base.version

    @property
    def metadata(self) -> Metadata:
        """The table's metadata that the changes are made for: as it was read, or as staged.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self._core.metadata

    @property
    def protocol(self) -> Protocol:
        """The table's protocol that the changes are made for: as it was read, or as staged.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self._core.protocol

    # ------------------------------------------------------------------------------- verbs

    async def read(self, where: Where | None = None) -> list[AddFile]:
        """The live files that may hold rows for which `where` is true, which count as read.

        Another commit that adds such files before this one is a conflict, and so is one that takes
        rows out of the files found. Files that others only rearrange hold the same rows as before:
        they conflict where this transaction removes them too, and whoever takes rows out of the new
        files is in conflict as before. The first read looks at the latest version, as long as
        nothing has been staged.

        Raises:
            InvalidUseError: the transaction is not open, or another verb is under way.
            InvalidExpressionError: the predicate cannot be parsed, or does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        with self._core.verb("read"):
            return await self._core.read(where)

    def mark_read(self, files: Iterable[AddFile]) -> None:
        """Declare that the rows of `files` were read, beside those that `read` has found.

        They have to be live at the version that the transaction is based on. Another commit that
        takes rows out of them before this one is a conflict.

        Raises:
            InvalidUseError: the transaction is not open, or another verb is under way.
            InvalidOptionError: `files` is no list of `AddFile`.
        """
        with self._core.verb("mark_read") as staging:
            staging.mark_read(check_files(files))

    async def append(
        self, data: Data, where: Where | None = None, *, data_change: bool = True
    ) -> list[AddFile]:
        """Write the rows of `data` into new files, and stage these; the files.

        Every row has to satisfy `where`. `data_change` is False where the rows are in the table
        already, in files that this transaction removes, also with `data_change` False. Where
        `set_transaction` has been called and shows the work as done, nothing is written.

        Raises:
            InvalidUseError: the transaction is not open, another verb is under way, or the
                transaction has ended before all was written.
            InvalidOptionError: `data` holds no rows.
            SchemaMismatchError: its columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null, or a row violates
                a constraint of the table or `where`.
            InvalidExpressionError: a constraint, or `where`, cannot be evaluated.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        """
        check_flag("data_change", data_change)
        with self._core.verb("append", writes=True) as staging:
            staging.parameters.setdefault("mode", "Append")
            return await self._core.write(data, where, data_change=data_change)

    async def overwrite(self, data: Data) -> None:
        """Stage the removal of every live file, and the rows of `data` in their place.

        The files are those of the latest version at this moment. A commit that adds or removes
        files after that is a conflict.

        Raises:
            InvalidUseError: something else has been staged before, or another verb is under way.
            InvalidOptionError: `data` holds no rows.
            SchemaMismatchError: its columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null, a row violates a
                constraint of the table, or the table only takes appends.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        """
        with self._core.verb("overwrite"):
            self._core.check_untouched()
        with self._core.verb("overwrite", writes=True):
            await self._core.overwrite(data)

    def add_files(self, files: Iterable[AddFile]) -> None:
        """Stage data files that are in place already, such as those of `write_data_files`.

        Nobody opens the files: what they say of their rows, by statistics and partition values, has
        to be true. The files stay where they are if the transaction is given up.

        Raises:
            InvalidUseError: the transaction is not open, or another verb is under way.
            InvalidOptionError: `files` is no list of `AddFile`, the text of a partition value is
                not one of its column's type, or statistics are not the JSON that Delta has.
        """
        with self._core.verb("add_files") as staging:
            staging.parameters.setdefault("mode", "Append")
            staging.add_existing(check_existing_files(files, self._core.configuration))

    def remove_files(self, files: Iterable[AddFile], *, data_change: bool = True) -> None:
        """Stage the removal of live files, which count as read.

        They have to be live at the version that the transaction is based on, as those are that
        `read` has found: others are refused at the end of the block. `data_change` is False where
        the same rows are added again in other files. A table with a change data feed takes rows out
        with the whole file only: removing files and adding others in one transaction would need
        change data files, and is refused.

        Raises:
            InvalidUseError: the transaction is not open, or another verb is under way.
            InvariantViolationError: the table only takes appends.
            InvalidOptionError: `files` is no list of `AddFile`.
        """
        with self._core.verb("remove_files") as staging:
            taken = check_files(files)
            check_flag("data_change", data_change)
            if not taken:
                return
            if data_change:
                self._core.configuration.check_removable(self._core.root)
            staging.remove(taken, self._core.now_ms, data_change=data_change)

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record with the commit that the application `app_id` has got to `version`.

        Where the table shows that it has got there before, or another writer records it first, the
        whole transaction is skipped. So a batch that is written again after a crash is written
        once. Call it before `append`, and a skipped batch is not even written to files. Where the
        table shows that of one application and not of another one, the transaction is refused.

        Raises:
            InvalidUseError: the transaction is not open, another verb is under way, or the
                application is set already.
            InvalidOptionError: `app_id` is no text, or `version` no whole number of 64 bits.
        """
        with self._core.verb("set_transaction") as staging:
            check_text("app_id", app_id)
            check_long("version", version)
            if app_id in staging.set_transactions:
                raise InvalidUseError(
                    f"the application {app_id!r} is set by this transaction already"
                )
            staging.set_transactions[app_id] = SetTransaction(app_id, version, self._core.now_ms)

    def set_domain_metadata(self, domain: str, configuration: str | None) -> None:
        """Stage the configuration of a domain of the user's own; None removes it.

        Another commit that changes the domain before this one is a conflict.

        Raises:
            InvalidUseError: the transaction is not open, or another verb is under way.
            InvalidOptionError: the domain's name is empty, Delta's own or no text, or the
                configuration is no text.
            UnsupportedFeatureError: the table does not support domain metadata.
        """
        with self._core.verb("set_domain_metadata") as staging:
            check_text("domain", domain)
            if configuration is not None:
                check_text("configuration", configuration)
            if not domain or domain.lower().startswith("delta."):
                raise InvalidOptionError(
                    f"the domain {domain!r} cannot be set: names that begin with 'delta.' are "
                    "Delta's own; choose another one"
                )
            if not self._core.configuration.supports(DOMAIN_METADATA):
                raise UnsupportedFeatureError(
                    f"{self._core.root} does not support domain metadata; add the feature "
                    f"{DOMAIN_METADATA.name} first (add_feature)"
                )
            staging.set_domain(domain, configuration)

    def update_metadata(self, metadata: Metadata, protocol: Protocol | None = None) -> None:
        """Stage new metadata, and a new protocol where the metadata need one.

        Files that are staged afterwards are written for the new metadata. Files that stay live have
        to be readable under them: other partition columns, and types, ids or physical names of
        columns that no operation of adelta's would give them, are refused at the end of the block,
        unless the transaction removes every file.

        Raises:
            InvalidUseError: the transaction is not open, another verb is under way, or files have
                been staged before.
            UnsupportedFeatureError: the table would need a feature that adelta does not have.
            InvalidPropertyError: a feature of the table does not allow such properties.
            SchemaMismatchError: a feature of the table does not allow such a schema.
            InvalidOptionError: they are of another type, or of another table.
            InvalidTableError: ids or physical names of columns are wrong.
        """
        with self._core.verb("update_metadata"):
            given: tuple[object, object] = (metadata, protocol)
            if not isinstance(given[0], Metadata) or not isinstance(given[1], Protocol | None):
                raise InvalidOptionError(
                    f"({metadata!r:.60}, {protocol!r:.60}) is no Metadata and Protocol; change "
                    "those of the transaction by dataclasses.replace"
                )
            check_fields(metadata)
            if protocol is not None:
                check_fields(protocol)
            known = set(supported_names(self._core.protocol))
            gone = sorted(known - set(supported_names(protocol or self._core.protocol)))
            if gone:
                raise InvalidOptionError(
                    f"the table supports {gone[0]}, which the new protocol does not, and its files "
                    "and its log may need it; go from the transaction's protocol, or drop the "
                    "feature by drop_feature"
                )
            if metadata.id != self._core.metadata.id:
                raise InvalidOptionError(
                    f"the id of a table cannot change, and {metadata.id!r:.60} is another one"
                )
            self._core.update_metadata(metadata, protocol)

    # ------------------------------------------------------------------------------- the block

    async def __aenter__(self) -> Self:
        """Begin: take the state that the table has at hand.

        Raises:
            InvalidUseError: it has begun before.
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
            InvalidOptionError: the store cannot exclude other writers, or the isolation level is
                weaker than the table's.
        """
        await self._core.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or give up where the block failed.

        Raises:
            InvalidUseError: a verb is still under way, or `append` or `overwrite` has failed;
                nothing was committed.
            SchemaMismatchError: files that stay live could not be read under new metadata; nothing
                was committed.
            CommitConflictError: another commit came first and the work has to be done again.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; nothing was committed.
        """
        await self._core.__aexit__(exc_type, exc, traceback)
