"""What adelta's own operations stage in a transaction, beyond what users can."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import decode_path
from adelta.operations.copy_plan import copy_plan
from adelta.read.data_files import read_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddCDCFile, AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.roots import StoreRoots
    from adelta.transaction import Transaction
    from adelta.write.batches import Data
    from adelta.write.change_data import ChangeDataWriter
    from adelta.write.deletion_vectors import VectorsWritten

__all__ = [
    "add_again",
    "append_copies",
    "append_replacing",
    "commit_nothing",
    "copied_rows",
    "live_files",
    "metadata_before",
    "move_rows",
    "read_domains",
    "read_set",
    "remove_read",
    "remove_replaced",
    "stage_cleaned",
    "stage_domain",
    "stage_rewritten",
]


def commit_nothing(transaction: Transaction) -> None:
    """Let the transaction become a version even if it changes nothing."""
    transaction._check_open("commit_nothing")
    transaction._staging.touched = True


def stage_cleaned(transaction: Transaction, metadata: Metadata) -> None:
    """Stage metadata that no longer use a feature, whatever that feature says of it."""
    transaction._check_open("stage_cleaned")
    transaction._staging.metadata = metadata


async def read_domains(transaction: Transaction) -> Mapping[str, str]:
    """The configuration of every domain, which count as read: others must not change them."""
    transaction._check_open("read_domains")
    found = await transaction._based_on().domain_metadata()
    staging = transaction._staging
    for domain in found:
        staging.read = staging.read.with_domain(domain)
    return {name: domain.configuration for name, domain in found.items()}


def metadata_before(transaction: Transaction) -> Metadata:
    """The metadata of the version that the transaction is based on."""
    return transaction._based_on().metadata


async def live_files(transaction: Transaction) -> FileSet:
    """The live files of the version that the transaction is based on; none counts as read."""
    transaction._check_open("live_files")
    return await transaction._based_on().files()


def stage_domain(transaction: Transaction, domain: str, configuration: str | None) -> None:
    """Stage domain metadata of Delta's own; None removes them."""
    transaction._check_open("stage_domain")
    transaction._staging.domains[domain] = DomainMetadata(
        domain, configuration or "", removed=configuration is None
    )


async def append_copies(transaction: Transaction, rows: Data) -> None:
    """Write rows that are in the table already into new files, and stage these.

    The rows are complete, under the table's logical names, and with the hidden columns of row ids
    where it has these.
    """
    transaction._check_open("append_copies")
    await transaction._write(rows, content="copies")


async def append_replacing(
    transaction: Transaction, rows: Data, where: Where, changes: ChangeDataWriter | None
) -> None:
    """Write new rows in place of others, and stage their files; `changes` takes them in too.

    Raises:
        As `Transaction.append` does.
    """
    transaction._check_open("append_replacing")
    await transaction._write(rows, where, changes=changes)


def stage_rewritten(
    transaction: Transaction,
    *,
    adds: Iterable[AddFile] = (),
    cdc: Iterable[AddCDCFile] = (),
    vectors: VectorsWritten | None = None,
) -> None:
    """Stage files that an operation has written anew, change data and deletion vectors.

    All that was written is deleted where the transaction is given up.
    """
    transaction._check_open("stage_rewritten")
    staging, added, changed = transaction._staging, tuple(adds), tuple(cdc)
    transaction._written += [decode_path(file.path) for file in added]
    transaction._written += [decode_path(file.path) for file in changed]
    if added:
        staging.add(added)
    if changed:
        staging.add_changes(changed)
    if vectors is not None:
        transaction._written += vectors.paths
        staging.take_rows_out(vectors, transaction._clock.now_ms())


async def read_set(transaction: Transaction, where: Where | None) -> FileSet:
    """`Transaction.read` for any number of files: they stay columns.

    Raises:
        As `Transaction.read` does.
    """
    transaction._check_open("read_set")
    return await transaction._read(where)


def remove_read(transaction: Transaction, files: FileSet) -> None:
    """Stage the removal of files that `read_set` has found, whatever is added beside them.

    Raises:
        InvariantViolationError: the table only takes appends.
    """
    transaction._check_open("remove_read")
    transaction._configuration().check_removable(transaction._based_on().root)
    transaction._staging.remove_set(files, transaction._clock.now_ms())


def remove_replaced(transaction: Transaction, files: Iterable[AddFile]) -> None:
    """Stage the removal of files all of whose rows go, whatever is added beside them.

    What a change data feed needs is the caller's to see to.

    Raises:
        InvariantViolationError: the table only takes appends.
    """
    transaction._check_open("remove_replaced")
    transaction._configuration().check_removable(transaction._based_on().root)
    transaction._staging.remove(files, transaction._clock.now_ms(), data_change=True)


def add_again(transaction: Transaction, files: Iterable[AddFile]) -> None:
    """Stage live files once more, with what they lacked; they count as read."""
    transaction._check_open("add_again")
    transaction._staging.add_again(files)


async def copied_rows(
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    where: Node | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of `files` for which `where` is true, with their ids where the table has these."""
    plan = copy_plan(configuration, where)
    async with aclosing(read_files(roots, plan, files)) as tables:
        async for table in tables:
            for batch in table.to_batches():
                yield batch


async def move_rows(
    transaction: Transaction,
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
) -> None:
    """Stage the rows of `files`, read by `configuration`, in new files; no data change.

    The new files are as the metadata that are staged ask for.
    """
    transaction.remove_files(files, data_change=False)
    adds = transaction._staging.adds
    before = len(adds)
    async with aclosing(copied_rows(roots, configuration, files)) as rows:
        await append_copies(transaction, rows)
    adds[before:] = [replace(file, data_change=False) for file in adds[before:]]
