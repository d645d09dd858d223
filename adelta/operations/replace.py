"""REPLACE TABLE: another definition for a table, which is empty then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import TableAlreadyExistsError
from adelta.kernel.table_features import CLUSTERING_DOMAIN
from adelta.operations.alter import AlterMetrics
from adelta.operations.create import (
    ArrowSchema,
    definition_parameters,
    delta_schema,
    exists,
    new_table,
)
from adelta.table import begin, opened
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.kernel.transaction.creation import NewTable
    from adelta.table import TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["replace_table", "stage_definition"]


@checked
async def replace_table(
    table: TableOrAddress,
    schema: ArrowSchema | StructType | str,
    *,
    partition_by: Iterable[str] = (),
    cluster_by: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    or_create: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Replace the definition of a table and remove all of its rows, in one commit.

    Columns, partitioning, clustering and properties are as for `create_table`; nothing of those
    before is kept, and the table has a new id. Its history stays, and so do its table features:
    features are dropped by `drop_feature` alone. With `or_create` a table is created where there is
    none.

    What others add to the table meanwhile is a conflict.

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: Delta cannot have such a schema, or a partition column is not in it.
        InvalidPropertyError: a property is unknown, has a value that is not allowed, or cannot be
            changed on a table that others follow.
        InvariantViolationError: the table only takes appends.
        UnsupportedFeatureError: the table would need a feature that adelta does not have.
        InvalidUseError: the table asks for no statistics of a column that is to cluster it.
        InvalidOptionError: an option is not allowed, or the store cannot exclude other writers.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    columns = delta_schema(schema)
    clustered, partitioned = tuple(cluster_by), tuple(partition_by)

    def define(before: TableConfiguration | None) -> NewTable:
        return new_table(
            columns,
            partition_by=partitioned,
            cluster_by=clustered,
            properties=properties or {},
            name=name,
            description=description,
            instead_of=before,
        )

    request = TransactionRequest(
        operation="CREATE OR REPLACE TABLE" if or_create else "REPLACE TABLE",
        parameters=definition_parameters(
            await in_thread(define, None), clustered, properties or {}
        ),
        user_metadata=user_metadata,
        from_latest=True,
    )
    async with opened(table, storage_options) as handle:
        if or_create and not await exists(handle):
            try:
                first = await in_thread(define, None)
                async with begin(handle, request, creates=first) as tx:
                    pass
                return AlterMetrics(tx.version)
            except TableAlreadyExistsError:
                pass  # another writer's, which is replaced
        async with begin(handle, request) as tx:
            await stage_definition(tx, handle.uri, await in_thread(define, tx.configuration))
    return AlterMetrics(tx.version)


async def stage_definition(tx: TransactionCore, uri: str, wanted: NewTable) -> None:
    """Stage another definition for the table at `uri`, which was made instead of its own.

    Raises:
        InvariantViolationError: the table only takes appends.
    """
    tx.configuration.check_removable(uri)
    files = await tx.read_set()
    clustering: dict[str, str | None] = {
        domain.domain: domain.configuration for domain in wanted.domains
    }
    if await tx.read_domain(CLUSTERING_DOMAIN) is not None:
        clustering.setdefault(CLUSTERING_DOMAIN, None)
    tx.replace_definition(wanted)
    for domain, configuration in clustering.items():
        tx.staging.set_domain(domain, configuration)
    if files.num_files:
        tx.remove(files)
