"""What adelta's own operations stage in a transaction, beyond what users can."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.scan_plan import ROW_COMMIT_VERSION, ROW_ID, plan_columns
from adelta.read.data_files import read_files
from adelta.transaction import append_copies

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.roots import StoreRoots
    from adelta.transaction import Transaction

__all__ = ["commit_nothing", "copied_rows", "move_rows", "stage_cleaned", "stage_domain"]


def commit_nothing(transaction: Transaction) -> None:
    """Let the transaction become a version even if it changes nothing."""
    transaction._check_open("commit_nothing")
    transaction._staging.touched = True


def stage_cleaned(transaction: Transaction, metadata: Metadata) -> None:
    """Stage metadata that no longer use a feature, whatever that feature says of it."""
    transaction._check_open("stage_cleaned")
    transaction._staging.metadata = metadata


def stage_domain(transaction: Transaction, domain: str, configuration: str | None) -> None:
    """Stage domain metadata of Delta's own; None removes them."""
    transaction._check_open("stage_domain")
    transaction._staging.domains[domain] = DomainMetadata(
        domain, configuration or "", removed=configuration is None
    )


async def copied_rows(
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    where: Node | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of `files` for which `where` is true, with their ids where the table has these."""
    hidden = configuration.row_id_columns
    plan = plan_columns(
        configuration.schema,
        columns=None,
        where=where,
        partition_columns=configuration.partition_columns,
        mapping_mode=configuration.column_mapping_mode,
        row_ids=hidden,
        row_id_names=hidden or (ROW_ID, ROW_COMMIT_VERSION),
    )
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
