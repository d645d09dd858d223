"""CLUSTER BY: which columns rows are to be kept together by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adelta._arguments import checked
from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError
from adelta.kernel.schema.alteration import shown
from adelta.kernel.table_features import (
    CLUSTERING_DOMAIN,
    clustering_configuration,
    physical_clustering_columns,
)
from adelta.operations.alter import AlterMetrics, altering
from adelta.operations.clustering import (
    CLUSTERED,
    clustered_by,
    clustering_paths,
)
from adelta.operations.evolve import stage_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from adelta.table import TableOrAddress

__all__ = ["cluster_by"]


@checked
async def cluster_by(
    table: TableOrAddress,
    columns: Iterable[str],
    *,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AlterMetrics:
    """Name the columns by which whoever optimises the table keeps rows together; at most four.

    They replace those named before, and none of them ends clustering. Files that are there stay as
    they are. A table that is partitioned cannot be clustered. Fields of structs are named with dots
    (``address.city``).

    Raises:
        TableNotFoundError: there is no table.
        SchemaMismatchError: there is no such column, or its type has no order.
        InvalidOptionError: a column is named twice, or there are more than four.
        InvalidPropertyError: the table is partitioned.
        InvalidUseError: files have no statistics of a column, or the table asks for none.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        CommitConflictError: another commit came first and the work has to be done again.
        StorageError: the store refused or failed.
    """
    wanted = tuple(columns)
    async with altering(
        table,
        "CLUSTER BY",
        {},
        user_metadata=user_metadata,
        storage_options=storage_options,
    ) as (tx, opened):
        await in_thread(stage_metadata, tx, tx.metadata, CLUSTERED)
        configuration = tx.configuration
        paths = clustering_paths(configuration, wanted)
        before = await clustered_by(tx)
        tx.describe(
            oldClusteringColumns=",".join(map(shown, before)),
            newClusteringColumns=",".join(map(shown, paths)),
        )
        if paths != before or await tx.read_domain(CLUSTERING_DOMAIN) is None:
            added = [path for path in paths if path not in before]
            physical = physical_clustering_columns(added, tx.metadata)
            stats = (await tx.live_files()).table.column("stats")
            bare = await in_thread(_without_statistics, stats, physical) if added else 0
            if bare:
                raise InvalidUseError(
                    f"{bare} files of {opened.uri} have no statistics of "
                    f"{' or '.join(map(shown, added))}, which clustering needs; write them anew "
                    "first"
                )
            tx.staging.set_domain(CLUSTERING_DOMAIN, clustering_configuration(paths, tx.metadata))
    return AlterMetrics(tx.version)


def _without_statistics(texts: pa.ChunkedArray[Any], columns: Sequence[tuple[str, ...]]) -> int:
    """How many files have no count of nulls for one of the columns, which are physical paths."""
    bare = 0
    for chunk in texts.chunks:
        for text in chunk.to_pylist():
            counts = orjson.loads(text).get("nullCount", {}) if text else {}
            bare += not all(_leads_somewhere(counts, path) for path in columns)
    return bare


def _leads_somewhere(counts: Any, path: Sequence[str]) -> bool:
    for step in path:
        if not isinstance(counts, dict) or step not in counts:
            return False
        counts = counts[step]
    return True
