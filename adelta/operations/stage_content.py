"""What a commit does that gives a table the definition and the files of another version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features import CLUSTERING_DOMAIN

if TYPE_CHECKING:
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.transaction.creation import NewTable
    from adelta.write.transaction_core import TransactionCore

__all__ = ["stage_content"]


async def stage_content(
    tx: TransactionCore, definition: NewTable, clustering: str | None, goes: FileSet
) -> None:
    """Stage a definition, with its domain of clustering as text, and that files go.

    Raises:
        AdeltaError: the definition cannot replace the table's.
    """
    tx.replace_definition(definition)
    if await tx.read_domain(CLUSTERING_DOMAIN) != clustering:
        tx.staging.set_domain(CLUSTERING_DOMAIN, clustering)
    if goes.num_files:
        tx.remove(goes)
