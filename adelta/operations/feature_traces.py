"""The commit that removes whatever uses a table feature from the latest version of a table.

DROP FEATURE begins with this commit. Setting `delta.columnMapping.mode` to ``none`` is this commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta import _compute as pc
from adelta._concurrency import in_thread, map_concurrent
from adelta.kernel.file_set import FileSet
from adelta.kernel.schema.names import check_column_names
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import dependants
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.clustering import keep_clustering
from adelta.operations.copies import move_rows
from adelta.read.opener import open_data_file
from adelta.table import roots_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.table_features import Removal, TableFeature
    from adelta.table import Table, TableOrAddress

__all__ = ["remove_traces", "with_values"]

_FOOTERS_AT_ONCE = 32


async def remove_traces(
    table: TableOrAddress,
    feature: TableFeature,
    removal: Removal,
    *,
    parameters: Mapping[str, object],
    properties: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Commit a version that does not use `feature`, unless the latest version is one already.

    The result has no version in that case.

    Data files are rewritten where their rows depend on the feature. `properties` are set in the
    same commit. The protocol stays as it is.

    Raises:
        InvalidPropertyError: an enabled feature needs this one.
        SchemaMismatchError: a column has a name that only mapped columns may have.
    """
    async with altering(
        table,
        removal.operation,
        parameters,
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, handle):
        before = tx.configuration
        files = await (tx.read_set() if removal.exclusive else tx.live_files())
        marked = await in_thread(with_values, files, *removal.cleared)
        moved = await _files_to_rewrite(handle, removal, files, before.metadata)
        cleaned = await in_thread(removal.cleaned, before.metadata)
        if properties:
            cleaned = cleaned.with_configuration({**cleaned.configuration, **properties})
        if cleaned != before.metadata:
            after = TableConfiguration(before.protocol, cleaned)
            mapped = after.column_mapping_mode != "none"
            await in_thread(check_column_names, cleaned.schema, mapped=mapped)
            for dependant in dependants(before.protocol, feature):
                dependant.check(None, after)
            await keep_clustering(tx, cleaned)
            tx.staging.metadata = cleaned
        if removal.domains is None:
            for domain in await tx.read_domains():
                tx.staging.set_domain(domain, None)
        if moved:
            await move_rows(tx, roots_of(handle), before, moved)
        if marked.num_files:
            cleared: dict[str, Any] = dict.fromkeys(removal.cleared)
            tx.staging.add_again(replace(file, **cleared) for file in marked.rows())
    return AlterMetrics(tx.version)


async def _files_to_rewrite(
    table: Table, removal: Removal, files: FileSet, metadata: Metadata
) -> list[AddFile]:
    """Those of `files` whose rows depend on the feature."""
    clean = removal.clean
    if not removal.all_files(metadata):
        return list((await in_thread(with_values, files, removal.column)).rows())
    every = list(files.rows())
    if clean is None:
        return every

    async def is_clean(file: AddFile) -> bool:
        opened_file = await open_data_file(roots_of(table), file)
        return clean(opened_file.layout.schema, metadata)

    done = await map_concurrent(is_clean, every, limit=_FOOTERS_AT_ONCE)
    return [file for file, is_done in zip(every, done, strict=True) if not is_done]


def with_values(files: FileSet, *columns: str | None) -> FileSet:
    """Those of `files` whose action has a value in one of the columns."""
    present: Any = None  # the stubs know no function of two columns
    for column in columns:
        if column is not None:
            valid = files.table.column(column).is_valid()
            present = valid if present is None else pc.or_(present, valid)
    return FileSet(files.table.slice(0, 0) if present is None else files.table.filter(present))
