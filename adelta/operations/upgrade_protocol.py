"""Raise the protocol versions of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.kernel.table_features import raised_protocol
from adelta.kernel.table_properties import PROTOCOL_KEYS
from adelta.operations.alter import AlterMetrics, altering

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["upgrade_protocol"]


@checked
async def upgrade_protocol(
    table: TableOrAddress,
    reader_version: int,
    writer_version: int,
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Let a table support all table features that a reader and a writer version stand for.

    The protocol becomes the weakest one with these and with those that the table supports already,
    be it versions alone or versions with lists of features; it never becomes weaker. Where the
    table supports them all, nothing is committed. The versions 3 and 7 stand for no feature of
    their own: features are asked for by name (`add_feature`).

    Raises:
        TableNotFoundError: there is no table.
        InvalidOptionError: there are no such versions.
        UnsupportedFeatureError: adelta cannot write a table with such a feature.
        InvalidPropertyError: the table cannot have such a feature as it is.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    versions = zip(PROTOCOL_KEYS, (reader_version, writer_version), strict=True)
    async with altering(
        table,
        "SET TBLPROPERTIES",
        {"properties": {key: str(version) for key, version in versions}},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, _):
        await in_thread(_stage, tx, reader_version, writer_version)
    return AlterMetrics(tx.version)


def _stage(tx: TransactionCore, reader: int, writer: int) -> None:
    raised = raised_protocol(tx.protocol, reader, writer)
    if raised != tx.protocol:
        tx.update_metadata(tx.metadata, raised)
