"""Let a table support a table feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.kernel.table_features import named_feature
from adelta.kernel.table_properties import FEATURE_PREFIX
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.evolve import stage_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import TableOrAddress

__all__ = ["add_feature"]


@checked
async def add_feature(
    table: TableOrAddress,
    name: str,
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Let a table support a table feature, and those that it requires.

    Clients that lack the feature can no longer write the table, or not even read it. What the
    table's protocol versions implied stays supported. Where the table supports the feature already,
    nothing is committed. Most features have to be switched on by a property as well, which brings
    the feature along (`set_properties`).

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: adelta does not know the feature, or cannot write a table with it.
        InvalidPropertyError: the table cannot have the feature as it is.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    asked = {f"{FEATURE_PREFIX}{named_feature(name).name}": "supported"}
    async with altering(
        table,
        "SET TBLPROPERTIES",
        {"properties": asked},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, _):
        await in_thread(stage_metadata, tx, tx.metadata, asked)
    return AlterMetrics(tx.version)
